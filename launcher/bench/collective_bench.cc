// weft bench collective: times the collectives of a group, as nccl-tests measure them. On a GPU it times each
// collective as issued by the host, and as replayed from a recording.
#include <algorithm>
#include <array>
#include <optional>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/bus_bandwidth.h"
#include "launcher/bench/collective_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/base/memory.h"
#include "weft/dist/group/nccl/nccl_windows.h"

namespace weft {
namespace {

// Enough calls that the launch of a recording costs little in comparison, and few enough that the recording stays
// small.
constexpr int64_t kMinRecorded = 4, kMaxRecorded = 256;

absl::StatusOr<std::vector<CollectiveOp>> OpsOf(const BenchWords& words, int ranks) {
  std::vector<std::string> choices;
  for (const CollectiveTraits& row : kCollectiveTraits) choices.emplace_back(row.name);
  std::vector<std::string> names = choices;
  bool all = words.op == "all";
  if (!all) {
    absl::StatusOr<std::vector<std::string>> given =
        ParseNames("op", words.op.empty() ? "all_reduce,all_gather,reduce_scatter" : words.op, choices);
    if (!given.ok()) return given.status();
    names = *given;
  }
  std::vector<CollectiveOp> ops;
  for (const std::string& name : names) {
    auto op = CollectiveOp(std::find(choices.begin(), choices.end(), name) - choices.begin());
    if (!IsPointToPoint(op) || ranks > 1)
      ops.push_back(op);
    else if (!all)
      return absl::InvalidArgumentError(
          fmt::format("{}op: expected 2 ranks or more for {}, got 1; start more with ranks=N", kCommandLine, name));
  }
  return ops;
}

absl::StatusOr<ProcessGroup*> GroupOf(const BenchJob& job) {
  if (job.device != DeviceKind::kCpu && job.context.world_size() == 1)
    return absl::InvalidArgumentError(
        fmt::format("{}collective: expected 2 ranks or more on GPUs, since one moves nothing, got 1; start more with "
                    "ranks=N, or give device=cpu",
                    kCommandLine));
  if (job.words.axis == "world") return &job.mesh.World(job.device);
  std::vector<std::string> choices = job.mesh.shape().names;
  choices.emplace_back("world");
  absl::StatusOr<std::vector<std::string>> axis = ParseNames("axis", job.words.axis, choices);
  if (!axis.ok()) return axis.status();
  if (axis->size() != 1)
    return absl::InvalidArgumentError(fmt::format("{}axis: expected one axis, got {:?}", kCommandLine, job.words.axis));
  ProcessGroup& group = job.mesh.Group((*axis)[0], job.device);
  if (group.size() == 1 && job.context.world_size() > 1)
    return absl::InvalidArgumentError(
        fmt::format("{}axis: expected one with 2 ranks or more, got {}, which has 1 and moves nothing; give mesh.{}=N",
                    kCommandLine, (*axis)[0], (*axis)[0]));
  return &group;
}

// Returns which memory the calls use; none if it is ordinary.
absl::StatusOr<std::optional<WindowUse>> MappedMemory(const BenchJob& job) {
  absl::StatusOr<std::vector<std::string>> memory =
      ParseNames("memory", job.words.memory, {"ordinary", "copied", "symmetric"});
  if (!memory.ok()) return memory.status();
  if (memory->size() != 1)
    return absl::InvalidArgumentError(
        fmt::format("{}memory: expected one kind, got {:?}", kCommandLine, job.words.memory));
  if (memory->front() == "ordinary") return std::nullopt;
  if (!job.on_gpu() || job.words.axis == "world")
    return absl::InvalidArgumentError(fmt::format("{}memory: expected ordinary {}, got {}; {}", kCommandLine,
                                                  job.on_gpu() ? "with axis=world" : "on a CPU", memory->front(),
                                                  job.on_gpu()
                                                      ? "give one of the mesh's axes as axis, or memory=ordinary"
                                                      : "give device=cuda, or memory=ordinary"));
  const std::vector<std::string>& axes = job.mesh.shape().names;
  return WindowUse{int(std::ranges::find(axes, job.words.axis) - axes.begin()),
                   memory->front() == "copied" ? WindowEngine::kCopies : WindowEngine::kKernels};
}

class CollectiveBench {
 public:
  CollectiveBench(const BenchJob& job, ProcessGroup& group, std::optional<WindowUse> mapped)
      : job_(job), group_(group), mapped_(mapped), device_(job.context.device(job.device)) {}

