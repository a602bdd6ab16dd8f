#include "weft/dist/group/rows/wire_rows.h"

#include "weft/core/ir/wire.h"

namespace weft {
namespace {

constexpr auto kElement = int64_t(sizeof(BF16));

ChunkLayout NarrowLayout(const KernelCall& call, int ranks) {
  TensorView narrow = call.in[0];
  narrow.dtype = DType::kBF16;
  auto dim = int(call.attrs->Int("dim"));
  return ChunkLayout(narrow, dim, call.out[0].dim(dim).capacity, ranks);
}

int64_t ChunkOf(const TensorView& whole, int ranks) { return WireChunk(whole.CapacityElements(), ranks); }

BF16* FirstHalf(const KernelCall& call) { return static_cast<BF16*>(call.workspace); }
BF16* SecondHalf(const KernelCall& call, int64_t half_bytes) {
  return FirstHalf(call) + PartBytes(half_bytes) / kElement;
}

// Makes `c` move data from the first half to the second.
void Set(Collective& c, CollectiveOp op, const WireHalves& halves) {
  c.op = op;
  c.dtype = DType::kBF16;
  c.in = halves.first;
  c.out = halves.second;
  c.count = halves.chunk;
}

// Whether the terms can be sent from where they are.
bool SendsInput(const KernelCall& call, const ChunkLayout& layout, const ProcessGroup& group) {
  return call.in[0].dtype == DType::kBF16 && IsDirect(layout, group);
}

}  // namespace

bool HasWire(const KernelCall& call) { return WireOf(*call.attrs).has_value(); }

size_t WireScatterBytes(const KernelCall& call, const ProcessGroup& g) {
  ChunkLayout layout = NarrowLayout(call, g.size());
  return size_t((SendsInput(call, layout, g) ? 1 : 2) * PartBytes(layout.packed_bytes()));
}

WireScatterRow::WireScatterRow(const KernelCall& call, ProcessGroup& g)
    : group(g), layout(NarrowLayout(call, g.size())), in(call.in[0]), out(call.out[0]), c(call) {
  BF16 *first = FirstHalf(call), *second = SecondHalf(call, layout.packed_bytes());
  bool narrows = in.dtype != DType::kBF16, packs = !IsDirect(layout, g);
  if (narrows) narrow = first;
  if (packs) packed = narrows ? second : first;
  c.op = CollectiveOp::kAllToAll;
  c.dtype = DType::kBF16;
  c.in = packs ? packed : narrows ? narrow : in.data;
  c.out = c.in == first ? second : first;
  c.count = layout.block_bytes() / kElement;
  c.blocks = packs ? 1 : layout.outer;
}

void WireScatterRow::Pack() const {
  if (narrow) group.Narrow(narrow, in.as<const float>(), in.CapacityElements());
  if (packed) layout.Pack(group, narrow ? narrow : in.data, packed);
}

void WireScatterRow::Unpack() const {
  int64_t count = c.count / c.blocks, bytes = count * int64_t(SizeOf(out.dtype));
  auto* terms = static_cast<const BF16*>(c.out);
  for (int64_t block = 0; block < c.blocks; block++)
    group.SumChunks(static_cast<char*>(out.data) + block * bytes, out.dtype, terms + block * group.size() * count,
                    group.size(), count);
}

size_t WireAllReduceBytes(const KernelCall& call, int ranks) {
  return size_t(2 * PartBytes(ranks * ChunkOf(call.in[0], ranks) * kElement));
}

WireHalves::WireHalves(const KernelCall& call, int ranks)
    : chunk(ChunkOf(call.in[0], ranks)), first(FirstHalf(call)), second(SecondHalf(call, ranks * chunk * kElement)) {}

WireSumRow::WireSumRow(const KernelCall& call, ProcessGroup& g)
    : group(g), in(call.in[0]), halves(call, g.size()), c(call) {
  Set(c, CollectiveOp::kAllToAll, halves);
}

void WireSumRow::Pack() const {
  int64_t elements = in.CapacityElements(), padding = group.size() * halves.chunk - elements;
  group.Narrow(halves.first, in.as<const float>(), elements);
  if (padding > 0) group.Zero(halves.first + elements, padding * kElement);
}

void WireSumRow::Unpack() const {
  group.SumChunks(halves.first, DType::kBF16, halves.second, group.size(), halves.chunk);
}

WireShareRow::WireShareRow(const KernelCall& call, ProcessGroup& g)
    : group(g), out(call.out[0]), halves(call, g.size()), c(call) {
  Set(c, CollectiveOp::kAllGather, halves);
}

void WireShareRow::Unpack() const { group.Widen(out.as<float>(), halves.second, out.CapacityElements()); }

}  // namespace weft
