#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "reference/pages.h"
#include "reference/sources.h"

namespace weft::reference {
namespace {

struct Variable {
  const char *name, *meaning;
};

// Read from the environment of a run.
constexpr Variable kForUsers[] = {
    {"COLUMNS", "width of a run's lines if the output is not a terminal; 80 without it"},
    {"HOME", "`~/.cache/weft` keeps the fastest algorithms of products, and times of attention"},
    {"NO_COLOR", "if it is set and not empty, there are no colours"},
    {"OPENBLAS_CORETYPE", "kernels of OpenBLAS, if they are as fast as those that Weft chooses"},
    {"PATH", "`weft doctor` looks for `mpirun` there"},
    {"WEFT_DUMP", "a folder to which every program is written after each pass"},
    {"WEFT_INTERFACE", "network interface on which ranks of several hosts meet, for example `eth1`"},
    {"WEFT_LINK_MB_S",
     "megabytes per second that each connection between CPU ranks sends at most, to try a run as on a slower network"},
    {"WEFT_SECRET", "the secret of a job whose ranks are started by variables, the same on all ranks"},
    {"WEFT_SECRET_FILE", "a file with that secret"},
    {"WEFT_TUNE",
     "`0`: nothing on a GPU is timed or kept: products run by the library's first guess, attention by its first "
     "backend; `settled`: the algorithms of large products are compared under load, as in a step, and with more of "
     "them "
     "than cuBLASLt names, so that a first run starts one to two minutes later"},
    {"XDG_CACHE_HOME", "replaces `~/.cache`"},
};

// Set by what started the ranks, and read by them.
constexpr Variable kFromLaunchers[] = {
    {"MASTER_ADDR", "address of rank 0's host"},
    {"MASTER_PORT", "port on which rank 0 listens"},
    {"RANK", "number of the rank, from 0"},
    {"WORLD_SIZE", "number of ranks"},
    {"TORCHELASTIC_RUN_ID", "id of the job; tells two jobs apart"},
    {"OMPI_COMM_WORLD_SIZE", "set by `mpirun`: number of ranks"},
    {"OMPI_COMM_WORLD_RANK", "set by `mpirun`: number of the rank"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "set by `mpirun`: number of ranks on this host"},
    {"PMIX_RANK", "set by launchers with PMIx: number of the rank"},
    {"PMI_RANK", "set by launchers with PMI: number of the rank"},
    {"PMI_SIZE", "set by launchers with PMI: number of ranks"},
    {"SLURM_PROCID", "number of the rank, in a job without MPI"},
    {"SLURM_NTASKS", "number of ranks, in a job without MPI"},
    {"SLURM_JOB_ID", "id of the job: chooses the port, tells jobs apart, and is the secret if there is no other"},
    {"SLURM_HET_JOB_ID", "id of a heterogeneous job"},
    {"SLURM_STEP_ID", "id of the step; a process without it is no rank"},
    {"SLURM_STEP_NODELIST", "hosts of the step; rank 0 runs on the first"},
    {"SLURM_JOB_NODELIST", "hosts of the job, if the step has no list"},
    {"PBS_JOBID", "id of the job, as `SLURM_JOB_ID`"},
    {"LSB_JOBID", "id of the job, as `SLURM_JOB_ID`"},
    {"WEFT_TERMINAL", "set by `ranks=N` for its ranks if they print on a terminal: its width, 0 if unknown"},
    {"WEFT_READY", "set by `ranks=N` for its ranks: pipe by which they report that they take signals"},
};

// Set by Weft for libraries unless they are set already.
constexpr Variable kSetByWeft[] = {
    {"NCCL_NVLS_ENABLE", "0: Weft does not use NVLink multicast, and refuses GPUs with another value"},
    {"NCCL_GRAPH_MIXING_SUPPORT", "0: no other call is made while the graph of a step runs"},
    {"NCCL_GRAPH_REGISTER", "0: it helps only memory of `ncclMemAlloc`, which Weft registers itself"},
    {"NCCL_SYM_CTAS", "32: blocks of its symmetric kernels; with its own number they are up to 1.5 times as slow"},
    {"NCCL_SOCKET_IFNAME", "lo on one host: nothing listens except on the loopback"},
    {"NCCL_NET", "Socket on one host"},
    {"NCCL_IB_DISABLE", "1 on one host"},
    {"NCCL_RAS_ENABLE", "0 on one host"},
    {"OPENBLAS_NUM_THREADS", "1 while OpenBLAS is opened: Weft has threads of its own"},
};

// Set by ranks=N and launcher/environment.sh, for the mpirun of Open MPI 4 (OMPI) and 5 (PRTE).
constexpr Variable kForMpirun[] = {
    {"OMP_NUM_THREADS", "1: each rank has threads of its own"},
    {"OMPI_ALLOW_RUN_AS_ROOT", "1: root may start ranks"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1, as Open MPI asks for both"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1: there may be more ranks than cores"},
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe: there may be more ranks than cores"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none: ranks may move between cores"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none: ranks may move between cores"},
    {"OMPI_MCA_mpi_yield_when_idle", "1: a rank that waits leaves its core to others"},
    {"OMPI_MCA_pml", "ob1: messages of MPI use Open MPI's own transports"},
    {"OMPI_MCA_btl", "self,vader on one host, and also tcp on several; set by each rank"},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none: containers forbid the other mechanisms"},
    {"OMPI_MCA_btl_base_warn_component_unused", "0: no warning"},
    {"OMPI_MCA_oob_tcp_keepalive_time", "10: `mpirun` notices a lost host within 30 seconds"},
    {"OMPI_MCA_oob_tcp_keepalive_intvl", "5 seconds between probes of a silent host"},
    {"OMPI_MCA_oob_tcp_keepalive_probes", "4 probes"},
    {"PRTE_MCA_oob_tcp_keepalive_time", "10, as for Open MPI 4"},
    {"PRTE_MCA_oob_tcp_keepalive_intvl", "5, as for Open MPI 4"},
    {"PRTE_MCA_oob_tcp_keepalive_probes", "4, as for Open MPI 4"},
    {"PMIX_MCA_pcompress_base_silence_warning", "1: no warning"},
    {"OMPI_MCA_orte_execute_quiet", "1 with `ranks=N`: no lines of `mpirun` about a rank that ended"},
    {"PRTE_MCA_prte_execute_quiet", "1, as for Open MPI 4"},
};

// Read by scripts and for tests.
constexpr Variable kForDevelopers[] = {
    {"CUDA_HOME", "folder of the CUDA toolkit, for `launcher/setup.sh`, `launcher/quickstart.sh` and the build"},
    {"WEFT_BUILD", "build folder that `launcher/bundle.sh` and `tests/gpu.sh` pack; `build/release` without it"},
    {"WEFT_FAULT", "POINT:ACTION[:NTH]: makes a call fail, for tests (`src/core/testing/fault.h`)"},
    {"WEFT_SDPA", "backend of attention on a GPU, for tests, unless `kernels.attention` names one"},
    {"WEFT_VERIFY", "1: the program is verified after each pass, as debug builds do"},
};

// Strings of the sources that look like variables and are none.
constexpr const char* kNoVariables[] = {"F8_E8M0", "F8_E5M2", "F8_E4M3"};
// Prefixes to which the sources add the rest of a name in kForMpirun.
constexpr const char* kPrefixes[] = {"OMPI_MCA_oob_tcp_keepalive_", "PRTE_MCA_oob_tcp_keepalive_"};

template <class Rows>
std::string Section(const char* title, const Rows& rows, std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> cells;
  for (const Variable& variable : rows) {
    names.emplace_back(variable.name);
    cells.push_back({Code(variable.name), variable.meaning});
  }
  return fmt::format("\n## {}\n\n{}", title, Table({"variable", "meaning"}, cells));
}

// The names in the code of src and launcher: string literals that look like variables, and arguments of getenv; and
// in scripts, variables with a default.
std::vector<std::string> NamesInSources(const std::string& root) {
  std::vector<std::string> code = Files(root, {"src", "launcher"}, {".cc", ".h", ".cu", ".cuh"}),
                           scripts = Files(root, {"launcher"}, {".sh"}), names;
  for (const char* pattern :
       {R"rx("([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)")rx", R"rx("((?:OMPI|PRTE|PMIX)_MCA_[a-z_]+)")rx",
        R"rx((?:getenv|Has|FromVariable)\("([A-Z]+)")rx", R"rx(Launch::kVariables, "([A-Z]+)")rx"})
    for (const std::string& name : Found(code, pattern)) names.push_back(name);
  for (const std::string& name : Found(scripts, R"rx(\$\{([A-Z][A-Z0-9_]*):-)rx")) names.push_back(name);
  std::erase_if(names, [](const std::string& name) {
    auto is = [&](const char* other) { return name == other; };
    return std::any_of(std::begin(kNoVariables), std::end(kNoVariables), is) ||
           std::any_of(std::begin(kPrefixes), std::end(kPrefixes), is);
  });
  return names;
}

// Returns the options of the build: option(NAME "meaning" DEFAULT), and set(NAME DEFAULT CACHE TYPE "meaning").
std::string BuildOptions(const std::string& root) {
  std::vector<std::string> files = Files(root, {"CMakeLists.txt", "cmake", "tests/CMakeLists.txt"}, {".txt", ".cmake"});
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const char* command, const char* meaning) {
    std::vector<std::string> names = Found(files, command), meanings = Found(files, meaning);
    for (size_t i = 0; i < names.size(); i++) rows.push_back({Code(names[i]), meanings.at(i)});
  };
  add(R"rx(option\((WEFT_\w+) ")rx", R"rx(option\(WEFT_\w+ "([^"]*)")rx");
  add(R"rx(set\((WEFT_\w+) [^\n]*CACHE [A-Z]+ ")rx", R"rx(set\(WEFT_\w+ [^\n]*CACHE [A-Z]+ "([^"]*)")rx");
  add(R"rx((?:find_path|find_file)\((WEFT_\w+_DIR))rx",
      R"rx((?:find_path|find_file)\(WEFT_\w+_DIR [^)]*DOC "([^"]*)")rx");
  std::sort(rows.begin(), rows.end());
  return "\n## Options of the build\n\n`cmake --preset release -DNAME=VALUE` sets them.\n\n" +
         Table({"option", "meaning"}, rows);
}

}  // namespace

std::string VariablesPage(const Places& places) {
  std::vector<std::string> names;
  std::string text = Heading("Environment variables", "Weft and its scripts read and set these variables.");
  text += Section("For users", kForUsers, names);
  text += Section("From launchers", kFromLaunchers, names);
  text += Section("Set by Weft unless they are set", kSetByWeft, names);
  text += Section("Set for mpirun unless they are set", kForMpirun, names);
  text += Section("For developers and tests", kForDevelopers, names);
  ExpectSame("environment variables", names, NamesInSources(places.root));
  return text + BuildOptions(places.root);
}

}  // namespace weft::reference
