// Safetensors files as a test wants them, and checkpoints in Hugging Face's layouts, written from their definition.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/core/base/tensor.h"

namespace weft::testing_ {

struct RawTensor {
  std::string type;
  std::vector<int64_t> shape;
  std::string data;
};
using RawTensors = std::map<std::string, RawTensor>;

// The header's length, the header, the data.
std::string Framed(const std::string& header, const std::string& data);

std::string Pack(const RawTensors& tensors, size_t padding = 0);

RawTensor Raw(const Tensor& t);

using Parameters = std::map<std::string, Tensor>;  // global, by path

// A tensor of `shape` [rows, columns] or [size], element by element.
RawTensor Made(const Shape& shape, DType dtype, const std::function<double(int64_t, int64_t)>& at);

// Element i of a parameter as if it were a matrix of so many columns.
class Matrix {
 public:
  Matrix(const Tensor& t, int64_t columns) : values_(t.ToDoubles()), columns_(columns) {}
  double operator()(int64_t row, int64_t column) const { return values_[size_t(row * columns_ + column)]; }
  int64_t rows() const { return int64_t(values_.size()) / columns_; }
  int64_t columns() const { return columns_; }

 private:
  std::vector<double> values_;
  int64_t columns_;
};
RawTensor Plain(const Matrix& m, DType dtype);
RawTensor Transposed(const Matrix& m, DType dtype);
RawTensor Vector(const Tensor& t, DType dtype);

// As transformers' GPT2LMHeadModel stores it, which has as many key and value heads as query heads: ours are there once
// for every query head of their group.
RawTensors HfGpt2(const Parameters& p, int64_t layers, int64_t width, DType type,
                  const std::string& prefix = "transformer.");

// As transformers' GPTNeoXForCausalLM stores it: the rows of one matrix are q, k and v of the first head, then those of
// the second and so on. Ours are there once for every query head of their group.
RawTensors HfNeox(const Parameters& p, int64_t layers, int64_t width, DType type,
                  const std::string& prefix = "gpt_neox.");

// As transformers' BertForMaskedLM stores it; the bias of the head twice.
RawTensors HfBert(const Parameters& p, int64_t layers, int64_t width, DType type);

// As transformers' LlamaForCausalLM and MistralForCausalLM store it, and Gemma2ForCausalLM, which has more norms.
RawTensors HfLlama(const Parameters& p, int64_t layers, int64_t width, DType type,
                   const std::string& prefix = "model.");

RawTensors HfLayout(const std::string& family, const Parameters& p, int64_t layers, int64_t width, DType type);

}  // namespace weft::testing_
