// Interpret: runs a local program node by node, each value in its own buffer. Slow and plain; it can trap NaNs and
// print.
#pragma once
#include <map>

#include "weft/core/compile/runtime.h"
#include "weft/core/transforms/partition.h"

namespace weft {

struct InterpretOptions {
  bool trap_nan = false;  // throw at the first op that gives a NaN
  bool poison = false;    // results and scratch start as NaN (integers as -1): what a kernel leaves out shows
  bool print = false;     // one line a node to stderr, with the range of its values
};

// Runs the program once. Outputs come back by name (chunk-shaped); writes are stored into the bound tensors.
std::map<std::string, Tensor> Interpret(const LocalProgram& program, const Runtime& runtime, const Binder& bind,
                                        const InterpretOptions& options = {});

}  // namespace weft
