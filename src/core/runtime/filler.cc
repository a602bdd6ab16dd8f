#include "weft/core/runtime/filler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace weft {
namespace {

// Row-major storage as rows along one dim. All dims before it have extent 1.
struct Rows {
  size_t dim = 0;
  int64_t count = 1;

  explicit Rows(const Shape& shape) {
    while (dim + 1 < shape.size() && shape[dim] == 1) dim++;
    if (!shape.empty()) count = shape[dim];
  }
  // Returns the part of `held` in the storage's rows [begin, end). It is empty if these rows are padding.
  Box Slice(const Box& held, int64_t begin, int64_t end) const {
    Box slice = held;
    if (held.begin.empty()) return slice;
    slice.begin[dim] = std::min(held.begin[dim] + begin, held.end[dim]);
    slice.end[dim] = std::min(held.begin[dim] + end, held.end[dim]);
    return slice;
  }
};

}  // namespace

Filler::Piece& Filler::Next(size_t bytes) {
  Piece& piece = pieces_[next_++ % pieces_.size()];
  if (!piece.copied) piece.copied = device_.NewEvent();
  while (!piece.copied->Done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  if (piece.memory && piece.memory->bytes() >= bytes) return piece;
  bytes = std::max(bytes, piece_);
  piece.memory = device_.TryAllocateStaging(bytes);
  if (!piece.memory) piece.memory = AllocateCpu(bytes);  // correct as well, but copies wait for it
  return piece;
}

void Filler::Fill(const Tensor& local, const Box& held, std::span<const BoxData> parts) {
  if (local.bytes() == 0) return;
  Shape strides = RowMajor(local.shape());
  if (local.device().kind == DeviceKind::kCpu) {
    for (const BoxData& part : parts) CopyMeeting(part, {held, local.dtype(), local.as<std::byte>(), strides});
    return;
  }
  Rows rows(local.shape());
  size_t row_bytes = local.bytes() / size_t(rows.count);
  auto step = int64_t(std::max<size_t>(1, piece_ / row_bytes));
  bool padded = Extents(held) != local.shape();
  for (int64_t begin = 0; begin < rows.count; begin += step) {
    int64_t end = std::min(begin + step, rows.count);
    size_t bytes = size_t(end - begin) * row_bytes;
    Piece& piece = Next(bytes);
    if (padded) std::memset(piece.memory->data(), 0, bytes);
    BoxData to{rows.Slice(held, begin, end), local.dtype(), static_cast<std::byte*>(piece.memory->data()), strides};
    for (const BoxData& part : parts) CopyMeeting(part, to);
    device_.Copy(local.as<std::byte>() + size_t(begin) * row_bytes, piece.memory->data(), bytes);
    piece.copied->Record();
  }
}

void FillHeld(const Tensor& local, const Box& held, std::span<const BoxData> parts) {
  Filler filler(local.buffer()->runtime(), std::min(Filler::kPiece, local.bytes()));
  filler.Fill(local, held, parts);
  filler.Finish();
}

}  // namespace weft
