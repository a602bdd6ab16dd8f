// Module, Layer, Parameter: a model as a tree of named parts. ModelScope: the scope in which it is built.
//
//   struct Mlp : Layer {
//     nn::Linear up{this, "up", ...}, down{this, "down", ...};
//     using Layer::Layer;
//     Var Forward(Var x) override { return down(Gelu(up(x))); }   // [B, T, C]
//   };
//
// A model names no mesh axis. The sharding plan of the ModelScope determines the placements in which parameters are
// stored and used, and those of the input, product and output of a module.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft {

class Module;

struct ParameterInit {
  enum Kind : uint8_t { kZeros, kOnes, kNormal } kind = kZeros;
  double std = 0;
};

// A parameter of a model. Its values are the State entry `path`.
class Parameter {
 public:
  enum UsedType : uint8_t { kCompute, kAccumulate };
  // `decay`: whether weight decay applies (weights of products and embeddings). `product_inputs`: see the accessor.
  Parameter(Module* owner, const std::string& name, Shape shape, ParameterInit init, bool decay,
            UsedType used = kCompute, int product_inputs = 0);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& path() const { return path_; }
  const Shape& shape() const { return shape_; }
  const ParameterInit& init() const { return init_; }
  bool decay() const { return decay_; }
  // For a weight that is a matrix between hidden features, returns the number of leading dims over which the product
  // sums, for example 2 for proj's [H, D, C]. Returns 0 for other parameters (norms, biases, tables of tokens and
  // positions, heads).
  int product_inputs() const { return product_inputs_; }
  // Returns the type in which the model computes with the parameter: precision.compute of the current ModelScope, or
  // the accumulate type of that (norms).
  DType used_dtype() const;
  // Returns the type in which the State stores it: precision.params, unless precision.stored_as_used is set.
  DType stored_dtype() const;

  // Returns the value in the type and placement in which it is used.
  Var Use(Loc loc = Loc::current()) const;
  // Returns the value with respect to which Grad differentiates: the stored value or, with fsdp: gradients, its copy in
  // the used type.
  Var Source() const;

 private:
  std::string module_, name_, path_;
  Shape shape_;
  ParameterInit init_;
  bool decay_;
  UsedType used_;
  int product_inputs_;
};

class Module {
 public:
  // `parent` must outlive this. The path is the parent's path, a dot and the name, or only the name if the parent's
  // path is empty.
  explicit Module(Module* parent = nullptr, const std::string& name = "");
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // Returns the module's own parameters, then those of its children, in order of declaration.
  std::vector<const Parameter*> Parameters() const;
  // Returns this module, its children and all their descendants, in order of declaration.
  std::vector<const Module*> Modules() const;

 protected:
  // Reshards x if the plan has a row for this module and point ("input", "product", "output").
  Var Boundary(Var x, const char* point, const Loc& loc) const;

 private:
  friend class Parameter;
  std::string name_, path_;
  std::vector<const Parameter*> parameters_;
  std::vector<const Module*> children_;
};

// A module with one input tensor and one output tensor.
class Layer : public Module {
 public:
  using Module::Module;
  // Runs Forward inside the module's scope, between the boundaries "input" and "output". Nodes that the boundaries
  // insert carry the caller's line.
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
  std::optional<DType> wire{};  // type in which gradients cross ranks (core/ir/wire.h); none: `reduce`
  // Parameters are stored in the types in which they are used, not in `params`. For programs that only read them, which
  // would otherwise cast all of them in each run.
  bool stored_as_used = false;
};

// The mesh, plan and dtypes under which a model is built. The code that traces the model creates it. Thread-local; the
// innermost scope applies.
class ModelScope {
 public:
  struct Options {
    MeshShape mesh;
    ShardingPlan plan{};
    Precision precision{};
    Fsdp fsdp = Fsdp::kNone;
    // With fsdp: full, whether weights are gathered again for the backward pass. Otherwise they are kept from the
    // forward pass.
    bool regather = true;
    // Whether parameters that are used in another type than they are stored in have a State entry in that type too, so
    // that a program need not cast them. With fsdp: gradients all parameters have one.
    bool copies = false;
  };
  explicit ModelScope(const Options& options);
  ~ModelScope();
  ModelScope(const ModelScope&) = delete;
  ModelScope& operator=(const ModelScope&) = delete;
  static ModelScope& Current(Loc loc = Loc::current());  // throws Error if there is none

  const Options& options() const { return options_; }
  // Return the placement of a parameter in use, and as stored (with fsdp also sharded over dp).
  Sharding Used(const Parameter& parameter) const;
  Sharding Stored(const Parameter& parameter) const;
  // Whether the State has a copy of the parameter in the type in which it is used (CopyName), and its placement.
  bool HasCopy(const Parameter& parameter) const;
  Sharding Copied(const Parameter& parameter) const;
  // Makes later reads of the entry return `value`, the new value of the entry. With an empty Var they read the State
  // entry again.
  void SetWritten(const std::string& entry, Var value);
  std::map<std::string, Var> leaves;  // by entry; one node per entry and trace
  std::map<std::string, Var> casts;   // by path; in the type in which the parameter is used
  // By path and line: weights gathered by fsdp, while uses of one line share them. The halves of a batch do.
  std::optional<std::map<std::string, Var>> gathers;

 private:
  Options options_;
  ModelScope* previous_;
};

// Returns the State entry of a parameter's copy in the type in which it is used.
inline std::string CopyName(const std::string& path) { return "copy." + path; }

}  // namespace weft
