// The cases of memory_bound: the memory-bound ops of a training step, in the shapes of two models, at any number of
// rows. Shapes and dtypes of results come from the ops' records, and bytes from both.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft::bench {

enum class Values : uint8_t { kNormal, kUniform, kOne, kIds, kNone };

struct Operand {
  DType dtype;
  Shape shape;
  Values values = Values::kNormal;
  std::vector<int32_t> ids = {};  // for kIds
  int64_t rows_read = -1;         // rows of a table that the ids select; -1 for all

  size_t bytes() const { return size_t(NumElements(shape)) * SizeOf(dtype); }
};

struct Call {
  Op op;
  Attrs attrs;
  std::vector<Operand> in;
  std::vector<Operand> out = {};  // from the op's record

  // Returns the bytes of every operand read once and every result written once.
  size_t Traffic() const;
};
// Returns the call with its results.
Call MakeCall(Op op, Attrs attrs, std::vector<Operand> in);
size_t Traffic(const std::vector<Call>& calls);

struct MemoryCase {
  std::string name, model;
  DType dtype;
  // Returns one call, or the calls of one launch, for a number of rows: tokens or, for an optimizer, blocks.
  std::function<std::vector<Call>(int64_t rows)> calls;
  int64_t step = 8;  // rows are a multiple of this
};
std::vector<MemoryCase> MemoryCases();
// Returns the fewest rows with at least `bytes` of traffic.
int64_t RowsFor(const MemoryCase& c, size_t bytes);

}  // namespace weft::bench
