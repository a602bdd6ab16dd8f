// The header of safetensors: reading gives tensors that lie within the file, or an error.
#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/train/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string path = fuzz::FileOf(data, size);
  // The need is that of an error that contains the path.
  fuzz::AllocationBound bound(size, {.largest = 1 << 10, .live = 4 << 10});
  absl::StatusOr<Safetensors> file = Safetensors::Open(path);
  if (!file.ok()) return 0;
  size_t bytes = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    bytes += tensor.data.size();
    bool whole = !tensor.dtype || tensor.data.size() == size_t(NumElements(tensor.shape)) * SizeOf(*tensor.dtype);
    fuzz::Check(whole, "a tensor has the bytes of its shape");
  }
  fuzz::Check(bytes <= size, "tensors lie within the file");
  file->Hash();  // reads the tensors
  return 0;
}
