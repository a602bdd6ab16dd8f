#include "launcher/rank.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "weft/api/environment/device_choice.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/cores.h"
#include "weft/core/host/message.h"
#include "weft/dist/group/collective_fault.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/net/descriptor_limit.h"
#include "weft/dist/start/launched.h"
#include "weft/dist/start/ready_pipe.h"
#include "weft/dist/start/start_watch.h"
#include "weft/dist/start/term_delay.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/kernels/cpu/product/gemm.h"
#include "weft/kernels/cpu/product/gemm_use.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/config_error.h"

namespace weft {
namespace {

// The timeout until the ranks have a mesh. Meanwhile they read data at different speeds, and at first the config with
// dist.timeout_s is not read yet.
constexpr std::chrono::milliseconds kLoad{1'800'000};
constexpr std::chrono::milliseconds kMeet{300'000};  // the timeout until all ranks have met

int ThreadsOf(const Config& config, const Bootstrap& bootstrap) {
  return config.threads > 0 ? int(config.threads) : bootstrap.cores();
}

// By default mpirun binds each rank to a core or a socket, and a core is too little for a rank and its helpers.
std::string NoteOnCores(const Bootstrap& bootstrap) {
  int64_t cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  bool few = std::getenv("OMPI_COMM_WORLD_SIZE") && AvailableCores() == 1 && cores > bootstrap.local_size();
  if (!few) return "";
  return fmt::format(
      "rank {} may use 1 of the {} cores of its host; if mpirun has bound it, start with mpirun --bind-to "
      "none, or source launcher/environment.sh first",
      bootstrap.rank(), cores);
}

// Returns an error if this host would be busy for minutes with the start of so many ranks, or "".
std::string TooMany(int64_t ranks) {
  constexpr int64_t kMostPerCore = 32;
  int64_t cores = AvailableCores();
  if (ranks <= kMostPerCore * cores) return "";
  return fmt::format(
      "{}ranks: expected at most {} on this host, {} for each core ({}), got {}; give fewer, or start "
      "them on more hosts with mpirun",
      kCommandLine, kMostPerCore * cores, kMostPerCore, cores, ranks);
}

// Returns an error if a limit on this process leaves too little memory to start a rank, most of all for MPI; "" if
// there is enough. Without this check MPI crashes, or prints pages of text that do not name the limit.
std::string StartFault() {
  constexpr size_t kStart = size_t(256) << 20;
  ProcessMemory process = MemoryOfProcess();
  if (process.limit.empty() || process.memory.free >= kStart) return "";
  return OutOfMemory({.where = PlaceOf(process),
                      .asked = kStart,
                      .what = "libraries and threads of a rank",
                      .memory = process.memory});
}

std::optional<DeviceKind> WishOf(const Config& config) {
  if (config.device == DeviceChoice::kAuto) return std::nullopt;
  return config.device == DeviceChoice::kCpu ? DeviceKind::kCpu : DeviceKind::kCuda;
}

// Returns the text that distinguishes two jobs that meet at one port: all arguments, except those that may differ
// between the ranks of one job.
std::string SharedWords(const Words& words) {
  std::string shared;
  for (const std::string& word : words) {
    const Field* field = FindField(word.substr(0, word.find('=')));
    if (!field || !field->per_rank) shared += word + '\n';
  }
  return shared;
}

// Maps the buffers of OpenBLAS before the memory of the run is checked and allocated.
void PrepareProducts(const Context& context, Notices& notices) {
  cpu::GemmUse use(context.threads());
  if (std::string note = cpu::GemmNote(); !note.empty()) notices.Say(note);
}

// How RunOnRank was called.
struct Launch {
  RankRequest request;
  int (*run)(RankJob& job, const Words& words);
  RankControl control;
};

std::vector<Option> RankOptions(int64_t& ranks) {
  return {{{.key = "ranks",
            .help = "starts so many ranks on this host, with mpirun",
            .bounds = {.low = 1, .high = double(kMaxRanks)}},
           &ranks}};
}

// All ranks have met before one begins, so all catch signals then.
void Begin(StartWatch& start, const Bootstrap& bootstrap) {
  start.Begun();
  if (bootstrap.rank() == 0) ReportReady();
}

int RunLaunched(const Words& words, const Launch& launch) {
  if (std::string fault = StartFault(); !fault.empty()) {
    PrintStderr("weft: {}\n", fault);
    return 1;
  }
  absl::Status products = cpu::OpenGemm();  // must precede other threads, including those of MPI
  if (!products.ok()) products = absl::InternalError("weft: " + std::string(products.message()));
  StartTimes times;
  times.Note(StartPhase::kLoaded);
  std::optional<SignalCatcher> signals;
  std::optional<StartWatch> start;
  bool stops = launch.control == RankControl::kStop;
  if (stops) start.emplace(signals.emplace(std::initializer_list<int>{SIGTERM, SIGINT, SIGUSR1}));
  std::unique_ptr<Bootstrap> bootstrap;
  try {
    bootstrap = Bootstrap::FromEnvironment(nullptr, nullptr, kMeet, SharedWords(words));
  } catch (const std::exception& e) {
    PrintStderr("weft: {}\n", TextOf(e));
    return 1;
  }
  if (start) start->Met();
  std::optional<TermDelay> delay;
  if (!stops && bootstrap->world_size() > 1) delay.emplace();
  SideChannel channel(*bootstrap);
  FailureWatch failures(channel, *bootstrap);
  StopAgreement stop(channel);
  if (start) stop.gate().OnFirst([&] { Begin(*start, *bootstrap); });
  Notices notices(bootstrap->rank() == 0);
  RankJob job{*bootstrap, failures, stop.gate(), notices, times};
  try {
    // If this rank could not open a connection, it would take the rank at the other end for lost.
    int ranks = bootstrap->world_size();
    // Callers that have not proved the secret have open descriptors now. They are few and will be closed.
    int64_t more = DescriptorsOfRank(ranks) - int64_t(bootstrap->network().guests());
    if (ranks > 1 && !AllOk(*bootstrap, ReserveDescriptors(more, ranks))) return 1;
    channel.Open();
    if (signals) stop.Follow(*signals, [&](int rank) { failures.CheckLost(rank); });
    bootstrap->set_timeout(kLoad);
    if (!AllOk(*bootstrap, products)) return 1;
    if (!AllOk(*bootstrap, CheckRanks(launch.request, ranks))) return 2;
    times.Note(StartPhase::kMet);
    if (std::string note = NoteOnCores(*bootstrap); !note.empty()) notices.Say(note);
    return launch.run(job, words);
  } catch (const ConfigError& e) {
    return ExitCode(job, absl::InvalidArgumentError(e.what()));
  } catch (const std::exception& e) {
    failures.Fail(TextOf(e));
  }
}

}  // namespace

int RunOnRank(const Words& words, const char* help, int (*run)(RankJob& job, const Words& words), RankControl control) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", help);
    return 0;
  }
  Words rest = words;
  RankRequest request = TakeRanks(rest);
  if (std::optional<int> code = StartRanks(request, control)) return *code;
  return RunLaunched(rest, {.request = request, .run = run, .control = control});
}

