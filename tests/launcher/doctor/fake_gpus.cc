// A library in the place of libweft_cuda.so, on a host with FAKE_GPUS GPUs. None of them can be opened.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {

void weft_cuda_gpus(std::vector<std::string>& gpus) {
  const char* count = std::getenv("FAKE_GPUS");
  for (int i = 0; i < std::atoi(count ? count : "0"); i++) gpus.push_back("GPU-" + std::to_string(i));
}

void* weft_cuda_open(int) { throw std::runtime_error("device cuda: a GPU that is none"); }
}
