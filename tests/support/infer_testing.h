// Trained models on in-process ranks: what they write and what they lose.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/checkpoint_testing.h"
#include "weft/train/log/metrics.h"

namespace weft {
class Context;
class DeviceMesh;
class GroupFactory;
class LoadedModel;
class Tokenizer;
enum class MeshFill;
struct GenerateOptions;
struct ModelSource;
}  // namespace weft

namespace weft::testing_ {

// One rank's share of a command: the source is opened, the mesh made.
struct Opened {
  const ModelSource& source;
  const Tokenizer& tokenizer;
  Context& context;
  DeviceMesh& mesh;
};

class InferTest : public CheckpointTest {
 protected:
  // Opens `path` on so many ranks; the first rank's status. Without `fill` it is MeshFill::kTensor.
  absl::Status OnSource(const std::string& path, const Words& words, int ranks,
                        const std::function<absl::Status(const Opened&)>& fn) const;
  absl::Status OnSource(const std::string& path, const Words& words, int ranks,
                        const std::function<absl::Status(const Opened&)>& fn, MeshFill fill) const;
  std::string Path(const std::string& name) const;
  // Calls fn on each rank of a mesh of dp x tp, with the model that was saved to `name`.
  void On(const std::string& name, const Words& words, std::pair<int, int> mesh,
          const std::function<void(const Opened&)>& fn) const;
  // Returns the model that was opened, with the programs that find a token for each of `rows` texts.
  static std::unique_ptr<LoadedModel> Made(const Opened& o, bool cache, int64_t rows = 1);

  absl::StatusOr<std::vector<int32_t>> Write(const std::string& path, const Words& words, int ranks,
                                             const GenerateOptions& options, int64_t sample = 0) const;

  // The place of the first token of a greedy text of one rank whose two largest logits lie so near to each other that
  // the order of a sum may decide between them: within 2^-16 of the largest absolute logit, for f32. Texts of meshes
  // need not agree from there on. The text's length where there is none.
  size_t FirstNearTie(const std::string& path, const GenerateOptions& options, const std::vector<int32_t>& made) const;
  static bool IsNearTie(std::span<const double> logits);

  absl::StatusOr<EvalRecord> Evaluate(const std::string& path, const Words& words, int ranks) const;

 private:
  static absl::Status Open(const std::string& path, const Words& words, Context& context, GroupFactory& groups,
                           const std::function<absl::Status(const Opened&)>& fn, MeshFill fill);
};

}  // namespace weft::testing_