RankRequest TakeRanks(Words& words) {
  RankRequest request;
  request.options = TakeOptions(RankOptions(request.ranks), words).status();
  return request;
}

std::optional<int> StartRanks(const RankRequest& request, RankControl control) {
  if (IsLaunched()) return std::nullopt;
  if (!request.options.ok()) {
    PrintStderr("{}\n", std::string(request.options.message()));
    return 2;
  }
  if (request.ranks <= 1) return std::nullopt;
  if (std::string fault = TooMany(request.ranks); !fault.empty()) {
    PrintStderr("{}\n", fault);
    return 2;
  }
  try {
    return RunMpirun(int(request.ranks), OwnCommand(), control);
  } catch (const Error& e) {
    PrintStderr("weft: {}\n", e.what());
    return 1;
  }
}

absl::Status CheckRanks(const RankRequest& request, int started) {
  if (!request.options.ok() || request.ranks == 0 || request.ranks == started) return request.options;
  return absl::InvalidArgumentError(
      fmt::format("{}ranks: expected {}, as many as the launcher started, got {}; start {} ranks, or leave ranks out",
                  kCommandLine, started, request.ranks, request.ranks));
}

std::vector<Completion> RankCompletions() {
  int64_t ranks = 0;
  return CompletionsOf(RankOptions(ranks));
}

