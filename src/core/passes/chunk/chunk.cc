#include "weft/core/passes/chunk/chunk.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/chunk/chunk_choice.h"
#include "weft/core/passes/chunk/chunk_links.h"
#include "weft/core/passes/made_for.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

class Chunker {
 public:
  Chunker(const LocalProgram& program, const ChunkOptions& options)
      : program_(program), links_(program), chosen_(ChooseChunks(program, options)) {}

  LocalProgram Run() {
    if (std::ranges::none_of(chosen_, [](const auto& node) { return node.has_value(); })) return program_;
    for (int i = 0; i < links_.size(); i++) chosen_[size_t(i)] ? MakeChunks(i) : MakeWhole(i);
    Graph graph = std::move(result_);
    CarryNames(program_.graph, graph, now_);
    return {RemoveDead(graph), program_.mesh, program_.inlined};
  }

 private:
  void MakeWhole(int i) {
    const std::shared_ptr<Node>& node = program_.graph.nodes[size_t(i)];
    std::shared_ptr<Node> now = now_.WithNewInputs(node);
    if (now != node) now_.Set(*node, now);
    result_.nodes.push_back(std::move(now));
  }

  // Makes the node once per chunk, and joins the results that are also read as a whole.
  void MakeChunks(int i) {
    const Node& node = links_.At(i);
    const auto& [cut, rows] = *chosen_[size_t(i)];
    std::vector<std::shared_ptr<Node>> made;
    for (int j = 0; j < cut.chunks; j++) {
      auto chunk = std::make_shared<Node>(node);
      for (size_t k = 0; k < node.inputs.size(); k++)
        chunk->inputs[k] =
            rows.in[k] < 0 ? now_.Now(node.inputs[k]) : ChunkOf(node.inputs[k], rows.in[k], cut, {j, node.phase});
      for (size_t o = 0; o < node.outputs.size(); o++) Resize(chunk->outputs[o], rows.out[o], cut.rows(j));
      result_.nodes.push_back(chunk);
      made.push_back(std::move(chunk));
    }
    for (int o = 0; o < int(node.outputs.size()); o++) {
      std::vector<Var> chunks;
      chunks.reserve(made.size());
      for (const auto& chunk : made) chunks.emplace_back(chunk, o);
      if (links_.IsView(i, chosen_))
        MakeWhole(i);
      else if (links_.IsReadWhole(i, o, chosen_))
        now_.Set({&node, o}, Joined(chunks, rows.out[size_t(o)], cut));
      made_[{&node, o}] = std::move(chunks);
    }
  }

  // Sets the extent of a dim, which all its shards divide.
  void Resize(ValueInfo& info, int dim, int64_t extent) const {
    info.global[size_t(dim)] = extent;
    info.shape = ChunkShape(info.global, info.sharding, program_.mesh);
  }

  // A chunk that a node of the phase reads. Each phase cuts whole values for itself, so that none lives from one phase
  // to the next.
  struct Wanted {
    int chunk;
    Phase phase;
  };
  // Returns a chunk of a value whose dim `dim` is rows.
  Var ChunkOf(const Var& v, int dim, const Cut& cut, Wanted want) {
    const auto& from = chosen_[size_t(links_.IndexOf(v))];
    if (from && from->cut == cut && from->rows.out[size_t(v.index())] == dim)
      return made_.at(KeyOf(v))[size_t(want.chunk)];
    std::tuple key{&v.node(), v.index(), dim, cut.pieces, want.chunk, want.phase};
    if (auto it = cut_.find(key); it != cut_.end()) return it->second;
    bool broadcast = !from && v.node().op == Op::kBroadcast;
    return cut_[key] = broadcast ? BroadcastChunk(v, dim, cut, want) : Sliced(now_.Now(v), dim, cut, want);
  }

  // Returns the same broadcast of fewer rows, for one that is not computed in chunks itself.
  Var BroadcastChunk(const Var& v, int dim, const Cut& cut, Wanted want) {
    const Node& node = v.node();
    int added = int(node.attrs.Int("dim"));
    auto chunk = std::make_shared<Node>(node);
    chunk->phase = want.phase;
    if (added == dim) {
      chunk->attrs.Set({"size", cut.rows(want.chunk)});
      chunk->inputs[0] = now_.Now(node.inputs[0]);
    } else {
      chunk->inputs[0] = ChunkOf(node.inputs[0], dim < added ? dim : dim - 1, cut, want);
    }
    Resize(chunk->outputs[0], dim, cut.rows(want.chunk));
    return Emit(std::move(chunk));
  }

