// BatchWork: what a batch of kernel calls does, as far as its time depends on it.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/planned_calls.h"

namespace weft {

enum class WorkClass : uint8_t { kProduct, kAttention, kMemory, kCollective };
const char* Name(WorkClass work);  // "product", "attention", "memory", "collective"

struct BatchWork {
  // Calls of one op to a group. `bytes` are those of the larger of a rank's two buffers, as weft bench collective
  // counts them.
  struct Transfer {
    Op op;
    double bytes;
  };
  WorkClass kind = WorkClass::kMemory;
  Op op = Op::kLeaf;
  DType dtype = DType::kF32;  // of the first operand, or of the result if there is none
  // Names ops, attributes, types, shapes and strides. Work of the same name takes the same time on a device.
  std::string name;
  std::string place;  // "einsum in blocks.*.mlp.up": the op and the module of all calls, the same in all blocks
  double flops = 0, bytes = 0;      // of all calls (CallCost)
  int64_t ranks = 1;                // of the group of a collective
  std::vector<Transfer> transfers;  // of a collective, in order, one per op
};

// Returns the work of a batch of these calls of `plan`. `memory` names the kind of memory of its collectives, on which
// their time depends; "": ordinary memory.
BatchWork WorkOf(const Plan& plan, const PlannedCalls& calls, const PlannedCalls::Batch& batch, const MeshShape& mesh,
                 const std::string& memory = "");
// Returns the work of a copy at the end of a plan.
BatchWork WorkOf(const Copy& copy);

}  // namespace weft
