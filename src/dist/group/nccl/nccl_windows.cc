#include "weft/dist/group/nccl/nccl_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/nccl/nccl_group.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/dist/group/nccl/nccl_window.h"
#include "weft/dist/signals/hang_guard.h"

namespace weft {
namespace {

constexpr DeviceKind kGpu = DeviceKind::kCuda;
using Engine = WindowEngine;

size_t NumCopied(std::span<const WindowUse> uses) {
  return size_t(std::ranges::count(uses, Engine::kCopies, &WindowUse::engine));
}

absl::Status Fault(const std::exception& e) { return absl::UnavailableError(e.what()); }

// Memory of ncclMemAlloc and its windows.
class WindowMemory {
 public:
  WindowMemory(std::shared_ptr<const NcclLibrary> library, StreamedDevice& device)
      : library_(std::move(library)), device_(device) {}
  ~WindowMemory();
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;

  absl::Status Allocate(size_t bytes);
  // Registers the memory for use number `index` of the request, whose group this is. Collective over the group.
  absl::Status Register(NcclGroup& group, const WindowRequest& request, size_t index);
  // Tries the window of that use. Collective over the group.
  absl::Status Try(NcclGroup& group, const WindowRequest& request, size_t index) const;
  // The memory as a buffer of `bytes`, which keeps `self`.
  static BufferPtr ToBuffer(std::shared_ptr<WindowMemory> self, size_t bytes);

 private:
  bool IsLeft() const;
  char* StagingOf(const WindowRequest& request, size_t index) const;

  std::shared_ptr<const NcclLibrary> library_;
  StreamedDevice& device_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
  std::map<size_t, NcclWindow> windows_;  // by use, which is the order of registration
  std::vector<std::shared_ptr<NcclCopies>> copies_;
  std::unique_ptr<Buffer> buffer_;
};

absl::Status WindowMemory::Allocate(size_t bytes) try {
  device_.ReturnUnused();
  void* data = nullptr;
  nccl::Result result = library_->MemAlloc(&data, bytes);
  if (result != nccl::Result::kSuccess || !data)
    return absl::ResourceExhaustedError(
        fmt::format("ncclMemAlloc of {}: {}", BytesText(bytes), library_->Describe(result, nullptr)));
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
  device_.CountOutside(int64_t(bytes_));
  return absl::OkStatus();
} catch (const std::exception& e) {
  return Fault(e);
}

// Only gathers by copy engines have a staging area.
char* WindowMemory::StagingOf(const WindowRequest& request, size_t index) const {
  return data_ + WindowOffset(request.bytes, NumCopied(request.uses.first(index)));
}

absl::Status WindowMemory::Register(NcclGroup& group, const WindowRequest& request, size_t index) {
  bool copied = request.uses[index].engine == Engine::kCopies;
  if (!copied) group.AllowSymmetric();
  absl::StatusOr<NcclWindow> made = NcclWindow::Register(copied ? group.copies()->comm() : group.comm(), data_, bytes_);
  if (!made.ok()) return made.status();
  windows_.emplace(index, *std::move(made));
  if (!copied) return absl::OkStatus();
  group.copies()->Add({.data = data_, .bytes = request.bytes, .staging = StagingOf(request, index)});
  copies_.push_back(group.copies());
  return absl::OkStatus();
}

absl::Status WindowMemory::Try(NcclGroup& group, const WindowRequest& request, size_t index) const {
  char* at = request.uses[index].engine == Engine::kCopies ? StagingOf(request, index) : data_;
  return windows_.at(index).Try(at, device_, group.rank(), group.size());
}

// Whether calls may use the memory that do not end, on this rank or another.
bool WindowMemory::IsLeft() const {
  if (std::uncaught_exceptions() > 0 || device_.failure()) return true;
  return std::ranges::any_of(windows_, [](const auto& window) { return window.second.comm().aborted(); });
}

// NCCL's windows go before their memory, in the reverse order of registration.
WindowMemory::~WindowMemory() {
  bool left = IsLeft();
  for (const auto& copies : copies_) copies->Remove(data_);
  try {
    if (!left) device_.Synchronize();
    for (auto it = windows_.rbegin(); it != windows_.rend() && !left; ++it) it->second.Deregister();
  } catch (const std::exception&) {
    left = true;  // the device failed meanwhile, which its next use reports
  }
  if (left || !data_) return;
  library_->MemFree(data_);
  device_.CountOutside(-int64_t(bytes_));
}

BufferPtr WindowMemory::ToBuffer(std::shared_ptr<WindowMemory> self, size_t bytes) {
  self->buffer_ = std::make_unique<Buffer>(self->data_, bytes, self->device_.device(), nullptr, &self->device_);
  Buffer* buffer = self->buffer_.get();
  return {std::move(self), buffer};
}

absl::Status SeveralHosts(const NcclGroup& group) {
  return absl::FailedPreconditionError(fmt::format(
      "the ranks of group \"{}\" are on several hosts, and a GPU reaches the memory of one host only", group.name()));
}

// Returns the first fault of a check that is collective over the axis of each use. It is made for all of them, because
// the ranks of another group may find no fault.
absl::Status OverUses(const WindowRequest& request, absl::FunctionRef<absl::Status(size_t)> check) {
  absl::Status first;
  for (size_t i = 0; i < request.uses.size(); i++)
    if (absl::Status status = check(i); first.ok()) first = status;
  return first;
}

// Only ranks of a group need the same layout.
absl::Status CheckLayout(DeviceMesh& mesh, const WindowRequest& request) {
  return OverUses(request, [&](size_t i) {
    ProcessGroup& group = mesh.Group(request.uses[i].axis);
    std::vector<std::string> all = GatherBytes(group, fmt::format("{} {}", request.bytes, request.layout));
    auto other = std::ranges::find_if(all, [&](const std::string& layout) { return layout != all[0]; });
    if (other == all.end()) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "expected collectives over {} at the same offsets on all ranks, got others on rank {} than on rank {}",
        group.name(), group.ranks()[size_t(other - all.begin())], group.ranks()[0]));
  });
}

