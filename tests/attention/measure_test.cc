// Attention by measured time. Ranks with different times choose the same, because the first one measures for all. Times
// come from a file where it has them. The device is a double, the backends run the CPU's kernels, and the times are
// set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>

#include "double/group_double.h"
#include "error_of.h"
#include "scoped_environment.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ops/ops.h"
#include "weft/core/runtime/backend_times.h"
#include "weft/core/transforms/grad.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cuda/measure/sdpa_measure.h"
#include "weft/kernels/cuda/measure/sdpa_trial.h"

namespace weft::test {
namespace {

using cuda::SdpaKernels;

using Set = std::set<SdpaBackend>;
constexpr SdpaBackend kAll[] = {SdpaBackend::kCudnn, SdpaBackend::kFlash, SdpaBackend::kPlain};
constexpr DeviceKind kDevice = DeviceKind::kCuda;

// The times and calls of one rank's backends. Functions of a kernel table have no state and find it by their thread.
struct Lab {
  std::map<SdpaBackend, double> forward, backward;  // microseconds; backends without a time refuse every call
  std::string error;                                // thrown instead of timing
  bool has_memory = true;
  int timed = 0;              // calls that were timed
  Set ran_forward, ran_back;  // the backends that ran a call
  std::optional<cuda::SdpaMeasure> measure;
};
thread_local Lab* lab = nullptr;

template <SdpaBackend backend>
std::string Refuses(const KernelCall&) {
  return lab->forward.contains(backend) ? "" : "it has no time";
}
size_t NoWorkspace(const KernelCall&) { return 0; }
// Work for the stream that computes nothing.
void PostNothing(const KernelCall& call) {
  static_cast<DeviceDouble&>(call.context->device(kDevice)).Post([] {});
}
template <SdpaBackend backend>
void Forward(const KernelCall& call) {
  lab->ran_forward.insert(backend);
  PostNothing(call);
}
template <SdpaBackend backend>
void Backward(const KernelCall& call) {
  lab->ran_back.insert(backend);
  PostNothing(call);
}
template <SdpaBackend backend>
constexpr SdpaKernels kFake{backend, Refuses<backend>, NoWorkspace, Forward<backend>, Backward<backend>};
constexpr SdpaKernels kFakes[] = {kFake<SdpaBackend::kCudnn>, kFake<SdpaBackend::kFlash>, kFake<SdpaBackend::kPlain>};

std::vector<double> SetTimes(std::span<const SdpaKernels* const> contenders, const KernelCall& call) {
  lab->timed++;
  if (!lab->error.empty()) Fail(lab->error);
  std::vector<double> times;
  if (!lab->has_memory) return times;
  for (const SdpaKernels* kernels : contenders)
    times.push_back((cuda::IsSdpaGrad(call) ? lab->backward : lab->forward).at(kernels->backend));
  return times;
}

void RegisterFakes(const Context& context) {
  for (Op op : {Op::kSdpa, Op::kSdpaGrad})
    context.kernels(kDevice).Add(
        op, {.run = [](const KernelCall& c) { cuda::ChooseSdpa(kFakes, c, c.workspace_bytes).Run(c); },
             .workspace = [](const KernelCall& c) { return cuda::SdpaWorkspace(kFakes, c); },
             .explain = [](const KernelCall& c) { return cuda::ExplainSdpa(kFakes, c); },
             .measure = [](const KernelCall& c) { (*lab->measure)(c); }});
}

// A program with one attention call and its gradient. The batch is sharded.
struct Shapes {
  int64_t B = 4, T = 3, H = 2, D = 8;
  SdpaOptions options{};
};
Graph TraceAttention(const Shapes& s) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  std::vector<Var> x;
  for (const char* name : {"q", "k", "v", "dy"}) x.push_back(Leaf(name, DType::kF32, {s.B, s.T, s.H, s.D}, {Shard(0)}));
  Var y = Sdpa(x[0], x[1], x[2], s.options);  // [B, T, H, D]
  std::vector<Var> d = Vjp(std::span(&y, 1), std::span(&x[3], 1), std::span(x.data(), 3));
  return trace.Finish({{"y", y}, {"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}});
}

// The results of one rank.
struct Report {
  int timed = 0;
  Set forward, backward;
  std::string explained;  // of the forward pass
  std::string error;
};

struct Job {
  int ranks = 1;
  bool deterministic = false;
  std::string attention{};
  std::string title = "double";
  Shapes shapes{};
  std::vector<SdpaBackend> allowed{std::begin(kAll), std::end(kAll)};
};

class AttentionMeasure : public testing::Test {
 protected:
  std::string folder_ = testing::TempDir() + "weft_attention_" + std::to_string(std::random_device{}());
  std::string path_ = folder_ + "/weft/times.txt";
  ScopedEnvironment backend_{"WEFT_SDPA", nullptr}, tune_{"WEFT_TUNE", nullptr};

  ~AttentionMeasure() override { std::filesystem::remove_all(folder_); }

  // Compiles and runs the program twice on doubles. `set` sets what the backends of a rank do.
  std::vector<Report> Run(const Job& job, const std::function<void(int rank, Lab& lab)>& set) const {
    std::vector<Report> reports(static_cast<size_t>(job.ranks));
    OnDoubles(job.ranks, {.most_us = 20}, [&](DoubleRank& rank) {
      Report& report = reports[size_t(rank.context.rank())];
      Lab mine;
      lab = &mine;
      mine.measure.emplace(kFakes, CacheFile(path_, job.title), SetTimes);
      set(rank.context.rank(), mine);
      report.error = ErrorOf([&] { RunProgram(job, rank, report); });
      report.timed = mine.timed;
      report.forward = mine.ran_forward, report.backward = mine.ran_back;
      lab = nullptr;
    });
    return reports;
  }
  // The times of all ranks: cudnn 5, flash 3 and plain 4, and the other way round backward.
  static void SetUsual(int, Lab& mine) {
    mine.forward = {{SdpaBackend::kCudnn, 5}, {SdpaBackend::kFlash, 3}, {SdpaBackend::kPlain, 4}};
    mine.backward = {{SdpaBackend::kCudnn, 3}, {SdpaBackend::kFlash, 5}, {SdpaBackend::kPlain, 4}};
  }

 private:
  static void RunProgram(const Job& job, DoubleRank& rank, Report& report) {
    RegisterFakes(rank.context);
    rank.context.set_numerics({.deterministic = job.deterministic, .attention = job.attention});
    DeviceMesh mesh(rank.context, rank.groups, {{"x"}, {job.ranks}}, rank.groups.kinds());
    Runtime runtime = RuntimeOf(rank.context, mesh, kDevice);
    SdpaBackends allowed(job.allowed);
    LocalProgram local = Lower(TraceAttention(job.shapes), {.mesh = mesh.shape(), .natural = true}, "");
    Executable program(Compile(local, runtime, ""), runtime, [&](const std::string&, const ValueInfo& info) {
      return Tensor::Zeros(info.dtype, info.shape, runtime.memory());
    });
    for (int i = 0; i < 2; i++) program.Run();
    runtime.memory().Synchronize();
    for (const KernelCall& call : program.calls())
      if (call.out.size() == 2 && call.in.size() == 3) report.explained = cuda::ExplainSdpa(kFakes, call);
  }
};

TEST_F(AttentionMeasure, AllRanksChooseWhatTheFirstOneMeasured) {
  constexpr int kRanks = 4;
  for (SdpaBackend forward : kAll)
    for (SdpaBackend backward : kAll) {
      std::filesystem::remove_all(folder_);
      // Ranks hold 2, 2, 1 and no sequences.
      std::vector<Report> reports = Run({.ranks = kRanks, .shapes = {.B = 5}}, [&](int rank, Lab& mine) {
        for (SdpaBackend backend : kAll) {
          // Each rank would choose another backend by times of its own.
          mine.forward[backend] = backend == SdpaBackend((int(forward) + rank) % 3) ? 1 : 2;
          mine.backward[backend] = backend == SdpaBackend((int(backward) + rank) % 3) ? 1 : 2;
        }
      });
      for (int rank = 0; rank < kRanks; rank++) {
        const Report& report = reports[size_t(rank)];
        EXPECT_EQ(report.error, "");
        EXPECT_EQ(report.timed, rank == 0 ? 2 : 0) << "rank " << rank;
        EXPECT_EQ(report.forward, Set{forward}) << "rank " << rank;
        EXPECT_EQ(report.backward, Set{backward}) << "rank " << rank;
        EXPECT_EQ(report.explained, reports[0].explained);
      }
    }
}

TEST_F(AttentionMeasure, TheFirstRanksErrorReachesAll) {
  std::vector<Report> reports = Run({.ranks = 3}, [](int rank, Lab& mine) {
    SetUsual(rank, mine);
    mine.error = fmt::format("the GPU of rank {} is lost", rank);
  });
  for (const Report& report : reports) EXPECT_EQ(report.error, "the GPU of rank 0 is lost");
}

TEST_F(AttentionMeasure, SaysWhichTimesDecided) {
  EXPECT_EQ(Run({}, SetUsual)[0].explained, "flash (3 us; cudnn: 5 us; plain: 4 us)");
  auto slow = [](int, Lab& mine) {
    mine.forward = mine.backward = {{SdpaBackend::kFlash, 12345}, {SdpaBackend::kPlain, 999.4}};
  };
  EXPECT_EQ(Run({.title = "slow"}, slow)[0].explained, "plain (999 us; flash: 12.35 ms; cudnn: it has no time)");
}

TEST_F(AttentionMeasure, AKeptTimeIsNotMeasuredAgain) {
  EXPECT_EQ(Run({}, SetUsual)[0].timed, 2) << "the forward and the backward pass";
  Report again = Run({.ranks = 1}, [](int rank, Lab& mine) {
    SetUsual(rank, mine);
    std::swap(mine.forward, mine.backward);
  })[0];
  EXPECT_EQ(again.timed, 0);
  EXPECT_EQ(again.forward, Set{SdpaBackend::kFlash}) << "by the times of the file";
  EXPECT_EQ(again.backward, Set{SdpaBackend::kCudnn});
}

TEST_F(AttentionMeasure, EveryPartOfTheKeyCounts) {
  EXPECT_EQ(Run({}, SetUsual)[0].timed, 2);
  const Job others[] = {{.title = "another GPU, driver or cuDNN"},
                        {.shapes = {.B = 8}},
                        {.shapes = {.T = 5}},
                        {.shapes = {.H = 4}},
                        {.shapes = {.D = 16}},
                        {.shapes = {.options = {.causal = false}}},
                        {.shapes = {.options = {.causal_offset = 1}}},
                        {.shapes = {.options = {.left = 1}}},
                        {.shapes = {.options = {.softcap = 3}}}};
  for (const Job& other : others) EXPECT_EQ(Run(other, SetUsual)[0].timed, 2) << &other - others;
  // Another title takes the file over.
  EXPECT_EQ(Run({.shapes = {.options = {.softcap = 3}}}, SetUsual)[0].timed, 0);
  EXPECT_EQ(Run({.shapes = {.options = {.scale = 0.3, .softcap = 3}}}, SetUsual)[0].timed, 0) << "it takes no time";
}

// Two ranks with half of the batch each have another key than one rank with all of it.
TEST_F(AttentionMeasure, TheKeyHasTheChunk) {
  EXPECT_EQ(Run({}, SetUsual)[0].timed, 2);
  EXPECT_EQ(Run({.ranks = 2}, SetUsual)[0].timed, 2);
  EXPECT_EQ(Run({.ranks = 3}, SetUsual)[0].timed, 0) << "they have chunks of the same size, and one of them is empty";
  for (int ranks : {1, 2, 3})
    for (const Report& report : Run({.ranks = ranks}, SetUsual)) EXPECT_EQ(report.timed, 0);
}

TEST_F(AttentionMeasure, NothingIsMeasuredWithAFixedOrder) {
  auto expect_fixed = [&](const Job& job, SdpaBackend by) {
    Report report = Run(job, SetUsual)[0];
    EXPECT_EQ(report.timed, 0);
    EXPECT_EQ(report.forward, Set{by});
    EXPECT_EQ(report.backward, Set{by});
    EXPECT_EQ(report.explained, Name(by));
  };
  expect_fixed({.deterministic = true}, SdpaBackend::kCudnn);
  for (SdpaBackend named : kAll) expect_fixed({.attention = Name(named)}, named);
  EXPECT_FALSE(std::filesystem::exists(path_));
  Run({}, SetUsual);  // Times in the file do not count either.
  expect_fixed({.deterministic = true}, SdpaBackend::kCudnn);
  ScopedEnvironment off("WEFT_TUNE", "0");
  expect_fixed({}, SdpaBackend::kCudnn);
}

TEST_F(AttentionMeasure, OneContenderIsNotMeasured) {
  for (SdpaBackend only : kAll) {
    Report report = Run({}, [&](int, Lab& mine) { mine.forward[only] = mine.backward[only] = 1; })[0];
    EXPECT_EQ(report.timed, 0);
    EXPECT_EQ(report.forward, Set{only});
  }
}

TEST_F(AttentionMeasure, TheScopeRestrictsTheContenders) {
  using enum SdpaBackend;
  auto chosen = [&](const std::vector<SdpaBackend>& allowed, int timed) {
    Report report = Run({.allowed = allowed}, SetUsual)[0];
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.timed, timed);
    return std::pair(report.forward, report.backward);
  };
  EXPECT_EQ(chosen({kCudnn, kPlain}, 2), std::pair(Set{kPlain}, Set{kCudnn}));
  EXPECT_EQ(chosen({kCudnn, kPlain}, 0), std::pair(Set{kPlain}, Set{kCudnn}));
  EXPECT_EQ(chosen({kPlain}, 0), std::pair(Set{kPlain}, Set{kPlain}));
  EXPECT_EQ(chosen({kCudnn, kFlash, kPlain}, 2), std::pair(Set{kFlash}, Set{kCudnn})) << "flash had no time yet";
  EXPECT_EQ(chosen({kFlash, kPlain}, 0), std::pair(Set{kFlash}, Set{kPlain})) << "a part of what was timed";
}

TEST_F(AttentionMeasure, TiesBreakByTheFixedOrder) {
  struct Case {
    double cudnn, flash, plain;
    SdpaBackend want;
  };
  using enum SdpaBackend;
  const Case cases[] = {{7, 7, 7, kCudnn}, {8, 7, 7, kFlash},        {8, 8, 7, kPlain},        {7, 8, 7, kCudnn},
                        {8, 7, 8, kFlash}, {1.01, 1.0, 1.0, kCudnn}, {1.03, 1.01, 1.0, kFlash}};
  for (const Case& c : cases) {
    std::filesystem::remove_all(folder_);
    Report report = Run({}, [&](int, Lab& mine) {
      mine.forward = mine.backward = {{kCudnn, c.cudnn}, {kFlash, c.flash}, {kPlain, c.plain}};
    })[0];
    EXPECT_EQ(report.forward, Set{c.want}) << &c - cases;
  }
}

TEST_F(AttentionMeasure, WithoutMemoryTheOrderIsFixed) {
  testing::internal::CaptureStderr();
  Report report = Run({}, [](int rank, Lab& mine) {
    SetUsual(rank, mine);
    mine.has_memory = false;
  })[0];
  std::string notes = testing::internal::GetCapturedStderr();
  EXPECT_EQ(report.forward, Set{SdpaBackend::kCudnn});
  EXPECT_NE(notes.find("note: attention is not timed, because the GPU lacks the memory"), std::string::npos) << notes;
  EXPECT_EQ(notes.find("note: "), notes.rfind("note: ")) << "one note for both passes: " << notes;
}

class AttentionFile : public AttentionMeasure {
 protected:
  // Runs a job and returns its notes. It must measure both passes and choose by them.
  std::string NotesOf(const std::string& what, int timed = 2) const {
    testing::internal::CaptureStderr();
    Report report = Run({}, SetUsual)[0];
    EXPECT_EQ(report.timed, timed) << what;
    EXPECT_EQ(report.forward, Set{SdpaBackend::kFlash}) << what;
    return testing::internal::GetCapturedStderr();
  }
  static int Count(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
    return count;
  }
};

TEST_F(AttentionFile, WhatIsNotWeftsIsIgnoredWithOneNote) {
  std::filesystem::create_directories(folder_ + "/weft");
  for (const std::string& foreign :
       {std::string("# notes of mine\n1 2 3\n"), std::string("\0\xff", 2), std::string()}) {
    std::ofstream(path_) << foreign;
    std::string notes = NotesOf(foreign);
    EXPECT_EQ(Count(notes, "note: "), 1) << notes;
    EXPECT_NE(notes.find(path_ + " are measured again: its first line is not \"weft double\""), std::string::npos)
        << notes;
    EXPECT_EQ(NotesOf("the file that was written in its place", 0), "");
  }
}

TEST_F(AttentionFile, ADamagedLineIsMeasuredAgain) {
  EXPECT_EQ(NotesOf("no file"), "");
  std::string whole((std::istreambuf_iterator<char>(std::ifstream(path_).rdbuf())), {});
  std::string damaged = whole;
  size_t at = damaged.rfind(" : ") + 3;
  damaged[at] = damaged[at] == '9' ? '8' : '9';
  std::ofstream(path_) << damaged;
  std::string notes = NotesOf("a damaged time", 1);
  EXPECT_EQ(Count(notes, "note: "), 1) << notes;
  EXPECT_NE(notes.find("1 of its lines is damaged"), std::string::npos) << notes;
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(std::ifstream(path_).rdbuf())), {}), whole);
}

TEST_F(AttentionFile, AFolderThatCannotBeWrittenGivesOneNote) {
  std::ofstream(folder_) << "no folder";
  std::string notes = NotesOf("not writable");
  EXPECT_EQ(Count(notes, "note: "), 1) << notes;
  EXPECT_NE(notes.find("cannot be kept in " + path_), std::string::npos) << notes;
  NotesOf("it is measured again");
}

TEST_F(AttentionFile, JobsAtOnceKeepAllTimes) {
  constexpr int kJobs = 6;
  std::vector<std::thread> jobs;
  for (int i = 0; i < kJobs; i++)
    jobs.emplace_back([&, i] { EXPECT_EQ(Run({.shapes = {.T = 2 + i}}, SetUsual)[0].timed, 2); });
  for (std::thread& job : jobs) job.join();
  for (int i = 0; i < kJobs; i++) EXPECT_EQ(Run({.shapes = {.T = 2 + i}}, SetUsual)[0].timed, 0) << i;
}

}  // namespace
}  // namespace weft::test
