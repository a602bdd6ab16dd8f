// Context::FromEnvironment: makes a process one rank of a job.
#include <exception>
#include <memory>

#include "weft/api/environment/device_choice.h"
#include "weft/core/base/error.h"
#include "weft/core/runtime/kernel.h"
#include "weft/dist/failure/end_watch.h"
#include "weft/dist/failure/failure_watch.h"
#include "weft/dist/failure/uncaught.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/group_source.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/net/descriptor_limit.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft {
namespace {

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

class Job final : public GroupSource {
 public:
  Job(int* argc, char*** argv, std::chrono::milliseconds timeout)
      : timeout_(timeout),
        bootstrap_(Bootstrap::FromEnvironment(argc, argv, timeout)),
        channel_(*bootstrap_),
        failures_(channel_, *bootstrap_),
        uncaught_(failures_),
        unwinding_(std::uncaught_exceptions()) {
    int ranks = bootstrap_->world_size();
    if (ranks > 1) Check(ReserveDescriptors(DescriptorsOfRank(ranks) - int64_t(bootstrap_->network().guests()), ranks));
    channel_.Open();
  }
  // Waits for the other ranks, so that a rank that does not reach the end is reported. An exception ends only this
  // rank, and the launcher then ends the others.
  ~Job() override {
    if (std::uncaught_exceptions() == unwinding_) bootstrap_->Barrier();
  }

  void SetUp(Context& context, const EnvironmentOptions& options) {
    Notices notices(bootstrap_->rank() == 0);
    context.set_numerics(options.numerics);
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    absl::StatusOr<DeviceKind> device = OpenDevice(options.device, *bootstrap_, context, notices);
    Check(device.status());
    if (*device != DeviceKind::kCpu) RegisterCollectives(context.kernels(*device), *device);
    groups_ = MakeGroupFactory(*bootstrap_, *device == DeviceKind::kCpu ? nullptr : &context);
  }

  const Bootstrap& bootstrap() const { return *bootstrap_; }
  GroupFactory& groups() override { return *groups_; }
  std::vector<DeviceKind> kinds() const override { return groups_->kinds(); }
  void Watch(DeviceMesh& mesh) override {
    mesh.set_timeout(timeout_);
    failures_.Watch(mesh);
    // On GPUs a rank may have issued a replay whose calls have not begun, so their numbers show nothing.
    if (groups_->kinds().size() == 1)
      mesh.set_end_handler([this](const DeviceMesh& m) { return EndWatch::Of(failures_, m); });
  }

 private:
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Bootstrap> bootstrap_;
  SideChannel channel_;
  FailureWatch failures_;
  UncaughtReport uncaught_;
  std::unique_ptr<FactoryTable> groups_;
  int unwinding_;  // number of exceptions in flight when the job began
};

std::unique_ptr<Job> Join(int* argc, char*** argv, const EnvironmentOptions& options) {
  ReportUncaught();
  Check(cpu::OpenGemm());  // before this process or MPI starts threads
  return std::make_unique<Job>(argc, argv, options.timeout);
}

int ThreadsOf(const EnvironmentOptions& options, const Bootstrap& bootstrap) {
  return options.threads > 0 ? options.threads : bootstrap.cores();
}

}  // namespace

Context Context::FromEnvironment(int& argc, char**& argv, const EnvironmentOptions& options) {
  std::unique_ptr<Job> job = Join(&argc, &argv, options);
  Job& j = *job;
  return Context(std::move(job), j.bootstrap().rank(), j.bootstrap().world_size(), ThreadsOf(options, j.bootstrap()),
                 [&](Context& context) { j.SetUp(context, options); });
}

Context Context::FromEnvironment(const EnvironmentOptions& options) {
  std::unique_ptr<Job> job = Join(nullptr, nullptr, options);
  Job& j = *job;
  return Context(std::move(job), j.bootstrap().rank(), j.bootstrap().world_size(), ThreadsOf(options, j.bootstrap()),
                 [&](Context& context) { j.SetUp(context, options); });
}

}  // namespace weft
