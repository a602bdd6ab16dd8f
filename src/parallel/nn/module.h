// Module, Layer, Parameter: a model as a tree of named parts, and the scope in which it is built.
//
//   struct Mlp : Layer {
//     Linear up{this, "up", ...}, down{this, "down", ...};
//     using Layer::Layer;
//     Var Forward(Var x) override { return down(Gelu(up(x))); }   // [B, T, C]
//   };
//
// A model names no axis of the mesh: the sharding plan of the ModelScope says where parameters are stored and used, and
// which placement the input, product and output of a module get.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft {

class Module;

struct Init {
  enum Kind : uint8_t { kZeros, kOnes, kNormal } kind = kZeros;
  double std = 0;
};

// A leaf of the model: its values live in the State under `path`.
class Parameter {
 public:
  enum UsedType : uint8_t { kCompute, kAccumulate };
  // `decay`: weight decay applies (product weights and embeddings). `product_inputs`: see below.
  Parameter(Module* owner, const std::string& name, Shape shape, Init init, bool decay, UsedType used = kCompute,
            int product_inputs = 0);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& path() const { return path_; }
  const Shape& shape() const { return shape_; }
  const Init& init() const { return init_; }
  bool decay() const { return decay_; }
  // How many of its leading dims a product sums over, of a weight that is a matrix between hidden features: proj's
  // [H, D, C] has 2. 0: it is none (norms, biases, tables of tokens and positions, heads).
  int product_inputs() const { return product_inputs_; }
  // The type in which the scope's model computes with it, and of its gradient: precision.compute, or that one's
  // accumulate type (norms).
  DType used_dtype() const;

  // The value in the type and the placement in which it is used.
  Var Use(Loc loc = Loc::current()) const;
  // What Grad is taken with respect to: the stored value, or its copy in the used type (fsdp: gradients).
  Var Source() const;

 private:
  std::string module_, name_, path_;
  Shape shape_;
  Init init_;
  bool decay_;
  UsedType used_;
  int product_inputs_;
};

class Module {
 public:
  // `parent` outlives this; the path is the parent's path, a dot, and the name.
  explicit Module(Module* parent = nullptr, const std::string& name = "");
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // Own parameters and those of the children, in order of declaration.
  std::vector<const Parameter*> Parameters() const;
  // This module, its children and theirs, in order of declaration.
  std::vector<const Module*> Modules() const;

 protected:
  // Reshards x where the plan has a row for this module and point ("input", "product", "output").
  Var Boundary(Var x, const char* point, const Loc& loc) const;

 private:
  friend class Parameter;
  std::string name_, path_;
  std::vector<const Parameter*> parameters_;
  std::vector<const Module*> children_;
};

// A module of one tensor in and one out.
class Layer : public Module {
 public:
  using Module::Module;
  // Forward, inside the module's scope and between its boundaries. What it inserts carries the caller's line.
  Var operator()(Var x, Loc loc = Loc::current());

 protected:
  virtual Var Forward(Var x) = 0;
  const Loc& call_site() const { return call_site_; }  // of the call in progress

 private:
  Loc call_site_;
};

enum class Fsdp : uint8_t { kNone, kGradients, kFull };
struct Precision {
  DType compute = DType::kF32, params = DType::kF32, reduce = DType::kF32;
};

// What a model is built under: mesh, plan and dtypes. Thread-local, innermost wins; made by whoever traces the model.
class ModelScope {
 public:
  struct Options {
    MeshShape mesh;
    ShardingPlan plan{};
    Precision precision{};
    Fsdp fsdp = Fsdp::kNone;
    bool regather = true;  // fsdp: full: weights are gathered again for the backward pass; false: kept from the forward
  };
  explicit ModelScope(const Options& options);
  ~ModelScope();
  ModelScope(const ModelScope&) = delete;
  ModelScope& operator=(const ModelScope&) = delete;
  static ModelScope& Current();  // throws Error where there is none

  const Options& options() const { return options_; }
  // The placements of a parameter of the model: in use, and as stored (with fsdp also sharded over dp).
  Sharding Used(const Parameter& parameter) const;
  Sharding Stored(const Parameter& parameter) const;
  std::map<std::string, Var> leaves, casts;  // one node per parameter and build

 private:
  Options options_;
  ModelScope* previous_;
};

// The State entry of a parameter's copy in the type in which it is used (fsdp: gradients).
inline std::string CopyName(const std::string& path) { return "copy." + path; }

}  // namespace weft
