// Interpret: runs a local program node by node, with each value in its own buffer. It is slow and simple, and it can
// trap NaNs and print values.
#pragma once
#include <map>

#include "weft/core/compile/runtime.h"
#include "weft/core/transforms/partition.h"

namespace weft {

struct InterpretOptions {
  bool trap_nan = false;  // throws Error at the first op that returns a NaN
  bool poison = false;    // results and scratch start as NaN (integers as -1), so elements that a kernel skips show
  bool print = false;     // one line per node to stderr, with the range of its first output
};

// Runs the program once. Returns the outputs by name (chunk-shaped). Writes are stored into the bound tensors.
std::map<std::string, Tensor> Interpret(const LocalProgram& program, const Runtime& runtime, const Binder& bind,
                                        const InterpretOptions& options = {});

}  // namespace weft
