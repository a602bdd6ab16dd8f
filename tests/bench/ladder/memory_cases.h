// What memory_bound measures: the memory-bound ops of a training step, in the shapes of two models, at any number of
// rows. Shapes and dtypes of results come from the ops' records, and bytes from both: none is typed by hand.
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
  std::vector<int32_t> ids = {};  // of kIds
  int64_t rows_read = -1;         // of a table: those that the ids name; -1: all

  size_t bytes() const { return size_t(NumElements(shape)) * SizeOf(dtype); }
};

struct Call {
  Op op;
  Attrs attrs;
  std::vector<Operand> in;
  std::vector<Operand> out = {};  // from the op's record

  // Every operand read once, every result written once.
  size_t Traffic() const;
};
// With results.
Call MakeCall(Op op, Attrs attrs, std::vector<Operand> in);
size_t Traffic(const std::vector<Call>& calls);

struct MemoryCase {
  std::string name, model;
  DType dtype;
  // One call, or the calls that go together into one launch, at so many rows (tokens; of an optimizer: blocks).
  std::function<std::vector<Call>(int64_t rows)> calls;
  int64_t step = 8;  // rows come in multiples of this
};
std::vector<MemoryCase> MemoryCases();
// The fewest rows with at least so much traffic.
int64_t RowsFor(const MemoryCase& c, size_t bytes);

}  // namespace weft::bench
