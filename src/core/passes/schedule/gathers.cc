#include "weft/core/passes/schedule/gathers.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "weft/core/passes/block.h"

namespace weft {
namespace {

std::string LeafOf(const Order& order, const Move& move) {
  for (const Var& in : order.At(move.chain.empty() ? move.node : move.chain.front()).inputs)
    if (in.node().op == Op::kLeaf) return in.node().attrs.Text("name");
  return "";
}
bool Alike(const Node& a, const Node& b) {
  return a.op == b.op && a.attrs.Int("axis") == b.attrs.Int("axis") && BlockOf(a) == BlockOf(b);
}

// Returns the buckets of gathers that are sorted by their readers. A leaf that is gathered again is for another pass.
std::vector<Bucket> BucketsOf(const Order& order, const std::vector<Move>& gathers) {
  std::vector<Bucket> buckets;
  std::set<std::string> leaves;  // of the last bucket
  for (const Move& move : gathers) {
    std::string leaf = LeafOf(order, move);
    if (buckets.empty() || leaves.contains(leaf) ||
        !Alike(order.At(buckets.back().front().node), order.At(move.node))) {
      buckets.emplace_back();
      leaves.clear();
    }
    buckets.back().push_back(move);
    leaves.insert(leaf);
  }
  return buckets;
}

// No block computes while the first block's weights are gathered. So those that it reads first come in a bucket of
// their own, and the others while it computes.
void SplitFirst(const Order& order, std::vector<Bucket>& buckets) {
  auto in_block = [&](const Bucket& bucket) { return IsInRepeatedBlock(order.At(bucket.front().node)); };
  auto first = std::ranges::find_if(buckets, in_block);
  if (first == buckets.end()) return;
  std::vector<Bucket> parts = order.PartsOf(*first);
  if (parts.size() < 2) return;
  Bucket rest(first->begin() + std::ptrdiff_t(parts[0].size()), first->end());
  *first = std::move(parts[0]);
  buckets.insert(first + 1, std::move(rest));
}

}  // namespace

void PlaceGathers(std::vector<Move> gathers, Order& order) {
  std::ranges::stable_sort(gathers, {}, &Move::first_reader);
  std::vector<Bucket> buckets = BucketsOf(order, gathers);
  SplitFirst(order, buckets);
  for (size_t b = 0; b < buckets.size(); b++) {
    // The kernel that reads a small bucket cannot hide a large one, so the two are gathered together.
    size_t before = b > 0 ? b - 1 : 0;
    while (before > 0 && IsMuchSmaller(order.BytesIn(buckets[before]), order.BytesIn(buckets[b]))) before--;
    order.Place(buckets[b], {b > 0 ? buckets[before].front().first_reader - 1 : -1, 0, 0});
  }
}

}  // namespace weft
