#include "weft/kernels/common/structural.h"

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/copy.h"

namespace weft::cpu {

void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyBox, CopySingles, ZeroBox>::Add(table); }

}  // namespace weft::cpu
