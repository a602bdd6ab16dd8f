#include "weft/kernels/common/structural.h"

#include "weft/kernels/cpu/copy.h"
#include "weft/kernels/cpu/families.h"

namespace weft::cpu {

void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyBox, ZeroBox>::Add(table); }

}  // namespace weft::cpu
