#include "kernels/common/structural.h"

#include "kernels/cpu/copy.h"
#include "kernels/cpu/families.h"

namespace weft::cpu {

void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyBox, ZeroBox>::Add(table); }

}  // namespace weft::cpu
