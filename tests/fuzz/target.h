// What every fuzz target here is: a function of bytes that must neither crash nor hang, nor take more memory than
// allocation_bound.h grants. libFuzzer calls it (preset fuzz), or replay.cc with the corpus that is kept.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace weft::fuzz {

inline std::string_view Text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// A file without a name that holds these bytes: its path is good until the next call.
std::string FileOf(const uint8_t* data, size_t size);

// Ends the process, which is what a fuzzer looks for, unless a law holds.
void Check(bool holds, const char* law);

}  // namespace weft::fuzz
