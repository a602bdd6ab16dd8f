// SharedProducts: the products of a local program that share an operand, and what can be joined to compute them as one.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {

// Products of one kind, in the order of the names of their weights, and the dims along which their parts are joined.
struct Products {
  std::vector<std::shared_ptr<Node>> nodes;
  int weight_dim = 0;
  int dim = 0;  // of the result; of the first operand in a ProductSum
};
std::vector<Var> OperandsOf(const Products& products, size_t operand);
std::vector<Var> ResultsOf(const Products& products);

// A sum of products, and what else it adds.
struct ProductSum {
  Products products;
  const Node* root = nullptr;  // the last add
  std::vector<Var> rest;
};

// Returns the info of values that agree in all dims but `dim`, as one value.
ValueInfo JoinedInfo(const std::vector<Var>& parts, int dim);

class SharedProducts {
 public:
  // The products of some weights: those that read one value, and the sums that are its gradient. There may be several
  // of each, for example one per half of a batch.
  struct Family {
    std::vector<Products> shared;
    std::vector<ProductSum> sums;
  };
  // The products of weights' gradients: dw[k.., n..] of each dy[.., n..] and of one other value, joined along the first
  // n. `read` is what others read of them: the results, or what ranks make of each by one collective.
  struct Gradients {
    Products products;
    std::vector<Var> read;
  };

  SharedProducts(const LocalProgram& program, const KernelTable& kernels);
  std::vector<Family> Find() const;
  // Returns those of the first operands of a sum's products; without nodes if there are none, or not all readers take
  // slices.
  Gradients GradientsOf(const Products& products) const;

 private:
  using Key = std::pair<const Node*, int>;   // an output of a node
  using Weights = std::vector<std::string>;  // the names of the parameters that products multiply by
  using Readers = absl::InlinedVector<std::shared_ptr<Node>, 2>;

  const Readers& ReadersOf(const Var& v) const;
  bool TakesSlices(const Node* node) const;
  bool AllTakeSlices(const std::vector<Var>& values) const;
  bool Fits(const std::vector<Var>& parts, int dim) const;
  bool IsEven(const ValueInfo& info, int dim) const;
  void FindShared(std::map<Weights, Family>& families) const;
  void FindSums(std::map<Weights, Family>& families) const;
  void Collect(const Node& add, ProductSum& sum) const;
  bool CanJoin(const Products& products) const;
  Products ProductsOfGradients(const Products& products) const;
  std::vector<Var> SentOf(const std::vector<Var>& values, int dim) const;

  const LocalProgram& program_;
  const KernelTable& kernels_;
  absl::flat_hash_map<Key, Readers> readers_;  // null: an output or a write
};

}  // namespace weft
