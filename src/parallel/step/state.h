// State: the named global tensors of a run (parameters, moments, copies, accumulators, slots), each with its placement.
// It lives outside any graph; graphs read and write its entries by name.
#pragma once
#include <map>
#include <string>

#include "weft/core/compile/runtime.h"

namespace weft {

class State {
 public:
  struct Entry {
    Shape global;
    Sharding sharding;
    Tensor local;        // this rank's chunk; stays where it is for the life of the State
    bool saved = false;  // part of a checkpoint
  };

  // The device outlives the state.
  State(MeshShape mesh, Coords coords, DeviceRuntime& device = CpuRuntime())
      : mesh_(std::move(mesh)), coords_(std::move(coords)), device_(device) {}

  // A new entry of zeros. Throws Error when the name exists.
  Entry& Add(const std::string& name, DType dtype, const Shape& global, const Sharding& sharding, bool saved);
  // New entries of zeros in one buffer, so that one copy fills them all.
  struct NewEntry {
    std::string name;
    DType dtype;
    Shape global;
    Sharding sharding;
  };
  static constexpr size_t kTogether = 64;  // bytes to which each of them is aligned
  void AddTogether(std::span<const NewEntry> entries);
  bool Has(const std::string& name) const { return entries_.contains(name); }
  Entry& At(const std::string& name);  // throws Error for an unknown name
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const MeshShape& mesh() const { return mesh_; }
  const Coords& coords() const { return coords_; }
  // The box of an entry that this rank holds.
  TensorView View(const std::string& name);
  // Waits for the device where that is not the CPU.
  void SetScalar(const std::string& name, double value);
  DeviceRuntime& device() const { return device_; }
  Binder binder();

 private:
  void CheckNew(const std::string& name) const;

  MeshShape mesh_;
  Coords coords_;
  DeviceRuntime& device_;
  std::map<std::string, Entry> entries_;
};

}  // namespace weft
