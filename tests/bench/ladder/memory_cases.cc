#include "memory_cases.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "weft/core/ir/record.h"

namespace weft::bench {
namespace {

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32, kI64 = DType::kI64;

// C: width of the residual stream; F: width of the MLP; V: vocabulary; T: tokens per sequence; H: heads; D: head width.
struct Model {
  const char* name;
  int64_t C, F, V, T, H, D;
};
constexpr Model kGpt2{"gpt2_124m", 768, 3072, 50304, 1024, 12, 64},
    kLlama{"llama_1b", 2048, 8192, 128256, 4096, 32, 64};

constexpr int64_t kCache = 50 << 20;  // the L2 cache of an H200

using Calls = std::vector<Call>;

// Returns ids in which every token is equally frequent, or with the frequencies of Zipf's law, as in text.
Operand Ids(int64_t rows, int64_t vocab, bool zipf) {
  std::mt19937_64 rng(uint64_t(rows + vocab));
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  std::uniform_real_distribution<double> uniform;
  for (size_t i = 0; i < ids.size(); i++)
    ids[i] = zipf ? int32_t(std::pow(double(vocab), uniform(rng)) - 1) : int32_t(int64_t(i) % vocab);
  std::shuffle(ids.begin(), ids.end(), rng);
  return {kI32, {rows}, Values::kIds, std::move(ids)};
}
int64_t Distinct(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return std::unique(ids.begin(), ids.end()) - ids.begin();
}

// A scalar that the host provides, such as a step or a row.
Operand Scalar(DType dtype) { return {dtype, {}, Values::kOne}; }

class List {
 public:
  using Make = std::function<Call(int64_t rows)>;
  void Add(std::string name, const Model& m, DType dtype, const Make& make, int64_t step = 8) {
    cases_.push_back({std::move(name), m.name, dtype, [make](int64_t rows) { return Calls{make(rows)}; }, step});
  }
  void AddMany(std::string name, const Model& m, DType dtype, std::function<Calls(int64_t)> make) {
    cases_.push_back({std::move(name), m.name, dtype, std::move(make), 1});
  }
  // Adds an op with `operands` operands of shape [rows, width].
  void AddMap(Op op, const Model& m, DType dtype, int64_t width, size_t operands, const Attrs& attrs = {}) {
    Add(Name(op), m, dtype, [=](int64_t rows) {
      return MakeCall(op, attrs, std::vector<Operand>(operands, {dtype, {rows, width}}));
    });
  }
  std::vector<MemoryCase> Take() { return std::move(cases_); }

