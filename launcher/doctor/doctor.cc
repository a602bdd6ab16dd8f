#include "launcher/doctor/doctor.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <sstream>
#include <thread>

#include "launcher/doctor/gpu_findings.h"
#include "launcher/doctor/product_findings.h"
#include "weft/core/base/error.h"
#include "weft/core/base/memory.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/control_groups.h"
#include "weft/core/host/host_name.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collective_fault.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/net/network_interface.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft_commit.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

Finding Processor() {
  Finding f{.what = "processor"};
  std::vector<std::string> features;
  if (__builtin_cpu_supports("avx2")) features.push_back("AVX2");
  if (__builtin_cpu_supports("fma")) features.push_back("FMA");
  if (__builtin_cpu_supports("avx512f")) features.push_back("AVX-512");
  if (__builtin_cpu_supports("avx512bf16")) features.push_back("AVX-512 BF16");
  f.fact = fmt::format("{} threads, {}", std::thread::hardware_concurrency(),
                       features.empty() ? "no AVX2" : fmt::format("{}", fmt::join(features, ", ")));
  if (auto quota = CoreQuota()) f.fact += fmt::format(", a CPU quota of {} core{}", *quota, *quota == 1 ? "" : "s");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return f;
  f.grade = Finding::kFault;
  f.remedy = "the kernels are built for x86-64-v3; configure with -DWEFT_ARCH=native and build on this host";
  return f;
}

Finding HostMemory() {
  Memory memory = CpuRuntime().MemoryNow();
  Finding f{.what = "memory", .fact = fmt::format("{} free of {}", BytesText(memory.free), BytesText(memory.total))};
  if (memory.total == 0) f.fact = "unknown";
  return f;
}

Finding Gpu() {
  Finding f{.what = "GPU"};
  if (!HasCudaDriver()) {
    f.fact = "no NVIDIA driver; runs use the CPU";
    return f;
  }
  Context context(0, 1, 1);
  if (absl::Status opened = OpenCuda(context, 0); !opened.ok()) {
    f.grade = Finding::kWarning;
    f.fact = "there is a driver, but no GPU that Weft can use";
    f.remedy = std::string(opened.message());
    return f;
  }
  DeviceRuntime& device = context.device(DeviceKind::kCuda);
  Memory memory = device.MemoryNow();
  f.fact = fmt::format("{}, {} free of {}", device.name(), BytesText(memory.free), BytesText(memory.total));
  return f;
}

Finding Network() {
  Finding f{.what = "network"};
  std::vector<std::string> reachable;
  for (const NetworkInterface& i : NetworkInterfaces())
    if (i.up && !i.loopback && !i.address.empty()) reachable.push_back(fmt::format("{} {}", i.name, i.address));
  f.fact = fmt::format("{}", fmt::join(reachable, ", "));
  if (!reachable.empty()) return f;
  f.grade = Finding::kWarning;
  f.fact = "no interface but the loopback is up";
  f.remedy = "only ranks of this host can reach each other";
  return f;
}

// Reports the MPI library and whether mpirun can be found. A run with one rank uses neither, so this is never a fault.
Finding Mpi() {
  Finding f{.what = "MPI", .fact = MpiVersion()};
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');)
    if (::access((fs::path(folder) / "mpirun").c_str(), X_OK) == 0) return f;
  f.grade = Finding::kWarning;
  f.fact += ", but no mpirun in PATH";
  f.remedy = "install openmpi-bin, or start ranks by srun or torchrun's variables";
  return f;
}

// MPI looks up these names when it starts. If /etc/hosts lacks them, it asks a DNS server and may wait for seconds.
Finding Names() {
  constexpr double kMost = 500;  // ms
  Finding f{.what = "names", .remedy = "add 127.0.0.1 localhost and this host's name to /etc/hosts: MPI looks them up"};
  for (const std::string& name : {std::string("localhost"), HostName()}) {
    Clock::time_point begin = Clock::now();
    addrinfo* found = nullptr;
    int error = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
    if (found) freeaddrinfo(found);
    double ms = MsSince(begin);
    f.fact += fmt::format("{}{} {}", f.fact.empty() ? "" : ", ", name,
                          error ? "is not found" : fmt::format("in {:.0f} ms", ms));
    if (error || ms > kMost) f.grade = Finding::kWarning;
  }
  if (f.grade == Finding::kGood) f.remedy.clear();
  return f;
}

