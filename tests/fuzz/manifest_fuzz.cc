// The manifest of a checkpoint. The target adds the checksum, because no fuzzer guesses it. An accepted manifest reads
// back unchanged.
#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/train/checkpoint/manifest.h"

namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Compares all pairs of boxes, which the reader cannot afford.
bool Filled(const weft::SavedTensor& tensor) {
  int64_t elements = 0;
  for (size_t i = 0; i < tensor.boxes.size(); i++) {
    elements += weft::Volume(tensor.boxes[i].box);
    for (size_t j = 0; j < i; j++)
      if (weft::Meeting(tensor.boxes[i].box, tensor.boxes[j].box)) return false;
  }
  return elements == weft::NumElements(tensor.shape);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string_view body = fuzz::Text(data, size);
  // The need is that of an error.
  fuzz::AllocationBound bound(size, {.largest = 1 << 10, .live = 4 << 10});
  ParseManifest(BytesOf(body), "manifest.json").IgnoreError();
  absl::StatusOr<Manifest> manifest = ParseManifest(BytesOf(Sealed(std::string(body))), "manifest.json");
  if (!manifest.ok()) return 0;
  if (size <= 4096)
    for (const auto& [name, tensor] : manifest->tensors)
      fuzz::Check(Filled(tensor), "every element of a tensor is in one box");
  std::string text = ToText(*manifest);
  absl::StatusOr<Manifest> again = ParseManifest(BytesOf(text), "manifest.json");
  fuzz::Check(again.ok() && ToText(*again) == text, "a manifest reads back as it was");
  return 0;
}
