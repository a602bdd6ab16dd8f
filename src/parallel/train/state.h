// State: the named global tensors of a run (parameters, moments, copies, accumulators, slots), each with its placement.
// It lives outside any graph; graphs read and write its entries by name.
#pragma once
#include <map>
#include <string>

#include "core/compile/runtime.h"

namespace weft {

class State {
 public:
  struct Entry {
    Shape global;
    Sharding sharding;
    Tensor local;        // this rank's chunk; stays where it is for the life of the State
    bool saved = false;  // part of a checkpoint
  };

  State(MeshShape mesh, Coords coords) : mesh_(std::move(mesh)), coords_(std::move(coords)) {}

  // A new entry of zeros. Throws Error when the name exists.
  Entry& Add(const std::string& name, DType dtype, const Shape& global, const Sharding& sharding, bool saved);
  bool Has(const std::string& name) const { return entries_.contains(name); }
  Entry& At(const std::string& name);  // throws Error for an unknown name
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const MeshShape& mesh() const { return mesh_; }
  const Coords& coords() const { return coords_; }
  // The box of an entry that this rank holds.
  TensorView View(const std::string& name);
  void SetScalar(const std::string& name, double value);
  Binder binder();

 private:
  MeshShape mesh_;
  Coords coords_;
  std::map<std::string, Entry> entries_;
};

}  // namespace weft
