// The cudnn backend of attention in builds that did not find the headers of cudnn-frontend.
#include "weft/kernels/cuda/attention/sdpa_choice.h"

namespace weft::cuda {
namespace {

std::string Refuses(const KernelCall&) {
  return "built without cudnn-frontend; run launcher/setup.sh, then configure and build again";
}

}  // namespace

constinit const SdpaBackend kCudnnSdpa{"cudnn", Refuses, nullptr, nullptr, nullptr};

}  // namespace weft::cuda
