#include "weft/kernels/common/structural.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/copy.h"

namespace weft::cuda {

void AddStructural(KernelTable& table) {
  StructuralOps<CopyBox, CopyPieces, CopySingles, ZeroBox>::Each([&](Op op, auto run) { SetRun(table, op, run); });
}

}  // namespace weft::cuda
