#include "weft/kernels/common/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace weft {

bool HasCudaDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) dlclose(driver);
  return driver != nullptr;
}

namespace {

constexpr const char* kLibrary = "libweft_cuda.so";

// The library is never closed, because kernels and buffers are in use until the process ends.
absl::StatusOr<void*> Library() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  std::string fault = dlerror();
  if (!HasCudaDriver())
    return absl::NotFoundError(
        "device cuda: this host has no NVIDIA driver, or this container does not see it; run where a GPU is, or use "
        "device=cpu");
  const char* remedy = fault.starts_with(kLibrary)
                           ? "build it with the rest: cmake --build --preset release, where the CUDA toolkit is"
                           : "install what it needs or use launcher/bundle.sh where that is";
  return absl::NotFoundError(
      fmt::format("device cuda: cannot open the CUDA library ({}); {}, or use device=cpu", fault, remedy));
}

template <class Fn>
Fn* Symbol(void* library, const char* name) {
  return reinterpret_cast<Fn*>(dlsym(library, name));
}

}  // namespace

absl::Status OpenCudaKernels(KernelTable& table) {
  absl::StatusOr<void*> library = Library();
  if (!library.ok()) return library.status();
  Symbol<void(KernelTable&)>(*library, "weft_cuda_register")(table);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CudaGpus() {
  absl::StatusOr<void*> library = Library();
  if (!library.ok()) return library.status();
  std::vector<std::string> gpus;
  try {
    Symbol<void(std::vector<std::string>&)>(*library, "weft_cuda_gpus")(gpus);
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(e.what());
  }
  return gpus;
}

absl::Status OpenCuda(Context& context, int index) {
  absl::StatusOr<void*> library = Library();
  if (!library.ok()) return library.status();
  try {
    context.AddDevice(std::unique_ptr<DeviceRuntime>(Symbol<DeviceRuntime*(int)>(*library, "weft_cuda_open")(index)));
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(e.what());
  }
  return OpenCudaKernels(context.kernels(DeviceKind::kCuda));
}

}  // namespace weft
