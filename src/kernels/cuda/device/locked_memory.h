// Host memory whose pages are locked, so that a GPU can copy from and to it by DMA.
#pragma once
#include "weft/core/base/device_runtime.h"

namespace weft::cuda {

// Returns null if the host has too little free memory or cannot lock more pages. Throws Error for any other failure.
// For large buffers, several threads map the pages first: CUDA's own allocation takes a second for 2 GB, because one
// thread clears small pages.
BufferPtr AllocateLocked(size_t bytes);

}  // namespace weft::cuda
