// The products that the GPU's einsum passes to the library. A table lists those of common einsums. For any einsum,
// plain loops that follow its plan give the results of the CPU's kernel.
#include "weft/kernels/cuda/plan/product_plan.h"

#include <fmt/format.h>

#include <map>

#include "harness.h"

namespace weft::test {
namespace {

using cuda::Product;
using cuda::ProductPlan;
using Extents = std::map<char, int64_t>;

struct Equation {
  std::string a, b, out;
  explicit Equation(const std::string& eq) {
    size_t comma = eq.find(','), arrow = eq.find("->");
    a = eq.substr(0, comma), b = eq.substr(comma + 1, arrow - comma - 1), out = eq.substr(arrow + 2);
  }
};

Shape ShapeOf(const std::string& labels, const Extents& extents) {
  Shape shape;
  for (char c : labels) shape.push_back(extents.at(c));
  return shape;
}

ProductPlan PlanOf(const std::string& eq, const Box& a, const Box& b, const Box& out,
                   const Context& context = SharedContext()) {
  Attrs attrs{{"eq", eq}};
  std::vector<TensorView> in{a.view, b.view}, outs{out.view};
  return ProductPlan({&attrs, in, outs, nullptr, 0, &context, nullptr});
}

// Returns "TN m n k | lda ldb ldd", then the batch, repeats and copies that the plan has.
std::string Describe(const ProductPlan& plan) {
  if (plan.route != ProductPlan::Route::kLibrary) return "own";
  const Product& p = plan.product;
  std::string text = fmt::format("{}{} {} {} {} | {} {} {}", p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m,
                                 p.n, p.k, p.lda, p.ldb, p.ldd);
  if (p.batch > 1) text += fmt::format(" | {} by {} {} {}", p.batch, p.stride_a, p.stride_b, p.stride_d);
  if (plan.repeats.Count() > 1) text += fmt::format(" | {} times", plan.repeats.Count());
  if (plan.a_copy) text += " | copies a";
  if (plan.b_copy) text += " | copies b";
  if (plan.out_copy) text += " | copies out";
  return text;
}

struct Row {
  const char *eq, *plan;
};
const std::vector<Row> kCommon{
    {"btc,chd->bthd", "NN 12 10 8 | 12 8 12"},
    {"bthd,chd->btc", "TN 8 10 12 | 12 12 8"},
    {"bthd,btc->chd", "NT 12 8 10 | 12 8 12"},
    {"btc,bthd->chd", "NT 12 8 10 | 12 8 12"},
    {"bthd,hdc->btc", "NN 8 10 12 | 8 12 8"},
    {"btc,hdc->bthd", "TN 12 10 8 | 8 8 12"},
    {"btc,bthd->hdc", "NT 8 12 10 | 8 12 8"},
    {"btc,cf->btf", "NN 16 10 8 | 16 8 16"},
    {"btf,cf->btc", "TN 8 10 16 | 16 16 8"},
    {"btf,btc->cf", "NT 16 8 10 | 16 8 16"},
    {"btc,vc->btv", "TN 11 10 8 | 8 8 11"},
    {"btv,vc->btc", "NN 8 10 11 | 8 11 8"},
    {"btv,btc->vc", "NT 8 11 10 | 8 11 8"},
    {"btc,btv->vc", "NT 8 11 10 | 8 11 8"},
    {"btc,btc->bt", "own"},
    {"bt,c->btc", "own"},
};

const std::vector<Row> kBatches{
    {"bthd,bshd->bhts", "TN 9 8 16 | 48 48 9 | 3 by 16 16 72 | 2 times"},
    {"bhts,bshd->bthd", "NN 16 8 9 | 48 9 48 | 3 by 16 72 16 | 2 times"},
    {"bhts,bthd->bshd", "NT 16 9 8 | 48 9 48 | 3 by 16 72 16 | 2 times"},
    {"btd,bds->bts", "NN 9 8 16 | 9 16 9 | 2 by 144 128 72"},
};

void ExpectPlans(const std::vector<Row>& rows, const Extents& extents) {
  for (const Row& row : rows) {
    Equation e(row.eq);
    Box a(DType::kBF16, ShapeOf(e.a, extents)), b(DType::kBF16, ShapeOf(e.b, extents)),
        out(DType::kBF16, ShapeOf(e.out, extents));
    EXPECT_EQ(Describe(PlanOf(row.eq, a, b, out)), row.plan) << row.eq;
  }
}

TEST(ProductPlan, CommonEinsumsGoToTheLibraryAsTheyLie) {
  ExpectPlans(kCommon, {{'b', 2}, {'t', 5}, {'c', 8}, {'h', 3}, {'d', 4}, {'f', 16}, {'v', 11}});
  ExpectPlans(kBatches, {{'b', 2}, {'t', 8}, {'h', 3}, {'d', 16}, {'s', 9}});
}

TEST(ProductPlan, PaddedRowsBecomeABatch) {
  Box a(DType::kBF16, {2, 200, 8}, {0, 3, 0}), b(DType::kBF16, {8, 16}), out(DType::kBF16, {2, 200, 16}, {0, 3, 0});
  EXPECT_EQ(Describe(PlanOf("btc,cf->btf", a, b, out)), "NN 16 200 8 | 16 8 16 | 2 by 0 1624 3248");
}

TEST(ProductPlan, LargeProductsAreCopiedWhereTheyMust) {
  Box a(DType::kBF16, {2, 100, 64}), b(DType::kBF16, {64, 4, 100}), out(DType::kBF16, {2, 4, 100, 100});
  EXPECT_EQ(Describe(PlanOf("btc,chd->bhtd", a, b, out)), "NN 400 200 64 | 400 64 400 | copies out");
  Box padded(DType::kBF16, {2, 100, 400}, {0, 1, 0}), square(DType::kBF16, {64, 400});
  EXPECT_EQ(Describe(PlanOf("btc,btf->cf", a, padded, square)), "NT 400 64 200 | 400 64 400 | copies b");
}

void CopyBy(const Nest& loops, double* to, const double* from) {
  for (int64_t i = 0; i < loops.Count(); i++) to[loops.At(i)[0]] = from[loops.At(i)[1]];
}

// Computes D = op(A) op(B) as cuBLASLt defines it.
void Multiply(const Product& p, const double* a, const double* b, double* d) {
  for (int64_t batch = 0; batch < p.batch; batch++, a += p.stride_a, b += p.stride_b, d += p.stride_d)
    for (int64_t j = 0; j < p.n; j++)
      for (int64_t i = 0; i < p.m; i++) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; k++)
          sum += a[p.transpose_a ? k + i * p.lda : i + k * p.lda] * b[p.transpose_b ? j + k * p.ldb : k + j * p.ldb];
        d[i + j * p.ldd] = sum;
      }
}