 private:
  std::vector<MemoryCase> cases_;
};

void AddNorms(List& list, const Model& m, DType dtype, bool center) {
  Attrs eps{{"eps", 1e-5}};
  int64_t C = m.C;
  auto forward = center ? Op::kLayerNorm : Op::kRmsNorm;
  list.Add(Name(forward), m, dtype, [=](int64_t rows) {
    std::vector<Operand> in{{dtype, {rows, C}}, {kF32, {C}}};
    if (center) in.push_back({kF32, {C}});
    return MakeCall(forward, eps, in);
  });
  for (bool add : {false, true}) {
    Op op =
        center ? (add ? Op::kLayerNormGradAdd : Op::kLayerNormGrad) : (add ? Op::kRmsNormGradAdd : Op::kRmsNormGrad);
    list.Add(Name(op), m, dtype, [=](int64_t rows) {
      Operand x{dtype, {rows, C}}, statistic{kF32, {rows}, Values::kUniform};
      std::vector<Operand> in{x, {kF32, {C}}, statistic};
      if (center) in.push_back(statistic);
      in.push_back(x);
      if (add) in.push_back(x);
      return MakeCall(op, eps, in);
    });
  }
}

void AddMaps(List& list, const Model& m, DType dtype, bool gelu) {
  list.AddMap(Op::kAdd, m, dtype, m.C, 2);
  if (gelu) {
    list.AddMap(Op::kGelu, m, dtype, m.F, 1);
    list.AddMap(Op::kGeluD, m, dtype, m.F, 1);
    list.AddMap(Op::kGeluGrad, m, dtype, m.F, 2);
  } else {
    list.AddMap(Op::kSwiGlu, m, dtype, m.F, 2);
    list.AddMap(Op::kSwiGluGrad, m, dtype, m.F, 3);
    list.AddMap(Op::kSiluD, m, dtype, m.F, 1);
    list.Add(
        "rope", m, dtype,
        [=](int64_t rows) {
          Attrs attrs{{"theta", 5e5}, {"inverse", 0}, {"start", 0}};
          return MakeCall(Op::kRope, attrs, {{dtype, {rows / 1024, 1024, m.H, m.D}}});
        },
        1024);
  }
}

void AddCopies(List& list, const Model& m, DType dtype) {
  DType other = dtype == kF32 ? kBF16 : kF32;
  list.Add("cast", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kCast, {{"dtype", int64_t(other)}}, {{dtype, {rows, m.C}}});
  });
  list.Add("transpose", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kPermute, {{"perm", Shape{1, 0}}}, {{dtype, {rows, m.C}}});
  });
  list.Add(
      "permute_heads", m, dtype,
      [=](int64_t rows) {  // [B, T, H, D] to [B, H, T, D]
        return MakeCall(Op::kPermute, {{"perm", Shape{0, 2, 1, 3}}}, {{dtype, {rows / 256, 256, m.H, m.D}}});
      },
      256);
  list.Add("slice", m, dtype, [=](int64_t rows) {  // half of every row is read
    Call call = MakeCall(Op::kSlice, {{"dim", 1}, {"start", m.C}, {"length", m.C}}, {{dtype, {rows, 2 * m.C}}});
    call.in[0].rows_read = rows / 2;
    return call;
  });
  list.Add("concat", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kConcat, {{"dim", 1}}, {{dtype, {rows, m.C}}, {dtype, {rows, m.C}}});
  });
  list.Add("broadcast", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kBroadcast, {{"dim", 0}, {"size", rows}}, {{dtype, {m.C}}});
  });
}

void AddReductions(List& list, const Model& m, DType dtype) {
  list.AddMap(Op::kSumOfSquares, m, dtype, m.C, 1);
  for (int dim : {0, 1})
    for (int64_t width : {m.C, m.F}) {
      std::string name = std::string(dim == 0 ? "reduce_columns_" : "reduce_rows_") + std::to_string(width);
      list.Add(name, m, dtype, [=](int64_t rows) {
        return MakeCall(Op::kReduceSum, {{"dim", dim}}, {{dtype, {rows, width}}});
      });
    }
}

void AddLossAndEmbedding(List& list, const Model& m, DType dtype) {
  Attrs loss{{"ignore_index", -100}, {"smoothing", 0.0}};
  list.Add("cross_entropy", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kCrossEntropy, loss, {{dtype, {rows, m.V}}, Ids(rows, m.V, false)});
  });
  list.Add("cross_entropy_grad", m, dtype, [=](int64_t rows) {
    Operand statistic{kF32, {rows}, Values::kUniform};
    return MakeCall(Op::kCrossEntropyGrad, loss, {{dtype, {rows, m.V}}, Ids(rows, m.V, false), statistic, statistic});
  });
  for (bool zipf : {false, true}) {
    const char* suffix = zipf ? "_zipf" : "";
    list.Add(std::string("embedding") + suffix, m, dtype, [=](int64_t rows) {
      Operand ids = Ids(rows, m.V, zipf), table{dtype, {m.V, m.C}};
      // Rows that text uses often stay in the cache. In even order they do not if the table is larger than the cache,
      // so each id reads a row.
      table.rows_read = zipf || int64_t(table.bytes()) < kCache ? Distinct(ids.ids) : rows;
      return MakeCall(Op::kEmbedding, {}, {table, ids});
    });
    list.Add(std::string("embedding_grad") + suffix, m, dtype, [=](int64_t rows) {
      return MakeCall(Op::kEmbeddingGrad, {},
                      {Ids(rows, m.V, zipf), {dtype, {rows, m.C}}, {dtype, {m.V, m.C}, Values::kNone}});
    });
  }
}