// Returns which uses there will be. The memory of another host cannot be mapped, so kernels leave out an axis whose
// ranks are on several hosts. All ranks of a group return the same about it.
absl::StatusOr<std::vector<bool>> UsesOnHosts(DeviceMesh& mesh, const WindowRequest& request,
                                              const std::vector<NcclGroup*>& groups) {
  std::vector<bool> used;
  absl::Status fault = OverUses(request, [&](size_t i) {
    std::vector<std::string> hosts = GatherBytes(mesh.Group(request.uses[i].axis), groups[i]->host());
    used.push_back(std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts[0]; }));
    if (used[i] || request.uses[i].engine == Engine::kKernels) return absl::OkStatus();
    return SeveralHosts(*groups[i]);
  });
  if (!fault.ok()) return fault;
  if (std::ranges::find(used, true) == used.end()) return SeveralHosts(*groups.front());
  return used;
}

absl::StatusOr<std::vector<NcclGroup*>> GroupsOf(DeviceMesh& mesh, const WindowRequest& request) {
  std::vector<NcclGroup*> groups;
  for (const WindowUse& use : request.uses) {
    auto* group = dynamic_cast<NcclGroup*>(&mesh.Group(use.axis, kGpu));
    if (!group)
      return absl::UnimplementedError(
          fmt::format("the group of axis {} is not NCCL's", mesh.shape().names[size_t(use.axis)]));
    if (absl::Status status = group->MayHaveWindows(); !status.ok()) return status;
    groups.push_back(group);
  }
  return groups;
}

const char* WithoutIt(const WindowUse& use) {
  return use.engine == Engine::kCopies ? "parallel.gather=kernels" : "parallel.symmetric_memory=false";
}

HangGuard GuardOf(const NcclGroup& group, const WindowUse& use, const std::string& call) {
  return group.Guard(fmt::format("{} ({} does without)", call, WithoutIt(use)));
}

}  // namespace

// Before each step that waits for other ranks, the ranks agree that all of them can take it.
absl::StatusOr<BufferPtr> AllocateWindows(DeviceMesh& mesh, const WindowRequest& request) {
  ProcessGroup& world = mesh.World();
  if (absl::Status status = FirstFault(world, CheckLayout(mesh, request)); !status.ok()) return status;
  absl::StatusOr<std::vector<NcclGroup*>> groups = GroupsOf(mesh, request);
  if (absl::Status status = FirstFault(world, groups.status()); !status.ok()) return status;
  absl::StatusOr<std::vector<bool>> used = UsesOnHosts(mesh, request, *groups);
  if (absl::Status status = FirstFault(world, used.status()); !status.ok()) return status;
  auto agree = [&](absl::FunctionRef<absl::Status(NcclGroup&, size_t)> step) {
    for (size_t i = 0; i < groups->size(); i++)
      if (absl::Status status = FirstFault(world, (*used)[i] ? step(*(*groups)[i], i) : absl::OkStatus()); !status.ok())
        return status;
    return absl::OkStatus();
  };
  absl::Status status = agree([&](NcclGroup& group, size_t i) {
    if (request.uses[i].engine == Engine::kKernels) return absl::OkStatus();
    HangGuard guard = GuardOf(group, request.uses[i], "ncclCommSplit");
    return group.ConnectCopies();
  });
  if (!status.ok()) return status;
  NcclGroup& first = *groups->front();
  auto memory = std::make_shared<WindowMemory>(first.comm()->shared_library(), first.streams());
  status = FirstFault(world, memory->Allocate(WindowBytes(request.bytes, NumCopied(request.uses))));
  if (!status.ok()) return status;
  status = agree([&](NcclGroup& group, size_t i) {
    HangGuard guard = GuardOf(group, request.uses[i], "ncclCommWindowRegister");
    return memory->Register(group, request, i);
  });
  if (!status.ok()) return status;
  status = agree([&](NcclGroup& group, size_t i) {
    HangGuard guard = GuardOf(group, request.uses[i], "a first gather in a window");
    return memory->Try(group, request, i);
  });
  if (!status.ok()) return status;
  return WindowMemory::ToBuffer(std::move(memory), request.bytes);
}

std::string WindowFault(std::span<const WindowUse> uses, const absl::Status& fault) {
  std::vector<std::string> keys, without;
  for (Engine engine : {Engine::kCopies, Engine::kKernels}) {
    auto use = std::ranges::find(uses, engine, &WindowUse::engine);
    if (use == uses.end()) continue;
    without.emplace_back(WithoutIt(*use));
    keys.emplace_back(engine == Engine::kCopies ? "parallel.gather=copy" : "parallel.symmetric_memory=true");
  }
  return fmt::format("expected windows of NCCL, as {} needs, got: {}; give {}", fmt::join(keys, " with "),
                     std::string(fault.message()), fmt::join(without, " and "));
}

}  // namespace weft