bool AllOk(Bootstrap& bootstrap, const absl::Status& mine) {
  std::vector<std::string> faults = bootstrap.AllGather(std::string(mine.message()));
  std::vector<std::string> hosts = bootstrap.AllGather(bootstrap.host());
  auto failed = [](const std::string& fault) { return !fault.empty(); };
  auto first = std::find_if(faults.begin(), faults.end(), failed);
  if (first == faults.end()) return true;
  if (bootstrap.rank() == 0) {
    bool alike = std::count(faults.begin(), faults.end(), *first) == std::ptrdiff_t(faults.size());
    if (!alike)
      PrintStderr("weft: rank {} (host {}) failed, as {} of {} ranks:\n", first - faults.begin(),
                  hosts[size_t(first - faults.begin())], std::count_if(faults.begin(), faults.end(), failed),
                  faults.size());
    PrintStderr("{}\n", *first);
  }
  std::fflush(stderr);
  bootstrap.Barrier();
  return false;
}

int ExitCode(RankJob& job, const absl::Status& status) {
  if (status.ok()) {
    job.bootstrap.Barrier();  // reports a rank that does not end; groups and MPI would wait for it without a message
    return 0;
  }
  if (absl::IsInvalidArgument(status)) return AllOk(job.bootstrap, status) ? 0 : 2;
  if (absl::IsAborted(status) || absl::IsResourceExhausted(status)) return AllOk(job.bootstrap, status) ? 0 : 1;
  job.failures.Fail(std::string(status.message()));  // a failure of this rank only, which ends the others too
}

Ranks RanksOf(Bootstrap& bootstrap) {
  return {bootstrap.rank(), bootstrap.world_size(),
          [&bootstrap](std::string_view bytes) { return bootstrap.AllGather(bytes); }, bootstrap.host()};
}

std::optional<RankMesh> MakeRankMesh(RankJob& job, const Config& config) {
  Bootstrap& bootstrap = job.bootstrap;
  auto timeout = std::chrono::milliseconds(int64_t(config.dist.timeout_s * 1000));
  bootstrap.set_timeout(timeout);
  std::shared_ptr<CollectiveFault> fault = CollectiveFault::FromEnvironment();
  auto context = std::make_unique<Context>(bootstrap.rank(), bootstrap.world_size(), ThreadsOf(config, bootstrap));
  RegisterCpuKernels(context->kernels(DeviceKind::kCpu));
  absl::StatusOr<DeviceKind> device = OpenDevice(WishOf(config), bootstrap, *context, job.notices);
  if (!device.ok()) device = RefuseKey(config, "device", device.status().message());
  if (!AllOk(bootstrap, device.status())) return std::nullopt;
  context->set_numerics(NumericsOf(config, *device));
  if (*device == DeviceKind::kCpu) PrepareProducts(*context, job.notices);
  job.times.Note(StartPhase::kDeviceOpen);
  RegisterCollectives(context->kernels(*device), *device);
  std::unique_ptr<FactoryTable> groups;
  std::unique_ptr<DeviceMesh> mesh;
  try {
    groups = MakeGroupFactory(bootstrap, *device == DeviceKind::kCuda ? context.get() : nullptr);
    mesh = std::make_unique<DeviceMesh>(*context, *groups, MeshOf(config), groups->kinds());
    mesh->set_overlap(OverlapOf(config, *device, IsOneHost(bootstrap)), int(config.parallel.chunks));
  } catch (const Error& e) {
    job.failures.CallFailed(e.what());  // the ranks connect here, so another rank may be the cause
  }
  mesh->set_timeout(timeout);
  job.failures.Watch(*mesh);
  if (fault) {
    mesh->set_call_filter([fault](const ProcessGroup& group, Collective& call) { return fault->Change(group, call); });
    mesh->set_call_delay(fault->device_delay());
  }
  job.times.Note(StartPhase::kMeshMade);
  return RankMesh{std::move(context), *device, std::move(groups), std::move(mesh)};
}

}  // namespace weft
