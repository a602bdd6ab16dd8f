// The manifest of a checkpoint, sealed, as no fuzzer guesses a checksum: what is taken reads back as it was.
#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "parallel/checkpoint/manifest.h"

namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string_view body = fuzz::Text(data, size);
  fuzz::AllocationBound bound(size);
  ParseManifest(BytesOf(body), "manifest.json").IgnoreError();
  absl::StatusOr<Manifest> manifest = ParseManifest(BytesOf(Sealed(std::string(body))), "manifest.json");
  if (!manifest.ok()) return 0;
  std::string text = ToText(*manifest);
  absl::StatusOr<Manifest> again = ParseManifest(BytesOf(text), "manifest.json");
  fuzz::Check(again.ok() && ToText(*again) == text, "a manifest reads back as it was");
  return 0;
}
