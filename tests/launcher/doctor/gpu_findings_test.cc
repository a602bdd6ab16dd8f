// The checks of several ranks on GPUs. No GPU is opened, and a fake library replaces NCCL. If a run gets no GPUs, the
// finding has the reason that the run prints.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>

#include "double/nccl_double.h"
#include "double/rank_thread.h"
#include "launcher/doctor/gpu_findings.h"
#include "scoped_environment.h"
#include "weft/api/environment/device_choice.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {

bool operator==(const Finding& a, const Finding& b) {
  return a.grade == b.grade && a.what == b.what && a.fact == b.fact && a.remedy == b.remedy;
}
void PrintTo(const Finding& f, std::ostream* out) {
  *out << fmt::format("grade {}, {}: {}: {}", int(f.grade), f.what, f.fact, f.remedy);
}

namespace {

using Findings = std::vector<Finding>;

// A host with so many GPUs, and `file` as NCCL. If it is the fake, it opens as FailingNccl sets it.
GpuAccess Host(int gpus, const std::string& file = WEFT_FAKE_NCCL, const char* how = "") {
  static std::mutex mutex;  // Open sets environment variables, the fake has one way to fail, and ranks are threads
  std::vector<std::string> names;
  for (int i = 0; i < gpus; i++) names.push_back(fmt::format("GPU-{}", i));
  return {.has_driver = [] { return true; },
          .gpus = [names] { return names; },
          .open_nccl =
              [file, how](int ranks, bool one_host) {
                std::lock_guard lock(mutex);
                test::FailingNccl failing(how);
                return NcclLibrary::Open(ranks, one_host, file);
              },
          .open_gpu = [](Context&, int) { return absl::OkStatus(); }};
}
GpuAccess HostWithoutDriver() {
  GpuAccess host;
  host.has_driver = [] { return false; };
  return host;
}

// Runs the body on ranks that are threads. Returns the result of rank 0.
template <class Result>
Result OnRanks(int ranks, const std::function<Result(Bootstrap& bootstrap, Context& context)>& body) {
  auto world = std::make_shared<LocalWorld>(ranks);
  std::vector<Result> results(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Context& context, GroupFactory&) {
    test::RankThread bootstrap(world, context.rank());
    results[size_t(context.rank())] = body(bootstrap, context);
  });
  for (const Result& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

// The host of each rank.
using Hosts = std::function<GpuAccess(int rank)>;
ChosenDevice ChoiceOf(int ranks, const Hosts& hosts, std::optional<DeviceKind> wanted = std::nullopt) {
  ChosenDevice chosen;
  chosen.reason = OnRanks<std::string>(ranks, [&](Bootstrap& bootstrap, Context& context) {
    ChosenDevice mine = ChooseDevice(wanted, bootstrap, context, hosts(bootstrap.rank()));
    if (bootstrap.rank() == 0) chosen = mine;
    return mine.reason;
  });
  return chosen;
}
Findings FindingsOf(int ranks, const Hosts& hosts) {
  return OnRanks<Findings>(
      ranks, [&](Bootstrap& bootstrap, Context&) { return ExamineDevices(bootstrap, hosts(bootstrap.rank())); });
}

// A run with a rank for each of two GPUs ends, and both findings about NCCL have its text.
void ExpectRefused(const GpuAccess& host, const std::string& part) {
  auto hosts = [&](int) { return host; };
  ChosenDevice run = ChoiceOf(2, hosts);
  EXPECT_TRUE(run.refused);
  EXPECT_NE(run.reason.find(part), std::string::npos) << run.reason;
  EXPECT_EQ(ChoiceOf(2, hosts, DeviceKind::kCuda).reason, run.reason);
  EXPECT_EQ(FindingsOf(2, hosts), (Findings{{.what = "devices", .fact = "each of 2 ranks has a GPU"},
                                            {.grade = Finding::kFault, .what = "NCCL", .fact = run.reason}}));
  Finding alone = ExamineNccl(host);
  EXPECT_EQ(alone.grade, Finding::kFault);
  EXPECT_EQ("rank 0 (host here): " + alone.fact, run.reason);
}

TEST(GpuFindings, AnNcclThatEndsARunIsAFaultOfTheSameText) {
  ExpectRefused(Host(2, "libno_such_nccl.so.2"), "2 ranks on GPUs talk through NCCL, which cannot be opened");
  ExpectRefused(Host(2, "libm.so.6"), "in libm.so.6, without nccl");
  ExpectRefused(Host(2, WEFT_FAKE_NCCL, "old"), "expected version 2.28.0 or newer, got 2.27.3");
  test::ScopedEnvironment multicast("NCCL_NVLS_ENABLE", "1");
  ExpectRefused(Host(2), "NCCL_NVLS_ENABLE: expected 0");
}

// Ranks run on CPUs for the reason that doctor gives, and do not get the GPUs that they ask for.
void ExpectCpu(int ranks, const Hosts& hosts, const std::string& part) {
  ChosenDevice run = ChoiceOf(ranks, hosts);
  EXPECT_EQ(run.kind, DeviceKind::kCpu);
  EXPECT_FALSE(run.refused);
  EXPECT_NE(run.reason.find(part), std::string::npos) << run.reason;
  EXPECT_TRUE(ChoiceOf(ranks, hosts, DeviceKind::kCuda).refused);
  EXPECT_EQ(FindingsOf(ranks, hosts), (Findings{{.grade = Finding::kWarning,
                                                 .what = "devices",
                                                 .fact = "device=auto is the CPU, and device=cuda is refused",
                                                 .remedy = run.reason}}));
}

TEST(GpuFindings, WhatMakesARunTakeTheCpuIsANoteOfTheSameText) {
  for (int gpus : {1, 2, 3})
    ExpectCpu(
        gpus + 1, [&](int) { return Host(gpus); },
        fmt::format("expected a GPU for each rank, got one for ranks 0 and {}: host here shows {} GPU", gpus, gpus));
  GpuAccess blind = Host(2), broken = Host(2), other = HostWithoutDriver();
  blind.gpus = [] { return absl::FailedPreconditionError("device cuda: no GPU that works"); };
  broken.open_gpu = [](Context&, int) { return absl::FailedPreconditionError("device cuda: a GPU that fails"); };
  other.gpus = [] { return absl::NotFoundError("device cuda: this host has no NVIDIA driver"); };
  ExpectCpu(
      2, [&](int) { return blind; }, "rank 0 (host here): device cuda: no GPU that works");
  ExpectCpu(
      2, [&](int rank) { return rank == 1 ? broken : Host(2); }, "rank 1 (host here): device cuda: a GPU that");
  ExpectCpu(
      2, [&](int rank) { return rank == 1 ? other : Host(2); }, "host here has no NVIDIA driver, and others");
}

TEST(GpuFindings, WithoutDriversRunsUseTheCpu) {
  auto hosts = [](int) { return HostWithoutDriver(); };
  EXPECT_EQ(ChoiceOf(2, hosts).reason, "");
  EXPECT_EQ(FindingsOf(2, hosts),
            (Findings{{.what = "devices", .fact = "no host has an NVIDIA driver; runs use the CPU"}}));
}

TEST(GpuFindings, AnNcclThatWorksHasItsVersionAndFile) {
  Finding nccl{.what = "NCCL", .fact = "2.28.9, " WEFT_FAKE_NCCL};
  for (int ranks : {2, 3, 4}) {
    auto hosts = [&](int) { return Host(4); };
    EXPECT_EQ(ChoiceOf(ranks, hosts).kind, DeviceKind::kCuda);
    Finding devices{.what = "devices", .fact = fmt::format("each of {} ranks has a GPU", ranks)};
    EXPECT_EQ(FindingsOf(ranks, hosts), (Findings{devices, nccl}));
    EXPECT_EQ(ExamineNccl(Host(ranks)), nccl);
  }
  Finding windowless = ExamineNccl(Host(2, WEFT_FAKE_NCCL_NO_WINDOWS));
  EXPECT_EQ(windowless.grade, Finding::kWarning);
  EXPECT_TRUE(windowless.remedy.starts_with("NCCL 2.28.9 has no nccl")) << windowless.remedy;
}

TEST(GpuFindings, VersionsThatDifferAreAFault) {
  Findings found = FindingsOf(2, [](int rank) { return Host(2, WEFT_FAKE_NCCL, rank == 0 ? "" : "newer"); });
  EXPECT_EQ(found.back(), (Finding{.grade = Finding::kFault,
                                   .what = "NCCL",
                                   .fact = "2.28.9, 2.29.7",
                                   .remedy = "install the same version on all hosts"}));
}

TEST(GpuFindings, FewerThanTwoGpusOpenNothing) {
  auto fact = [](GpuAccess host) {
    host.open_nccl = [](int, bool) -> absl::StatusOr<std::shared_ptr<const NcclLibrary>> {
      ADD_FAILURE() << "expected no NCCL to be opened";
      return absl::NotFoundError("");
    };
    Finding found = ExamineNccl(host);
    EXPECT_EQ(found.grade, Finding::kGood);
    return found.fact;
  };
  GpuAccess blind = Host(2);
  blind.gpus = [] { return absl::FailedPreconditionError("no GPU that works"); };
  std::string none = "not opened: several ranks on GPUs need one each, and Weft finds none here";
  EXPECT_EQ(fact(HostWithoutDriver()), none);
  EXPECT_EQ(fact(blind), none);
  EXPECT_EQ(fact(Host(1)), "not opened: several ranks on GPUs need one each, and Weft finds one here");
}

}  // namespace
}  // namespace weft
