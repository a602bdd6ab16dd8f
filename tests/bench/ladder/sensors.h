// What NVML says about one GPU while a probe runs. It only reads: no setting of the GPU is changed.
//   Sensors sensors(0);   unsigned mhz = sensors.Clock();   double joules = sensors.Energy();
#pragma once
#include <dlfcn.h>

#include "probe.h"

// NVML is part of the driver. Its header is not part of every toolkit, so the four functions are declared here.
class Sensors {
 public:
  explicit Sensors(int device) {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library_) throw std::runtime_error(std::string("load NVML, which comes with the driver: ") + dlerror());
    char bus[32];
    Check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "read the device's bus id");
    Call<>("nvmlInit_v2");
    Call<const char*, void**>("nvmlDeviceGetHandleByPciBusId_v2", bus, &device_);
  }
  ~Sensors() { dlclose(library_); }
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;

  // Returns the clock of the multiprocessors in MHz.
  unsigned Clock() const {
    constexpr int kMultiprocessors = 1;  // NVML_CLOCK_SM
    unsigned mhz = 0;
    Call<void*, int, unsigned*>("nvmlDeviceGetClockInfo", device_, kMultiprocessors, &mhz);
    return mhz;
  }
  // Returns the energy in joules since the driver was loaded. A difference over seconds gives the mean power. NVML's
  // own power is a mean over a period that depends on the GPU.
  double Energy() const {
    unsigned long long millijoules = 0;
    Call<void*, unsigned long long*>("nvmlDeviceGetTotalEnergyConsumption", device_, &millijoules);
    return double(millijoules) * 1e-3;
  }

 private:
  template <typename... Args>
  void Call(const char* name, Args... args) const {
    void* symbol = dlsym(library_, name);
    if (!symbol) throw std::runtime_error(std::string(name) + ": NVML has no such function");
    if (int status = reinterpret_cast<int (*)(Args...)>(symbol)(args...); status != 0)
      throw std::runtime_error(std::string(name) + ": NVML status " + std::to_string(status));
  }
  void* library_;
  void* device_ = nullptr;
};