void AddDropout(List& list, const Model& m, DType dtype) {
  list.Add("dropout", m, dtype, [=](int64_t rows) {
    return MakeCall(Op::kDropout, {{"p", 0.1}, {"key", 7}}, {{dtype, {rows, m.C}}, Scalar(kI64), Scalar(kI64)});
  });
}

// Returns the parameters of `blocks` GPT-2 blocks.
std::vector<Shape> BlockParameters(const Model& m, int64_t blocks) {
  std::vector<Shape> shapes;
  for (int64_t b = 0; b < blocks; b++)
    for (const Shape& s : {Shape{m.C}, Shape{m.C}, Shape{m.C, 3 * m.C}, Shape{3 * m.C}, Shape{m.C, m.C}, Shape{m.C},
                           Shape{m.C}, Shape{m.C}, Shape{m.C, m.F}, Shape{m.F}, Shape{m.F, m.C}, Shape{m.C}})
      shapes.push_back(s);
  return shapes;
}

Call AdamW(const Shape& shape) {
  Operand p{kF32, shape}, v{kF32, shape, Values::kUniform};
  Attrs attrs{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  return MakeCall(Op::kAdamW, attrs, {p, p, v, p, Scalar(kF32), Scalar(kF32), Scalar(kI64)});
}

void AddOptimizer(List& list, const Model& m) {
  list.Add("adamw", m, kF32, [=](int64_t rows) { return AdamW({rows, m.C}); });
  auto many = [m](auto make) {
    return [=](int64_t blocks) {
      Calls calls;
      for (const Shape& shape : BlockParameters(m, blocks)) calls.push_back(make(shape));
      return calls;
    };
  };
  list.AddMany("adamw_many", m, kF32, many(AdamW));
  list.AddMany("sum_of_squares_many", m, kF32, many([](const Shape& shape) {
                 return MakeCall(Op::kSumOfSquares, {}, {{kF32, shape}});
               }));
}

}  // namespace

size_t Call::Traffic() const {
  size_t bytes = 0;
  for (const Operand& operand : in) {
    if (operand.values == Values::kNone) continue;
    bytes += operand.rows_read < 0 ? operand.bytes()
                                   : operand.bytes() / size_t(operand.shape[0]) * size_t(operand.rows_read);
  }
  for (const Operand& result : out) bytes += result.bytes();
  return bytes;
}
size_t Traffic(const std::vector<Call>& calls) {
  size_t bytes = 0;
  for (const Call& call : calls) bytes += call.Traffic();
  return bytes;
}

Call MakeCall(Op op, Attrs attrs, std::vector<Operand> in) {
  Node node;
  node.op = op, node.attrs = attrs;
  for (const Operand& operand : in) {
    auto leaf = std::make_shared<Node>();
    leaf->outputs.push_back({operand.dtype, operand.shape, {}, {}});
    node.inputs.push_back(Var(leaf, 0));
  }
  Record(op).infer(node);
  Call call{op, std::move(attrs), std::move(in)};
  for (const ValueInfo& result : node.outputs) call.out.push_back({result.dtype, result.shape, Values::kNone});
  return call;
}

int64_t RowsFor(const MemoryCase& c, size_t bytes) {
  auto traffic = [&](int64_t steps) { return double(Traffic(c.calls(steps * c.step))); };
  double one = traffic(1), more = traffic(2) - one;  // the difference leaves out constant traffic, such as a table
  int64_t steps = std::max<int64_t>(1, 1 + int64_t(std::ceil((double(bytes) - one) / more)));
  while (traffic(steps) < double(bytes)) steps += steps / 16 + 1;  // because the rows of a table are read once
  return steps * c.step;
}

std::vector<MemoryCase> MemoryCases() {
  List list;
  for (DType dtype : {kBF16, kF32})
    for (const Model& m : {kGpt2, kLlama}) {
      bool gpt2 = m.C == kGpt2.C;
      AddNorms(list, m, dtype, gpt2);
      AddMaps(list, m, dtype, gpt2);
      AddCopies(list, m, dtype);
      AddReductions(list, m, dtype);
      AddLossAndEmbedding(list, m, dtype);
      AddDropout(list, m, dtype);
    }
  for (const Model& m : {kGpt2, kLlama}) AddOptimizer(list, m);
  return list.Take();
}

}  // namespace weft::bench
