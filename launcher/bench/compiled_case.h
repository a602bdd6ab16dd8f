// CompiledCase: a small program on random tensors, lowered and compiled like a training step.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/compile/executable.h"

namespace weft {

using NamedTensors = std::map<std::string, Tensor>;

// Returns standard normal values on the device of `runtime`. They depend only on dtype, shape and name.
Tensor RandomTensor(const Runtime& runtime, DType dtype, const Shape& shape, const std::string& name);

// Returns the program of this rank that `body` builds; `body` returns its outputs. No leaf is sharded, so each rank
// runs the whole program.
LocalProgram TraceCase(const Runtime& runtime, absl::FunctionRef<std::vector<NamedValue>()> body);

// Compiles the program and binds its leaves to the tensors of the same name. The tensors must outlive the result.
// Throws Error as Compile does.
std::unique_ptr<Executable> CompileCase(const Runtime& runtime, const LocalProgram& program,
                                        const NamedTensors& leaves);

// Returns twice the number of multiplications in all matrix products. A causal mask of attention is not discounted.
double ProductFlops(const LocalProgram& program);

}  // namespace weft
