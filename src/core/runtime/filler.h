// Filler: copies boxes from the host into tensors on any device. The host prepares one piece while the device copies
// the previous one.
//
//   Filler filler(state.device());
//   for (...) filler.Fill(entry.local, held, parts);
//   filler.Finish();
#pragma once
#include <array>
#include <memory>
#include <span>

#include "weft/core/base/box.h"
#include "weft/core/base/device_runtime.h"
#include "weft/core/base/tensor.h"

namespace weft {

class Filler {
 public:
  // Bytes of a staging buffer. A GPU copies such a piece in about a millisecond, which is long compared with the
  // microseconds it takes to issue the copy. A tensor with larger rows gets a larger buffer.
  static constexpr size_t kPiece = size_t(64) << 20;
  // The device must outlive the filler.
  explicit Filler(DeviceRuntime& device, size_t piece = kPiece) : device_(device), piece_(piece) {}

  // Sets `local`, which stores the box `held` on the device, from `parts` on the host. Together the parts must contain
  // every element of the box, in any dtype. The storage may have padding after the box. The parts are read before this
  // returns, but the device may receive the elements later.
  void Fill(const Tensor& local, const Box& held, std::span<const BoxData> parts);
  // Waits until the device has all elements.
  void Finish() { device_.Synchronize(); }

 private:
  struct Piece {
    BufferPtr memory;
    std::unique_ptr<DeviceRuntime::Event> copied;
  };
  // Returns the next buffer, of at least `bytes` bytes, once the device has copied its previous contents.
  Piece& Next(size_t bytes);

  DeviceRuntime& device_;
  size_t piece_;
  std::array<Piece, 2> pieces_;
  size_t next_ = 0;
};

// Fills one tensor on any device and waits until it is done.
void FillHeld(const Tensor& local, const Box& held, std::span<const BoxData> parts);

}  // namespace weft
