#include "weft/kernels/common/structural.h"

#include "weft/kernels/cuda/copy.h"
#include "weft/kernels/cuda/families.h"

namespace weft::cuda {

void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyPieces, ZeroBox>::Add(table); }

}  // namespace weft::cuda
