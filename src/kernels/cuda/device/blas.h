// cuBLASLt for the files that call it. Its header is long, and every kernel includes device.h.
#pragma once
#include <cublasLt.h>

#include <source_location>

namespace weft::cuda {

// Throws Error that names the call and its place in the source if `status` is a failure.
void Check(cublasStatus_t status, const char* call, std::source_location at = std::source_location::current());

}  // namespace weft::cuda