// Opens the Gloo device of groups on CPUs: on WEFT_INTERFACE if it is set, else on the loopback, as ranks of one host
// do.
Finding Gloo() {
  Finding f{.what = "Gloo"};
  try {
    f.fact = TryGloo();
  } catch (const std::exception& e) {
    f.grade = Finding::kFault;
    f.fact = e.what();
    f.remedy = "set WEFT_INTERFACE to an interface that is up, or unset it";
  }
  return f;
}

// Reports whether a time service synchronizes this host's clock.
Finding HostClock() {
  Finding f{.what = "clock"};
  timex state{};
  int said = adjtimex(&state);
  f.fact = said >= 0 && said != TIME_ERROR && !(state.status & STA_UNSYNC) ? "a time service keeps it"
                                                                           : "no time service keeps it";
  f.fact = fmt::format("{:%F %T} UTC, {}", fmt::gmtime(std::time(nullptr)), f.fact);
  return f;
}

// Returns how long it takes to write and sync a small file. Returns -1 and sets errno on failure.
double SyncedWriteMs(const std::string& path) {
  Clock::time_point begin = Clock::now();
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  const char bytes[4096] = {};
  bool good = ::write(fd, bytes, sizeof bytes) == ssize_t(sizeof bytes) && ::fsync(fd) == 0;
  int error = errno;
  ::close(fd);
  ::unlink(path.c_str());
  errno = error;
  return good ? MsSince(begin) : -1;
}

Finding Disk(const std::string& folder) {
  constexpr size_t kLeast = size_t(1) << 30;
  Finding f{.what = "disk"};
  if (std::error_code error; !fs::is_directory(folder, error)) {
    f.grade = Finding::kFault;
    f.fact = fmt::format("{}: no such folder", folder);
    f.remedy = "give one that exists";
    return f;
  }
  double ms = SyncedWriteMs((fs::path(folder) / fmt::format(".weft-doctor-{}", ::getpid())).string());
  if (ms < 0) {
    f.grade = Finding::kFault;
    f.fact = fmt::format("{}: cannot be written ({})", folder, std::strerror(errno));
    f.remedy = "start runs in a folder that can be written, or give log.jsonl and checkpoint.dir such paths";
    return f;
  }
  std::error_code error;
  fs::space_info space = fs::space(folder, error);
  f.fact = fmt::format("{}: {} free, {:.1f} ms to write and sync 4 KiB", folder,
                       error ? "unknown" : BytesText(size_t(space.available)), ms);
  if (error || space.available >= kLeast) return f;
  f.grade = Finding::kWarning;
  f.remedy = "checkpoints of large models need more";
  return f;
}

// All ranks read their clocks right after a barrier. The reads may be as far apart as one exchange takes, so the
// duration of an exchange is subtracted.
Finding Clocks(Bootstrap& bootstrap) {
  constexpr double kMost = 1;  // s
  bootstrap.Barrier();
  Clock::time_point begin = Clock::now();
  double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<std::string> said = bootstrap.AllGather(fmt::format("{:.6f}", now));
  double exchange = MsSince(begin) / 1e3, low = now, high = now;
  for (const std::string& text : said) {
    double clock = std::strtod(text.c_str(), nullptr);
    low = std::min(low, clock), high = std::max(high, clock);
  }
  double apart = std::max(high - low - exchange, 0.0);
  Finding f{.what = "clocks", .fact = fmt::format("apart by {:.3f} s at most", apart)};
  if (apart <= kMost) return f;
  f.grade = Finding::kWarning;
  f.remedy = "logs of different hosts do not line up; start a time service (chrony, ntpd)";
  return f;
}

// Runs a collective check. Its errors begin with its name.
template <class Fn>
auto Named(const char* check, Fn fn) {
  try {
    return fn();
  } catch (const std::exception& e) {
    Fail(fmt::format("{}: {}", check, TextOf(e)));
  }
}

// A group of all ranks, over the transport that runs on CPUs use.
struct JobMesh {
  Context context;
  std::unique_ptr<GroupFactory> groups;
  DeviceMesh mesh;

