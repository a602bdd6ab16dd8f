// BatchProgram: batches of a plan by themselves, on operands of their own, so that they can be timed.
//
//   BatchProgram program(plan, {{first, count, 8}}, runtime);   // eight times the batch
//   Operands operands(runtime, std::array{&program});
//   std::unique_ptr<Executable> run = operands.Bind(program);
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/core/compile/executable.h"
#include "weft/core/ir/record.h"
#include "weft/dist/group/nccl/nccl_windows.h"

namespace weft {

// The program of some batches: their nodes, with a leaf for each operand, so that no batch needs another's results.
// A batch writes in place here if it does in the plan. Operands with repeated elements keep their strides.
class BatchProgram {
 public:
  // The steps of a batch, which run `copies` times one after the other.
  struct Run {
    size_t first, count;
    int64_t copies = 1;
  };
  // Overlaps as `runtime` does. Memory that overlapping collectives write is used once.
  BatchProgram(const Plan& plan, const std::vector<Run>& runs, const Runtime& runtime);
  BatchProgram(const BatchProgram&) = delete;
  BatchProgram& operator=(const BatchProgram&) = delete;

  const Plan& plan() const { return plan_; }
  const Runtime& runtime() const { return runtime_; }
  // Bytes of the floating operands, each rounded up to 256: those in the plan's arena, those in entries of the state
  // that are read, and those in entries that are written.
  struct OperandBytes {
    size_t arena = 0, entries = 0, written = 0;
  };
  const OperandBytes& operand_bytes() const { return operand_bytes_; }
  bool IsEntry(const std::string& operand) const { return entries_.contains(operand); }
  // Whether an entry is written.
  bool Writes(const std::string& entry) const { return written_.contains(entry); }
  // Returns the values that an entry of integers may have, for example of token ids.
  IntegerRange IntegersOf(const std::string& entry) const;

 private:
  Var Cloned(const Var& value);
  Var LeafOf(const Var& value, const std::string& name);
  void Add(const Plan& plan, size_t step, bool keep);
  void AddWrites(const Step& step, const std::shared_ptr<Node>& node);

  Runtime runtime_;
  std::map<const Node*, bool> made_;  // the steps of the plan
  std::map<std::pair<const Node*, int>, Var> leaves_;
  std::map<const Node*, std::shared_ptr<Node>> views_;
  std::map<std::string, IntegerRange> integers_;
  std::map<std::string, bool> written_, entries_;
  LocalProgram program_;
  Plan plan_;
  OperandBytes operand_bytes_;
};

// Whether a batch can run several times in one program: it writes nothing in place, its calls could not join those of
// the next copy, and its results need not be kept.
bool MayRepeat(const Plan& plan, size_t first, size_t count);
// Whether a batch writes any of its results into memory that it did not get for them.
bool WritesInPlace(const Plan& plan, size_t first, size_t count);

// Memory that several programs use in turns: random operands that none of them writes, those that they write, and one
// arena.
class Operands {
 public:
  // Returns the bytes that the programs need, without integers.
  static size_t BytesFor(std::span<const BatchProgram* const> programs);
  // With `windows`, what a step has in its arena is in these windows, so that collectives are made as a step with them
  // makes its own. Collective over the runtime's mesh then, and throws Error if there can be none.
  Operands(const Runtime& runtime, std::span<const BatchProgram* const> programs,
           std::span<const WindowUse> windows = {});
  // Programs and this object must outlive the executable. Throws Error if there is not enough memory.
  std::unique_ptr<Executable> Bind(const BatchProgram& program);

 private:
  Tensor Integers(const ValueInfo& info, IntegerRange range);  // random
  void FillRandomly(void* data, size_t bytes);

  // The most that a program needs of each kind.
  struct Sizes {
    size_t arena = 0, operands = 0, entries = 0, written = 0;
  };
  static Sizes SizesFor(std::span<const BatchProgram* const> programs);

  Runtime runtime_;
  Tensor random_;  // bf16 [n], standard normal; as f32 its values are near those too
  Sizes sizes_;
  BufferPtr memory_;  // the arena, then its operands
  BufferPtr entries_, written_;
  std::map<std::string, Tensor> integers_;
};

// Returns which programs to leave out so that the others fit into so many bytes: those that need the most.
std::vector<size_t> LeftOut(std::span<const BatchProgram* const> programs, size_t bytes);

}  // namespace weft