  // Cuts `size` rows out of each piece: views [.., pieces * piece, ..] as [.., pieces, piece, ..] and slices that. The
  // copy has the id of the value that it repeats, as those of Recompute do.
  Var Sliced(const Var& v, int dim, const Cut& cut, Wanted want) {
    Node origin = v.node();
    origin.phase = want.phase;
    int64_t start = cut.first(want.chunk), size = cut.size(want.chunk);
    if (LieInOrder(InfoOf(v), dim, cut, program_.mesh)) {
      Attrs attrs{{"dim", dim}, {"start", start * cut.pieces}, {"length", cut.rows(want.chunk)}, {"packed", start}};
      return Emit(MadeFor(origin, Op::kSlice, attrs, {v}, WithExtent(InfoOf(v), dim, cut.rows(want.chunk))));
    }
    if (cut.pieces == 1) return Slice(v, dim, start, size, origin);
    return MergePieces(Slice(SplitPieces(v, dim, cut.piece(), origin), dim + 1, start, size, origin), dim, origin);
  }
  Var Slice(const Var& v, int dim, int64_t start, int64_t size, const Node& origin) {
    return Emit(MadeFor(origin, Op::kSlice, {{"dim", dim}, {"start", start}, {"length", size}}, {&v, 1},
                        WithExtent(InfoOf(v), dim, size)));
  }

  Var Joined(std::vector<Var> chunks, int dim, const Cut& cut) {
    const Node& origin = chunks[0].node();
    ValueInfo whole = WithExtent(InfoOf(chunks[0]), dim, cut.extent);
    if (LieInOrder(whole, dim, cut, program_.mesh))
      return Emit(MadeFor(origin, Op::kConcat, {{"dim", dim}, {"packed", 0}}, chunks, std::move(whole)));
    if (cut.pieces == 1) return Concat(chunks, dim, cut.extent, origin);
    for (int j = 0; j < cut.chunks; j++) chunks[size_t(j)] = SplitPieces(chunks[size_t(j)], dim, cut.size(j), origin);
    return MergePieces(Concat(chunks, dim + 1, cut.piece(), origin), dim, origin);
  }
  Var Concat(std::span<const Var> parts, int dim, int64_t extent, const Node& origin) {
    return Emit(MadeFor(origin, Op::kConcat, {{"dim", dim}}, parts, WithExtent(InfoOf(parts[0]), dim, extent)));
  }

  ValueInfo WithExtent(ValueInfo info, int dim, int64_t extent) const {
    Resize(info, dim, extent);
    return info;
  }
  // The dims after `dim` move by `by`. The ranks that shard `dim` then shard its pieces.
  static Sharding Moved(const Sharding& old, int dim, int by) {
    absl::InlinedVector<Placement, kMaxAxes> placements;
    for (int a = 0; a < old.num_axes(); a++) {
      placements.push_back(old[a]);
      if (old[a].kind == Placement::kShard && old[a].dim > dim) placements.back().dim = int8_t(old[a].dim + by);
    }
    return Sharding(std::span<const Placement>(placements));
  }
  Var SplitPieces(const Var& v, int dim, int64_t piece, const Node& origin) {
    ValueInfo info = InfoOf(v);
    info.global[size_t(dim)] /= piece;
    info.global.insert(info.global.begin() + dim + 1, piece);
    info.sharding = Moved(info.sharding, dim, 1);
    info.shape = ChunkShape(info.global, info.sharding, program_.mesh);
    return Emit(MadeFor(origin, Op::kSplit, {{"dim", dim}, {"inner", piece}}, {&v, 1}, std::move(info)));
  }
  Var MergePieces(const Var& v, int dim, const Node& origin) {
    ValueInfo info = InfoOf(v);
    info.global[size_t(dim)] *= info.global[size_t(dim) + 1];
    info.global.erase(info.global.begin() + dim + 1);
    info.sharding = Moved(info.sharding, dim, -1);
    info.shape = ChunkShape(info.global, info.sharding, program_.mesh);
    return Emit(MadeFor(origin, Op::kMerge, {{"dim", dim}}, {&v, 1}, std::move(info)));
  }

  Var Emit(std::shared_ptr<Node> node) {
    result_.nodes.push_back(node);
    return {std::move(node), 0};
  }

  const LocalProgram& program_;
  Links links_;
  std::vector<std::optional<InChunks>> chosen_;
  Replacements now_;                                                           // the values that are read as a whole
  absl::flat_hash_map<ValueKey, std::vector<Var>> made_;                       // the chunks of results
  std::map<std::tuple<const Node*, int, int, int64_t, int, Phase>, Var> cut_;  // chunks of whole values
  Graph result_;
};

}  // namespace

LocalProgram Chunk(const LocalProgram& program, const ChunkOptions& options) {
  LocalProgram chunked = Chunker(program, options).Run();
  if (VerifiesPasses()) VerifyLocal(chunked.graph, chunked.mesh);
  return chunked;
}

}  // namespace weft
