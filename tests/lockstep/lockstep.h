// LockstepRanks: the ranks of a mesh in one thread, for tests that run very many small programs. The ranks interpret a
// program step by step, so no rank ever waits for another one.
//
//   LockstepRanks ranks({{"x", "y"}, {2, 2}}, bind, {.poison = true});
//   ranks.Run(local, [](int rank, const Interpreter& done) { ... done.Output(0) ... });
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "weft/core/compile/interpreter.h"
#include "weft/dist/group/mesh.h"

namespace weft::test {

class LockstepWorld;

class LockstepRanks {
 public:
  // Returns the storage of a leaf on a rank.
  using RankBinder = std::function<Tensor(int rank, const std::string& name, const ValueInfo& info)>;
  using Done = std::function<void(int rank, const Interpreter& interpreter)>;

  // The ranks have all CPU kernels and the rows of collectives.
  LockstepRanks(const MeshShape& mesh, RankBinder bind, const InterpretOptions& options);
  ~LockstepRanks();
  KernelTable& kernels(int rank) { return ranks_[size_t(rank)]->context.kernels(DeviceKind::kCpu); }
  int size() const { return int(ranks_.size()); }

  // Interprets the program on all ranks, and calls `done` for each after the last step. Writes are not stored. Throws
  // Error if a rank does, or if collectives do not fit together.
  void Run(const LocalProgram& program, const Done& done);

 private:
  struct Rank {
    Rank(int rank, const MeshShape& shape, LockstepWorld& world, Binder bind, const InterpretOptions& options);
    Context context;
    DeviceMesh mesh;
    Runtime runtime;
    Interpreter interpreter;
  };
  void RunStep(const InterpretPlan::Step& step);

  RankBinder bind_;
  std::unique_ptr<LockstepWorld> world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace weft::test
