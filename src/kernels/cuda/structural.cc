#include "kernels/common/structural.h"

#include "kernels/cuda/copy.h"
#include "kernels/cuda/families.h"

namespace weft::cuda {

void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyPieces, ZeroBox>::Add(table); }

}  // namespace weft::cuda