void Follow(const ProductPlan& plan, const Box& a, const Box& b, Box& out) {
  Values dense_a(size_t(plan.a_copy.elements), NAN), dense_b(size_t(plan.b_copy.elements), NAN),
      dense_out(size_t(plan.out_copy.elements), NAN);
  const double *x = (plan.swapped ? b : a).view.as<double>(), *y = (plan.swapped ? a : b).view.as<double>();
  double* z = out.view.as<double>();
  if (plan.a_copy) CopyBy(plan.a_copy.loops, dense_a.data(), x), x = dense_a.data();
  if (plan.b_copy) CopyBy(plan.b_copy.loops, dense_b.data(), y), y = dense_b.data();
  if (plan.out_copy) z = dense_out.data();
  for (int64_t i = 0; i < plan.repeats.Count(); i++) {
    Offsets at = plan.repeats.At(i);
    Multiply(plan.product, y + at[2], x + at[1], z + at[0]);
  }
  if (plan.out_copy) CopyBy(plan.out_copy.loops, out.view.as<double>(), z);
}

// Returns whether the plan uses the library.
bool CheckPlan(Rng& rng, const std::string& eq, const Extents& extents) {
  Equation e(eq);
  Box a = RandomBox(rng, DType::kF64, ShapeOf(e.a, extents)), b = RandomBox(rng, DType::kF64, ShapeOf(e.b, extents));
  Box out = PaddedBox(rng, DType::kF64, ShapeOf(e.out, extents)), want = out;
  ProductPlan plan = PlanOf(eq, a, b, out);
  if (plan.route != ProductPlan::Route::kLibrary) return false;
  const Product& p = plan.product;
  EXPECT_GE(p.lda, p.transpose_a ? p.k : p.m);
  EXPECT_GE(p.ldb, p.transpose_b ? p.n : p.k);
  EXPECT_GE(p.ldd, p.m);
  RunKernel(Op::kEinsum, {{"eq", eq}}, {&a, &b}, {&want});
  Follow(plan, a, b, out);
  std::string text;
  for (auto [c, n] : extents) text += fmt::format(" {}={}", c, n);
  SCOPED_TRACE(eq + text + ": " + Describe(plan));
  EXPECT_TRUE(out.PaddingIntact());
  ExpectClose(out, want.All(), 1e-12 * double(plan.k + 1), 4);
  return true;
}

