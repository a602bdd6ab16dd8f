// The interface of fuzz targets: a function of bytes that must not crash, hang or take more memory than
// allocation_bound.h allows. libFuzzer calls it (preset fuzz), or replay.cc does with the stored corpus.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace weft::fuzz {

inline std::string_view Text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// Returns the path of an unnamed file with these bytes. The path is valid until the next call.
std::string FileOf(const uint8_t* data, size_t size);

// Ends the process if the law does not hold, which is what a fuzzer looks for.
void Check(bool holds, const char* law);

}  // namespace weft::fuzz
