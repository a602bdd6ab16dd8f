#include "weft/dist/group/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "weft/core/base/error.h"

namespace weft {
namespace {

// Variables that NCCL reads at its first call, with the reasons. tests/bench/ladder/README.md has the measurements.
constexpr struct Setting {
  const char *name, *value;
} kEnvironment[] = {
    {"NCCL_NVLS_ENABLE", "0"},           // no NVLink multicast
    {"NCCL_GRAPH_MIXING_SUPPORT", "0"},  // a step is one graph, and no eager call is made while one runs
    {"NCCL_GRAPH_REGISTER", "0"},        // helps only memory from ncclMemAlloc
    {"NCCL_SYM_CTAS", "32"},             // NCCL's model takes about 10, which are up to 1.5 times as slow
};
constexpr Setting kOneHost[] = {
    {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_NET", "Socket"}, {"NCCL_IB_DISABLE", "1"}, {"NCCL_RAS_ENABLE", "0"}};

std::string NotFound(int ranks, const std::string& fault) {
  return fmt::format(
      "{} ranks on GPUs talk through NCCL, which cannot be opened ({}); install NCCL {} or newer, or add the folder of "
      "libnccl.so.2 to LD_LIBRARY_PATH, or run on one GPU, or use device=cpu",
      ranks, fault, NcclVersionText(nccl::kOldest));
}

void SetEnvironment(bool one_host) {
  for (const auto& [name, value] : kEnvironment) setenv(name, value, 0);
  if (one_host)
    for (const auto& [name, value] : kOneHost) setenv(name, value, 0);
}

}  // namespace

std::string NcclVersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

absl::Status NcclLibrary::Find(void* library, const std::string& file) {
  const char* missing = nullptr;
#define WEFT_FIND(R, name, arguments) \
  if (!(name = reinterpret_cast<decltype(name)>(dlsym(library, "nccl" #name)))) missing = "nccl" #name;
  WEFT_NCCL_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
#define WEFT_FIND(R, name, arguments) name = reinterpret_cast<decltype(name)>(dlsym(library, "nccl" #name));
  WEFT_NCCL_WINDOW_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (GetVersion && GetVersion(&version_) != nccl::Result::kSuccess) version_ = 0;
  if (!missing && version_ >= nccl::kOldest) return absl::OkStatus();
  std::string fault = missing ? fmt::format(", without {}", missing) : "";
  return absl::FailedPreconditionError(
      fmt::format("NCCL: expected version {} or newer, got {} in {}{}; install a newer one, or use device=cpu",
                  NcclVersionText(nccl::kOldest), NcclVersionText(version_), file, fault));
}

std::string NcclLibrary::Path() const {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(GetVersion), &info) && info.dli_fname ? info.dli_fname : "";
}

absl::Status NcclLibrary::HasWindows() const {
  const char* missing = nullptr;
#define WEFT_MISSING(R, name, arguments) \
  if (!name) missing = "nccl" #name;
  WEFT_NCCL_WINDOW_FUNCTIONS(WEFT_MISSING)
#undef WEFT_MISSING
  if (!missing) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format("NCCL {} has no {}", NcclVersionText(version_), missing));
}

absl::Status NcclLibrary::CheckEnvironment() {
  const char* multicast = std::getenv("NCCL_NVLS_ENABLE");
  if (!multicast || std::strcmp(multicast, "0") == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("NCCL_NVLS_ENABLE: expected 0, as Weft does without NVLink multicast, got \"{}\"; unset it or set it "
                  "to 0",
                  multicast));
}

absl::StatusOr<std::shared_ptr<const NcclLibrary>> NcclLibrary::Open(int ranks, bool one_host,
                                                                     const std::string& file) {
  if (absl::Status s = CheckEnvironment(); !s.ok()) return s;
  SetEnvironment(one_host);
  void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed, because it has threads
  if (!opened) return absl::NotFoundError(NotFound(ranks, dlerror()));
  std::shared_ptr<NcclLibrary> library(new NcclLibrary);
  if (absl::Status status = library->Find(opened, file); !status.ok()) return status;
  return library;
}

std::string NcclLibrary::Describe(nccl::Result result, nccl::Communicator* comm) const {
  const char* last = GetLastError(comm);
  bool more = last && *last;
  return fmt::format("NCCL says {}{}{}", GetErrorString(result), more ? ": " : "", more ? last : "");
}

void NcclLibrary::Check(nccl::Result result, const std::string& what, nccl::Communicator* comm) const {
  if (result != nccl::Result::kSuccess) Fail(fmt::format("{}: {}", what, Describe(result, comm)));
}

}  // namespace weft
