#include "weft/kernels/cpu/product/openblas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "weft/core/base/process_memory.h"
#include "weft/kernels/cpu/product/gemm_core.h"

namespace weft::cpu {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kRemedy = "install OpenBLAS (Debian: libopenblas0-pthread)";

// Sets an environment variable until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// WEFT_OPENBLAS is the path that the build found, for libraries outside the loader's search path. RTLD_LOCAL keeps
// Weft's products apart from another BLAS in the process: neither uses the other's symbols.
absl::StatusOr<void*> OpenLibrary() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  std::string fault = dlerror();
  library = dlopen(WEFT_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  std::string advice = fault.find("No such file") == fault.npos ? LimitText() : "";
  return absl::NotFoundError(fmt::format("matrix products on the CPU: cannot open OpenBLAS ({}){}", fault,
                                         advice.empty() ? fmt::format("; {}", kRemedy) : advice));
}

template <class Fn>
absl::Status Find(void* library, const char* name, Fn*& function) {
  function = reinterpret_cast<Fn*>(dlsym(library, name));
  if (function) return absl::OkStatus();
  return absl::NotFoundError(fmt::format(
      "matrix products on the CPU: expected {} to be OpenBLAS, got a library without {}; {}", kLibrary, name, kRemedy));
}

absl::StatusOr<OpenBlas> Load() {
  CoreChoice choice = ChooseCore(FeaturesOfCpu(), std::getenv("OPENBLAS_CORETYPE"));
  std::optional<ScopedVariable> core;
  if (!choice.core.empty()) core.emplace("OPENBLAS_CORETYPE", choice.core);
  // Kernels split the work themselves, and each thread that OpenBLAS starts would map a buffer of 128 MiB.
  ScopedVariable threads("OPENBLAS_NUM_THREADS", "1");
  absl::StatusOr<void*> library = OpenLibrary();
  if (!library.ok()) return library.status();
  OpenBlas blas{.note = choice.note};
  for (const absl::Status& found :
       {Find(*library, "cblas_sgemm", blas.sgemm), Find(*library, "cblas_dgemm", blas.dgemm),
        Find(*library, "cblas_sgemv", blas.sgemv), Find(*library, "cblas_dgemv", blas.dgemv),
        Find(*library, "openblas_set_num_threads", blas.set_num_threads),
        Find(*library, "openblas_get_corename", blas.corename)})
    if (!found.ok()) return found;
  bool pool = Find(*library, "blas_memory_alloc", blas.take_buffer).ok() &&
              Find(*library, "blas_memory_free", blas.return_buffer).ok();
  if (!pool) blas.take_buffer = nullptr;
  blas.set_num_threads(1);
  return blas;
}

}  // namespace

const absl::StatusOr<OpenBlas>& LoadedOpenBlas() {
  static const absl::StatusOr<OpenBlas> loaded = Load();
  return loaded;
}

}  // namespace weft::cpu