// A matrix times few rows goes to the kernel for it, however it is stored, and to the library if it is small.
TEST(ProductPlan, FewRowsOfALargeMatrixHaveAKernel) {
  auto route = [](const char* eq, const Shape& a, const Shape& b, const Shape& out, DType dtype) {
    return PlanOf(eq, Box(dtype, a), Box(dtype, b), Box(dtype, out)).route;
  };
  constexpr auto kFew = ProductPlan::Route::kFewRows, kLibrary = ProductPlan::Route::kLibrary;
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t rows : {1, 2, 8, 9}) {
      auto want = rows <= 8 && dtype != DType::kF64 ? kFew : kLibrary;
      EXPECT_EQ(route("btc,cf->btf", {rows, 1, 64}, {64, 256}, {rows, 1, 256}, dtype), want);
      EXPECT_EQ(route("btc,chd->bthd", {1, rows, 64}, {64, 8, 32}, {1, rows, 8, 32}, dtype), want);
      EXPECT_EQ(route("bthd,hdc->btc", {rows, 1, 8, 16}, {8, 16, 300}, {rows, 1, 300}, dtype), want);
      EXPECT_EQ(route("btc,vc->btv", {rows, 1, 64}, {1000, 64}, {rows, 1, 1000}, dtype), want);
      EXPECT_EQ(route("btc,cf->btf", {rows, 1, 64}, {64, 255}, {rows, 1, 255}, dtype), kLibrary);
      EXPECT_EQ(route("btc,cf->btf", {rows, 1, 63}, {63, 256}, {rows, 1, 256}, dtype), kLibrary);
      EXPECT_EQ(route("tb,tc->bc", {1 << 16, rows}, {1 << 16, 256}, {rows, 256}, dtype), kLibrary);
    }
}

// TF32 products are separate entries in the file of algorithms, although their shape is the same.
TEST(ProductPlan, Tf32IsOfF32AndHasKeysOfItsOwn) {
  Context allows(0, 1);
  allows.set_numerics({.tf32 = true});
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    Box a(dtype, {64, 128}), b(dtype, {128, 256}), out(dtype, {64, 256});
    Product plain = PlanOf("mk,kn->mn", a, b, out).product, fast = PlanOf("mk,kn->mn", a, b, out, allows).product;
    EXPECT_FALSE(plain.tf32) << Name(dtype);
    EXPECT_EQ(fast.tf32, dtype == DType::kF32) << Name(dtype);
    EXPECT_EQ(KeyOf(plain, 16, 16, 16, 0) == KeyOf(fast, 16, 16, 16, 0), dtype != DType::kF32) << Name(dtype);
  }
}

TEST(ProductPlan, FollowedGivesTheEinsum) {
  Rng rng(41);
  const std::vector<int64_t> sizes{1, 2, 3, 5, 8, 13};
  int asked = 0;
  for (const char* eq : {"mk,kn->mn",       "km,kn->mn",     "mk,nk->mn",       "km,nk->mn",       "mk,kn->nm",
                         "btc,chd->bthd",   "bthd,hdc->btc", "btc,bthd->chd",   "bthd,btc->hdc",   "bthd,bshd->bhts",
                         "bhts,bshd->bthd", "ij,j->i",       "i,ij->j",         "bij,bjk->bik",    "ijb,jkb->ikb",
                         "bij,bjk->ikb",    "abc,cbd->da",   "cab,bdc->ad",     "abcd,dcbe->ea",   "vc,btc->btv",
                         "abk,kcd->dacb",   "btc,btv->vc",   "abij,abjk->abik", "baij,abjk->abik", "abij,bjak->abik"})
    for (int round = 0; round < 30; round++) {
      Extents extents;
      for (char c : std::string(eq))
        if (std::isalpha(uint8_t(c))) extents[c] = PickOf(rng, sizes);
      asked += CheckPlan(rng, eq, extents);
    }
  EXPECT_GT(asked, 200);
}

TEST(ProductPlan, FollowedGivesLargeEinsums) {
  Rng rng(42);
  for (int round = 0; round < 3; round++) {
    EXPECT_TRUE(CheckPlan(rng, "btc,chd->bhtd", {{'b', 3}, {'t', 70}, {'c', 65}, {'h', 5}, {'d', 70}}));
    EXPECT_TRUE(CheckPlan(rng, "btc,chd->bhtd", {{'b', 2}, {'t', 130}, {'c', 40}, {'h', 4}, {'d', 128}}));
    EXPECT_TRUE(CheckPlan(rng, "bthd,dhc->btc", {{'b', 3}, {'t', 70}, {'c', 165}, {'h', 5}, {'d', 30}}));
    EXPECT_TRUE(CheckPlan(rng, "btc,btv->vc", {{'b', 3}, {'t', 70}, {'c', 150}, {'v', 151}}));
    EXPECT_TRUE(CheckPlan(rng, "btc,cf->btf", {{'b', 3}, {'t', 140}, {'c', 100}, {'f', 120}}));
    EXPECT_TRUE(CheckPlan(rng, "ijb,jkb->ikb", {{'i', 90}, {'j', 91}, {'b', 7}, {'k', 92}}));
    EXPECT_TRUE(CheckPlan(rng, "xyik,ykxj->ijyx", {{'x', 3}, {'y', 5}, {'i', 70}, {'j', 71}, {'k', 72}}));
    EXPECT_TRUE(CheckPlan(rng, "acbk,kdce->dabec", {{'a', 9}, {'b', 10}, {'c', 4}, {'k', 50}, {'d', 8}, {'e', 40}}));
  }
}

}  // namespace
}  // namespace weft::test