  explicit JobMesh(Bootstrap& bootstrap)
      : context(bootstrap.rank(), bootstrap.world_size(), 1),
        groups(MakeGroupFactory(bootstrap)),
        mesh(context, *groups, {{"dp"}, {bootstrap.world_size()}}) {
    mesh.set_timeout(std::chrono::seconds(60));
    std::shared_ptr<CollectiveFault> fault = CollectiveFault::FromEnvironment();
    if (fault)
      mesh.set_call_filter([fault](const ProcessGroup& group, Collective& call) { return fault->Change(group, call); });
    mesh.World().Barrier();  // connects
  }
};

// Describes the first wrong element of this rank's sum. Returns "" if all elements are right.
std::string FaultOfSum(const std::vector<float>& sums, double expected) {
  auto wrong = std::find_if(sums.begin(), sums.end(), [&](float sum) { return sum != float(expected); });
  if (wrong == sums.end()) return "";
  return fmt::format("expected {} as element {} of a sum, got {}", expected, wrong - sums.begin(), *wrong);
}

// Times sums over all ranks: small ones for the latency of a call, and one of 4 MiB for the bandwidth. Every rank
// checks the large sum.
Finding Collectives(Bootstrap& bootstrap, ProcessGroup& world) {
  constexpr int kTimes = 20;
  constexpr int64_t kLarge = int64_t(1) << 20;
  Finding f{.what = "collectives"};
  double n = bootstrap.world_size();
  std::vector<float> mine(size_t(kLarge), float(bootstrap.rank() + 1)), sums(mine.size());
  world.AllReduce(mine.data(), sums.data(), kLarge, DType::kF32);  // allocates
  Clock::time_point begin = Clock::now();
  world.AllReduce(mine.data(), sums.data(), kLarge, DType::kF32);
  double large_ms = MsSince(begin);
  std::vector<std::string> faults = bootstrap.AllGather(FaultOfSum(sums, n * (n + 1) / 2));
  begin = Clock::now();
  for (int i = 0; i < kTimes; i++) world.AllReduce(mine.data(), sums.data(), 1, DType::kF32);
  f.fact = fmt::format("all-reduce over {} ranks: {:.0f} us for 4 B, {:.1f} ms for {}", n,
                       MsSince(begin) / kTimes * 1e3, large_ms, BytesText(size_t(kLarge) * sizeof(float)));
  auto wrong = std::find_if(faults.begin(), faults.end(), [](const std::string& fault) { return !fault.empty(); });
  if (wrong == faults.end()) return f;
  f.grade = Finding::kFault;
  f.fact = fmt::format("rank {}: {}", wrong - faults.begin(), *wrong);
  f.remedy = "the network between these hosts changes data; test its links";
  return f;
}

}  // namespace

std::vector<Finding> ExamineHost(const std::string& folder, bool several_ranks) {
  std::vector<Finding> findings{Processor(), ExamineOpenBlas(), ExamineOneDnn(), HostMemory(), Gpu()};
  if (!several_ranks) findings.push_back(ExamineNccl());
  for (const Finding& f : {Mpi(), Gloo(), Names(), Network(), Disk(folder), HostClock()}) findings.push_back(f);
  return findings;
}

std::vector<Finding> ExamineJob(Bootstrap& bootstrap) {
  std::vector<std::string> places = bootstrap.AllGather(std::to_string(bootstrap.local_rank()));
  std::vector<std::string> versions = bootstrap.AllGather(fmt::format("{} ({})", WEFT_VERSION, kCommit));
  auto hosts = std::count(places.begin(), places.end(), "0");  // not by name, because hosts may share a name
  std::vector<Finding> findings{
      {.what = "ranks", .fact = fmt::format("{} on {} host{}", places.size(), hosts, hosts == 1 ? "" : "s")},
      Alike("version", versions, "install the same build on all hosts"),
      Clocks(bootstrap)};
  for (const Finding& f : Named("the ranks choose a device", [&] { return ExamineDevices(bootstrap); }))
    findings.push_back(f);
  Clock::time_point begin = Clock::now();
  auto job = Named("the ranks connect", [&] { return std::make_unique<JobMesh>(bootstrap); });
  findings.push_back({.what = "connections",
                      .fact = fmt::format("each rank reaches the {} other{}, in {:.0f} ms", places.size() - 1,
                                          places.size() == 2 ? "" : "s", MsSince(begin))});
  findings.push_back(Named("the ranks reduce", [&] { return Collectives(bootstrap, job->mesh.World()); }));
  if (bootstrap.rank() != 0) findings.clear();
  return findings;
}

}  // namespace weft
