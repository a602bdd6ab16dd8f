#include "weft/dist/group/nccl/nccl_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/nccl/nccl_group.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/dist/signals/hang_guard.h"

namespace weft {
namespace {

constexpr DeviceKind kGpu = DeviceKind::kCuda;

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
  // Collective over the group of `copies`, which is number `index` of the request.
  absl::Status Register(std::shared_ptr<NcclCopies> copies, const WindowRequest& request, size_t index);
  const void* data() const { return data_; }
  // The memory as a buffer of `bytes`, which keeps `self`.
  static BufferPtr ToBuffer(std::shared_ptr<WindowMemory> self, size_t bytes);

 private:
  bool IsLeft() const;

  std::shared_ptr<const NcclLibrary> library_;
  StreamedDevice& device_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
  std::vector<std::shared_ptr<NcclCopies>> copies_;  // in the order of registration
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

absl::Status WindowMemory::Register(std::shared_ptr<NcclCopies> copies, const WindowRequest& request, size_t index) {
  char* staging = data_ + WindowOffset(request.bytes, index);
  absl::Status status = copies->Register(data_, bytes_, {.data = data_, .bytes = request.bytes, .staging = staging});
  if (status.ok()) copies_.push_back(std::move(copies));
  return status;
}

// Whether calls may use the memory that do not end, on this rank or another.
bool WindowMemory::IsLeft() const {
  if (std::uncaught_exceptions() > 0 || device_.failure()) return true;
  for (const auto& copies : copies_)
    if (copies->comm().aborted()) return true;
  return false;
}

// NCCL's windows go before their memory, in the reverse order of registration.
WindowMemory::~WindowMemory() {
  bool left = IsLeft();
  try {
    if (!left) device_.Synchronize();
    for (auto it = copies_.rbegin(); it != copies_.rend(); ++it) left ? (*it)->Forget(data_) : (*it)->Deregister(data_);
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

// Returns the first fault of a check that is collective over each axis of the request. It is made for all axes, because
// the ranks of another group may find no fault.
absl::Status OverAxes(const WindowRequest& request, absl::FunctionRef<absl::Status(size_t)> check) {
  absl::Status first;
  for (size_t i = 0; i < request.axes.size(); i++)
    if (absl::Status status = check(i); first.ok()) first = status;
  return first;
}

// Only ranks of a group need the same layout.
absl::Status CheckLayout(DeviceMesh& mesh, const WindowRequest& request) {
  return OverAxes(request, [&](size_t i) {
    ProcessGroup& group = mesh.Group(request.axes[i]);
    std::vector<std::string> all = GatherBytes(group, fmt::format("{} {}", request.bytes, request.layout));
    auto other = std::ranges::find_if(all, [&](const std::string& layout) { return layout != all[0]; });
    if (other == all.end()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("expected gathers over {} at the same offsets on all ranks, got others on rank {} than on rank {}",
                    group.name(), group.ranks()[size_t(other - all.begin())], group.ranks()[0]));
  });
}

// Copy engines reach the memory of one host.
absl::Status CheckHosts(DeviceMesh& mesh, const WindowRequest& request, const std::vector<NcclGroup*>& groups) {
  return OverAxes(request, [&](size_t i) {
    std::vector<std::string> hosts = GatherBytes(mesh.Group(request.axes[i]), groups[i]->host());
    if (std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts[0]; })) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "the ranks of group \"{}\" are on several hosts, and copy engines reach one host only", groups[i]->name()));
  });
}

absl::StatusOr<std::vector<NcclGroup*>> GroupsOf(DeviceMesh& mesh, const WindowRequest& request) {
  std::vector<NcclGroup*> groups;
  for (int axis : request.axes) {
    auto* group = dynamic_cast<NcclGroup*>(&mesh.Group(axis, kGpu));
    if (!group)
      return absl::UnimplementedError(
          fmt::format("the group of axis {} is not NCCL's", mesh.shape().names[size_t(axis)]));
    if (absl::Status status = group->MayCopy(); !status.ok()) return status;
    groups.push_back(group);
  }
  return groups;
}

}  // namespace

// Before each step that waits for other ranks, the ranks agree that all of them can take it.
absl::StatusOr<BufferPtr> AllocateWindows(DeviceMesh& mesh, const WindowRequest& request) {
  ProcessGroup& world = mesh.World();
  if (absl::Status status = FirstFault(world, CheckLayout(mesh, request)); !status.ok()) return status;
  absl::StatusOr<std::vector<NcclGroup*>> groups = GroupsOf(mesh, request);
  if (absl::Status status = FirstFault(world, groups.status()); !status.ok()) return status;
  if (absl::Status status = FirstFault(world, CheckHosts(mesh, request, *groups)); !status.ok()) return status;
  auto agree = [&](absl::FunctionRef<absl::Status(NcclGroup&)> step) {
    for (NcclGroup* group : *groups)
      if (absl::Status status = FirstFault(world, step(*group)); !status.ok()) return status;
    return absl::OkStatus();
  };
  if (absl::Status status = agree([](NcclGroup& group) { return group.ConnectCopies(); }); !status.ok()) return status;
  NcclGroup& first = *groups->front();
  auto memory = std::make_shared<WindowMemory>(first.copies()->comm().shared_library(), first.streams());
  absl::Status allocated = memory->Allocate(WindowBytes(request.bytes, request.axes.size()));
  if (absl::Status status = FirstFault(world, allocated); !status.ok()) return status;
  size_t index = 0;
  absl::Status status = agree([&](NcclGroup& group) {
    HangGuard guard = group.Guard("ncclCommWindowRegister");
    return memory->Register(group.copies(), request, index++);
  });
  if (!status.ok()) return status;
  status = agree([&](NcclGroup& group) {
    HangGuard guard = group.Guard("a first gather by copy engines");
    return group.copies()->Try(memory->data());
  });
  if (!status.ok()) return status;
  return WindowMemory::ToBuffer(std::move(memory), request.bytes);
}

}  // namespace weft
