// Checks the libraries that multiply matrices on CPUs.
#pragma once
#include "launcher/doctor/finding.h"

namespace weft {

// Opens OpenBLAS, and times its products of f64.
Finding ExamineOpenBlas();
// Times the products that are oneDNN's on this processor: large ones of f32, and bf16.
Finding ExamineOneDnn();

}  // namespace weft
