// SharedProducts: the products of a local program that share an operand, and what can be joined to compute them as one.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/local_program.h"
#include "weft/core/passes/replacements.h"
#include "weft/core/runtime/kernel.h"

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
// Whether values can be joined along `dim`: they agree in all other dims, all ranks hold as much of each, and each part
// begins at a multiple of kSliceAlign bytes.
bool Fit(const std::vector<Var>& parts, int dim, const MeshShape& mesh);

class SharedProducts {
 public:
  // The products of some weights: those that read one value, and the sums that are its gradient. There may be several
  // of each, for example one per half of a batch.
  struct Family {
    std::vector<Products> shared;
    std::vector<ProductSum> sums;
  };
  // Gradients of weights: the products dw[k.., n..] of each dy[.., n..] and of one other value, joined along the first
  // n. Their results are added part by part if there are several terms.
  struct Gradients {
    struct Term {
      Products products;
      int operand_dim = 0;    // of each dy
      std::vector<Var> sums;  // of this term and those before it
    };
    std::vector<Term> terms;
    std::vector<std::vector<Var>> sent;  // what ranks make of the last sums, by one collective after the other
    const std::vector<Var>& sums() const { return terms.back().sums; }
    const std::vector<Var>& read() const { return sent.empty() ? sums() : sent.back(); }  // what others read
    int dim() const { return terms[0].products.dim; }
  };

  SharedProducts(const LocalProgram& program, const KernelTable& kernels);
  std::vector<Family> Find() const;
  // Returns the gradients of a family's weights that can be joined: all readers take slices.
  std::vector<Gradients> GradientsOf(const Family& family) const;

 private:
  using Weights = std::vector<std::string>;  // the names of the parameters that products multiply by
  using Readers = absl::InlinedVector<std::shared_ptr<Node>, 2>;

  const Readers& ReadersOf(const Var& v) const;
  bool TakesSlices(const Node* node) const;
  bool AllTakeSlices(const std::vector<Var>& values) const;
  bool Fits(const std::vector<Var>& parts, int dim) const { return Fit(parts, dim, program_.mesh); }
  void FindShared(std::map<Weights, Family>& families) const;
  void FindSums(std::map<Weights, Family>& families) const;
  void Collect(const Node& add, ProductSum& sum) const;
  bool CanJoin(const Products& products) const;
  Products ProductsOfGradients(const Products& products) const;
  bool Add(Gradients& gradients, Gradients::Term term) const;
  std::vector<Var> SentOf(const std::vector<Var>& values, int dim) const;

  const LocalProgram& program_;
  const KernelTable& kernels_;
  absl::flat_hash_map<ValueKey, Readers> readers_;  // null: an output or a write
};

}  // namespace weft
