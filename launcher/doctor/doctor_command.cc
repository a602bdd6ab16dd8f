// weft doctor: reports whether this host or the hosts of a job can run Weft, and what slows it down.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "launcher/command.h"
#include "launcher/doctor/doctor.h"
#include "launcher/rank.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/message.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft doctor [FOLDER] [ranks=N]

Looks at the processor, OpenBLAS, oneDNN, memory, the GPU, NCCL (if there are two GPUs or more), MPI, Gloo, names, the
network, the disk of FOLDER (default: here) and the clock. With ranks=N, which starts N ranks on this host with mpirun,
and under a launcher also at all ranks: hosts, versions, clocks, whether each has a GPU and can open NCCL, whether all
connect, and sums over all of them on CPUs, checked and timed. One line each; what is not good has a remedy.

  weft doctor
  weft doctor ranks=4
  mpirun -np 4 --hostfile hosts weft doctor

Exit code: 0 nothing is broken, 1 something is, 2 bad usage.
)";

// Prints the findings about a host or about the job, one line each. Returns the number of faults.
int Print(const std::string& title, const std::vector<Finding>& findings) {
  constexpr const char* kGrades[] = {"ok", "note", "FAULT"};
  int faults = 0;
  PrintStdout("{}\n", title);
  for (const Finding& f : findings) {
    PrintStdout("  {:6}{:12} {}{}{}\n", kGrades[f.grade], f.what, f.fact, f.remedy.empty() ? "" : ": ", f.remedy);
    faults += f.grade == Finding::kFault;
  }
  return faults;
}

// The first rank of each host examines that host. A fault that any rank finds makes the exit code of all ranks 1.
int Examine(Bootstrap& bootstrap, const std::string& folder) {
  int faults = 0;
  bool several = bootstrap.world_size() > 1;
  for (int rank = 0; rank < bootstrap.world_size(); rank++) {  // in turn, so that the lines of a host stay together
    if (bootstrap.rank() == rank && bootstrap.local_rank() == 0)
      faults += Print(bootstrap.host(), ExamineHost(folder, several));
    std::fflush(stdout);
    bootstrap.Barrier();
  }
  if (several) {
    std::vector<Finding> job = ExamineJob(bootstrap);
    if (bootstrap.rank() == 0) faults += Print("the job", job);
  }
  bool broken = false;
  for (const std::string& said : bootstrap.AllGather(fmt::format("{}", faults))) broken |= said != "0";
  return broken ? 1 : 0;
}

}  // namespace

int DoctorCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  Words rest = words;
  RankRequest request = TakeRanks(rest);
  auto is_option = [](const std::string& word) { return word.starts_with('-') || SetsKey(word); };
  if (request.options.ok() && (rest.size() > 1 || (rest.size() == 1 && is_option(rest[0])))) {
    PrintStderr("weft doctor: expected FOLDER, ranks=N or nothing, got {:?}\nweft doctor --help says how to use it\n",
                rest.back());
    return 2;
  }
  if (std::optional<int> code = StartRanks(request, RankControl::kEnd)) return *code;
  cpu::OpenGemm().IgnoreError();  // must precede other threads; Products reports a failure
  std::unique_ptr<Bootstrap> bootstrap;
  try {
    bootstrap = Bootstrap::FromEnvironment();
    if (!AllOk(*bootstrap, CheckRanks(request, bootstrap->world_size()))) return 2;
    return Examine(*bootstrap, rest.empty() ? "." : rest[0]);
  } catch (const std::exception& e) {
    PrintStderr("weft: {}{}\n", bootstrap ? fmt::format("rank {}: ", bootstrap->rank()) : "", TextOf(e));
    std::fflush(stderr);
    if (bootstrap) bootstrap->Abort(1);
    return 1;
  }
}

}  // namespace weft
