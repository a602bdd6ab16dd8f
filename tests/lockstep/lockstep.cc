#include "lockstep/lockstep.h"

#include <map>

#include "weft/dist/group/collectives.h"
#include "weft/dist/group/group_factory.h"
#include "weft/dist/group/local/combine.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::test {

// Each step runs up to twice. In the first pass every rank publishes its input of the step's collective and gets no
// result. If any rank did so, the step runs again, and this time every rank can read what the others have published.
class LockstepWorld {
 public:
  enum class Pass { kPublish, kCombine };

  // A group: per rank, the call that it has published, with a copy of its input.
  struct Room {
    struct Slot {
      bool published = false;
      Collective call;
      std::vector<std::byte> input;
      std::vector<int64_t> counts;
    };
    std::vector<Slot> slots;
  };

  std::shared_ptr<Room> Join(const std::string& name, const std::vector<int>& ranks) {
    auto& room = rooms_[{name, ranks}];
    if (!room) room = std::make_shared<Room>();
    room->slots.resize(ranks.size());
    return room;
  }
  void BeginStep() {
    pass_ = Pass::kPublish;
    if (any_published_)
      for (auto& [key, room] : rooms_)
        for (Room::Slot& slot : room->slots) slot.published = false;
    any_published_ = false;
  }
  void BeginCombine() { pass_ = Pass::kCombine; }
  void Publish(Room::Slot& slot, const Collective& call, int size) {
    WEFT_CHECK(!slot.published, "lockstep: expected rows of one collective each, got one of several");
    auto* bytes = static_cast<const std::byte*>(call.in);
    slot.input.assign(bytes, bytes + InputBytes(call, size));
    slot.call = call;
    slot.call.in = slot.input.data();
    KeepCounts(slot.call, slot.counts);
    slot.published = any_published_ = true;
  }
  Pass pass() const { return pass_; }
  bool any_published() const { return any_published_; }

 private:
  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<Room>> rooms_;
  Pass pass_ = Pass::kPublish;
  bool any_published_ = false;
};

namespace {

class LockstepGroup : public ProcessGroup {
 public:
  LockstepGroup(std::string name, int rank, const std::vector<int>& ranks, DeviceKind kind, LockstepWorld& world)
      : ProcessGroup(name, rank, ranks, kind), world_(world), room_(world.Join(name, ranks)) {}
  ~LockstepGroup() override { StopLanes(); }
  void Abort(const std::string&) override {}  // no rank waits

 protected:
  void Execute(const Collective& call, uint64_t, Deadline) override {
    if (world_.pass() == LockstepWorld::Pass::kPublish)
      return world_.Publish(room_->slots[size_t(rank())], call, size());
    auto calls = [this](int r) -> const Collective& {
      WEFT_CHECK(room_->slots[size_t(r)].published, "lockstep: a rank of the group makes no call here");
      return room_->slots[size_t(r)].call;
    };
    CheckCalls(call, rank(), size(), calls);
    Combine(call, rank(), size(), calls);
  }

 private:
  LockstepWorld& world_;
  std::shared_ptr<LockstepWorld::Room> room_;
};

class LockstepFactory final : public GroupFactory {
 public:
  LockstepFactory(LockstepWorld& world, int rank) : world_(world), rank_(rank) {}
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override {
    auto rank = int(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    return std::make_unique<LockstepGroup>(name, rank, ranks, kind, world_);
  }

 private:
  LockstepWorld& world_;
  int rank_;
};

// CPU memory that is used again once nobody refers to it. Programs of a few small values otherwise spend much of their
// time in allocations. Each buffer has its own allocation, so a sanitizer still sees its bounds.
class RecycledMemory final : public DeviceRuntime {
 public:
  Device device() const override { return {}; }
  std::string name() const override { return CpuRuntime().name(); }
  BufferPtr Allocate(size_t bytes) override {
    size_t blocks = (bytes + kBlock - 1) / kBlock;
    if (blocks >= rings_.size()) rings_.resize(blocks + 1);
    Ring& ring = rings_[blocks];
    for (size_t tried = 0; tried < ring.buffers.size(); tried++) {
      ring.next = (ring.next + 1) % ring.buffers.size();
      if (ring.buffers[ring.next].use_count() == 1) return ring.buffers[ring.next];
    }
    return ring.buffers.emplace_back(AllocateCpu(blocks * kBlock));
  }
  BufferPtr TryAllocateStaging(size_t bytes) override { return Allocate(bytes); }
  void Copy(void* to, const void* from, size_t bytes) override { CpuRuntime().Copy(to, from, bytes); }
  void Fill(void* data, uint8_t byte, size_t bytes) override { CpuRuntime().Fill(data, byte, bytes); }
  void Synchronize() override {}
  std::unique_ptr<Event> NewEvent() override { return CpuRuntime().NewEvent(); }
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) override { return CpuRuntime().Record(fn); }
  Memory MemoryNow() const override { return CpuRuntime().MemoryNow(); }
  size_t PeakBytes() const override { return CpuRuntime().PeakBytes(); }

 private:
  static constexpr size_t kBlock = 64;  // AllocateCpu rounds up to as much
  struct Ring {
    std::vector<BufferPtr> buffers;
    size_t next = 0;
  };
  std::vector<Ring> rings_;  // by size in blocks
};

DeviceMesh MakeMesh(Context& context, const MeshShape& shape, LockstepWorld& world) {
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  context.AddDevice(std::make_unique<RecycledMemory>());
  LockstepFactory groups(world, context.rank());
  return DeviceMesh(context, groups, shape);
}

}  // namespace

LockstepRanks::Rank::Rank(int rank, const MeshShape& shape, LockstepWorld& world, Binder bind,
                          const InterpretOptions& options)
    : context(rank, shape.num_ranks()),
      mesh(MakeMesh(context, shape, world)),
      runtime{&context, &mesh, shape, mesh.coords()},
      interpreter(runtime, std::move(bind), options) {}

LockstepRanks::LockstepRanks(const MeshShape& mesh, RankBinder bind, const InterpretOptions& options)
    : bind_(std::move(bind)), world_(std::make_unique<LockstepWorld>()) {
  for (int r = 0; r < mesh.num_ranks(); r++) {
    Binder mine = [this, r](const std::string& name, const ValueInfo& info) { return bind_(r, name, info); };
    ranks_.push_back(std::make_unique<Rank>(r, mesh, *world_, std::move(mine), options));
  }
}
LockstepRanks::~LockstepRanks() = default;

void LockstepRanks::Run(const LocalProgram& program, const Done& done) {
  InterpretPlan plan(program);
  for (auto& rank : ranks_) rank->interpreter.Begin(plan);
  for (const InterpretPlan::Step& step : plan.steps) RunStep(step);
  for (int r = 0; r < size(); r++) done(r, ranks_[size_t(r)]->interpreter);
}

void LockstepRanks::RunStep(const InterpretPlan::Step& step) {
  world_->BeginStep();
  for (auto& rank : ranks_) rank->interpreter.Run(step);
  if (world_->any_published()) {
    world_->BeginCombine();
    for (auto& rank : ranks_) rank->interpreter.Run(step);
  }
  for (auto& rank : ranks_) rank->interpreter.Release(step);
}

}  // namespace weft::test
