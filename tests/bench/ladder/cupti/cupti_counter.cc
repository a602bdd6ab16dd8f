// Counts the calls of a program into CUDA. The CUDA driver loads this library into any program:
//
//   CUDA_INJECTION64_PATH=libcupti_counter.so WEFT_CALLS=calls.txt build/release/weft train CONFIG
//
// When the program ends, $WEFT_CALLS has a line per kind of call, "DOMAIN NAME COUNT". The domains are:
// - driver: calls that reach the driver, also from inside cuBLASLt and cuDNN;
// - runtime: calls of the runtime library, which end in driver calls;
// - synchronize: waits of the host, as the driver reports them, in any call.
// If a copy's call does not tell its direction, its name gets one: "cuMemcpyAsync:to_host". tests/bench/host_work.sh
// reads the file.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

class Counter {
 public:
  void Add(const char* domain, const std::string& name) {
    std::lock_guard lock(mutex_);
    counts_[std::string(domain) + " " + name]++;
  }
  void Write(const char* path) {
    std::lock_guard lock(mutex_);
    FILE* file = std::fopen(path, "w");
    if (!file) return std::perror(path);
    for (const auto& [name, count] : counts_) std::fprintf(file, "%s %lld\n", name.c_str(), count);
    std::fclose(file);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, long long> counts_;
};

// Never destroyed, because CUDA is called until the very end.
Counter& TheCounter() {
  static auto* counter = new Counter;
  return *counter;
}

// Uses the driver that is already loaded. This query triggers the callback, which must not count it.
bool OnDevice(CUdeviceptr address) {
  using Get = CUresult(void*, CUpointer_attribute, CUdeviceptr);
  static auto* get =
      reinterpret_cast<Get*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuPointerGetAttribute"));
  unsigned type = 0;
  return get && get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE;
}
const char* Direction(CUdeviceptr to, CUdeviceptr from) {
  if (OnDevice(to)) return OnDevice(from) ? ":on_device" : ":to_device";
  return OnDevice(from) ? ":to_host" : ":on_host";
}

std::string NameOf(CUpti_CallbackId id, const CUpti_CallbackData& call) {
  std::string name = call.functionName;
  if (id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync || id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz) {
    auto* params = static_cast<const cuMemcpyAsync_params*>(call.functionParams);
    name += Direction(params->dst, params->src);
  }
  if (id == CUPTI_DRIVER_TRACE_CBID_cuMemcpy || id == CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds) {
    auto* params = static_cast<const cuMemcpy_params*>(call.functionParams);
    name += Direction(params->dst, params->src);
  }
  return name;
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  thread_local bool inside = false;
  if (inside) return;
  if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE)
    return TheCounter().Add("synchronize", id == CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED ? "stream" : "context");
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite != CUPTI_API_ENTER) return;
  inside = true;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
    TheCounter().Add("driver", NameOf(id, call));
  else
    TheCounter().Add("runtime", call.functionName);
  inside = false;
}

bool Done(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* words = "unknown";
  cuptiGetResultString(result, &words);
  std::fprintf(stderr, "cupti_counter: %s: %s\n", what, words);
  return false;
}

}  // namespace

// The driver calls this when CUDA starts. Returns 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  CUpti_SubscriberHandle subscriber;
  if (!Done(cuptiSubscribe(&subscriber, OnCall, nullptr), "subscribe")) return 0;
  for (auto domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_SYNCHRONIZE})
    if (!Done(cuptiEnableDomain(1, subscriber, domain), "enable a domain")) return 0;
  std::atexit([] {
    if (const char* path = std::getenv("WEFT_CALLS")) TheCounter().Write(path);
  });
  return 1;
}