  void Run(const CollectiveCase::What& what) {
    CollectiveCase one(group_, device_, what, MemoryFor(what));
    int64_t wrong = WrongOnce(one, [&] { one.Enqueue(); });
    CallTimes times = job_.Time([&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) one.Enqueue();
    });
    Print(what, one.bytes(), "eager", times, wrong);
    RunRecorded(what, one, std::clamp(times.calls, kMinRecorded, kMaxRecorded));
  }
  int64_t wrong() const { return wrong_; }

 private:
  // Returns memory for both buffers if it is mapped into other ranks.
  BufferPtr MemoryFor(const CollectiveCase::What& what) const {
    size_t bytes = CollectiveCase::MemoryOf(group_, what);
    if (!mapped_ || what.op == CollectiveOp::kBarrier) return nullptr;
    std::array uses{*mapped_};
    absl::StatusOr<BufferPtr> memory = AllocateWindows(job_.mesh, {.uses = uses, .bytes = bytes, .layout = bytes});
    if (memory.ok()) return *memory;
    Fail(fmt::format("memory={}: {}", job_.words.memory, std::string(memory.status().message())));
  }

  // Returns the number of wrong elements on all ranks after one run on reset buffers.
  int64_t WrongOnce(CollectiveCase& one, absl::FunctionRef<void()> run) {
    one.Reset();
    run();
    int64_t wrong = one.Wrong();
    job_.mesh.World().AllReduce(&wrong, &wrong, 1, DType::kI64);
    wrong_ += wrong;
    return wrong;
  }

  void RunRecorded(const CollectiveCase::What& what, CollectiveCase& one, int64_t recorded) {
    device_.Synchronize();
    auto recording = device_.Record([&] {
      for (int64_t i = 0; i < recorded; i++) one.Enqueue();
    });
    if (!recording) return;
    int64_t wrong = WrongOnce(one, [&] { recording->Replay(); });
    CallTimes times = job_.Time([&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) recording->Replay();
    });
    Print(what, one.bytes(), "graph", times.PartOf(recorded), wrong);
    device_.Synchronize();  // the host must not issue a collective of this group while the recording still runs
  }

  void Print(const CollectiveCase::What& what, int64_t bytes, const char* mode, CallTimes times, int64_t wrong) const {
    double gb_per_s = double(bytes) / times.Median() / 1e6;
    bool moves = bytes > 0;
    BenchLine line{.kind = "collective", .dtype = Name(what.dtype), .unit = "GB/s bus"};
    line.name = fmt::format("{} {}{}", Name(what.op), moves ? BytesText(size_t(bytes)) + " " : "", mode);
    line.labels = {{"op", Name(what.op)}, {"mode", mode}, {"axis", job_.words.axis}, {"memory", job_.words.memory}};
    line.sizes = {{"bytes", bytes}, {"group_ranks", group_.size()}};
    if (moves) line.rate = gb_per_s * BusFactor(what.op, group_.size());
    if (moves) line.more.emplace_back("algorithm_gb_per_s", gb_per_s);
    line.more.emplace_back("wrong", double(wrong));
    line.times = std::move(times);
    job_.Print(line);
  }

  const BenchJob& job_;
  ProcessGroup& group_;
  std::optional<WindowUse> mapped_;
  DeviceRuntime& device_;
  int64_t wrong_ = 0;
};

}  // namespace

absl::Status RunCollectiveBench(const BenchJob& job) {
  absl::StatusOr<ProcessGroup*> group = GroupOf(job);
  if (!group.ok()) return group.status();
  absl::StatusOr<std::optional<WindowUse>> mapped = MappedMemory(job);
  if (!mapped.ok()) return mapped.status();
  absl::StatusOr<std::vector<CollectiveOp>> ops = OpsOf(job.words, (*group)->size());
  if (!ops.ok()) return ops.status();
  absl::StatusOr<std::vector<int64_t>> sizes = ParseBytes("bytes", job.words.bytes, job.words.factor);
  if (!sizes.ok()) return sizes.status();
  absl::StatusOr<std::vector<DType>> dtypes = BenchDTypes(job.words, "f32", /*floating=*/false);
  if (!dtypes.ok()) return dtypes.status();
  job.PrintHead();
  CollectiveBench bench(job, **group, *mapped);
  for (DType dtype : *dtypes)
    for (CollectiveOp op : *ops)
      for (int64_t bytes : *sizes) {
        bench.Run({op, dtype, bytes});
        if (op == CollectiveOp::kBarrier) break;  // a barrier has no size
      }
  if (bench.wrong() == 0) return absl::OkStatus();
  return absl::AbortedError(
      fmt::format("weft bench: expected every element of every result as the inputs make it, got {} "
                  "wrong ones; the lines with \"wrong\" above 0 say in which collective",
                  bench.wrong()));
}

}  // namespace weft
