#include "support/safetensors_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft::testing_ {

std::string Framed(const std::string& header, const std::string& data) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

std::string Pack(const RawTensors& tensors, size_t padding) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, t] : tensors) {
    header[name] = {
        {"dtype", t.type}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.data.size()}}};
    data += t.data;
  }
  return Framed(header.dump() + std::string(padding, ' '), data);
}

RawTensor Raw(const Tensor& t) {
  std::string type = Name(t.dtype());
  std::transform(type.begin(), type.end(), type.begin(), [](char c) { return char(std::toupper(c)); });
  return {type, {t.shape().begin(), t.shape().end()}, {static_cast<const char*>(t.data()), t.bytes()}};
}

RawTensor Made(const Shape& shape, DType dtype, const std::function<double(int64_t, int64_t)>& at) {
  std::vector<double> values;
  int64_t columns = shape.size() == 1 ? 1 : shape[1];
  for (int64_t i = 0; i < NumElements(shape); i++) values.push_back(at(i / columns, i % columns));
  return Raw(Tensor::FromDoubles(values, dtype, shape));
}

RawTensor Plain(const Matrix& m, DType dtype) {
  return Made({m.rows(), m.columns()}, dtype, [&](int64_t r, int64_t c) { return m(r, c); });
}

RawTensor Transposed(const Matrix& m, DType dtype) {
  return Made({m.columns(), m.rows()}, dtype, [&](int64_t r, int64_t c) { return m(c, r); });
}

RawTensor Vector(const Tensor& t, DType dtype) {
  Matrix m(t, 1);
  return Made({m.rows()}, dtype, [&](int64_t r, int64_t) { return m(r, 0); });
}

RawTensors HfGpt2(const Parameters& p, int64_t layers, int64_t width, DType type, const std::string& prefix) {
  RawTensors out{{prefix + "wte.weight", Plain({p.at("embed.weight"), width}, type)},
                 {prefix + "wpe.weight", Plain({p.at("positions"), width}, type)},
                 {prefix + "ln_f.weight", Vector(p.at("norm.weight"), type)},
                 {prefix + "ln_f.bias", Vector(p.at("norm.bias"), type)}};
  for (int64_t i = 0; i < layers; i++) {
    std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("{}h.{}.", prefix, i);
    auto at = [&](const std::string& name) -> const Tensor& { return p.at(ours + name); };
    int64_t heads = at("attn.q.weight").shape()[1], size = width / heads;
    auto columns = [&](const std::string& name) {
      return Matrix(at(name), at(name).shape().back() * at(name).shape()[at(name).shape().size() - 2]);
    };
    Matrix q = columns("attn.q.weight"), k = columns("attn.k.weight"), v = columns("attn.v.weight"),
           qb = columns("attn.q.bias"), kb = columns("attn.k.bias"), vb = columns("attn.v.bias");
    const Matrix *qkv[] = {&q, &k, &v}, *biases[] = {&qb, &kb, &vb};
    // Column c of theirs as a column of the matrix that it is from.
    auto column = [&](const Matrix& of, int64_t c) {
      int64_t group = width / of.columns(), head = c % width / size;
      return head / group * size + c % size;
    };
    out[theirs + "attn.c_attn.weight"] = Made({width, 3 * width}, type, [&](int64_t r, int64_t c) {
      const Matrix& of = *qkv[c / width];
      return of(r, column(of, c));
    });
    out[theirs + "attn.c_attn.bias"] = Made({3 * width}, type, [&](int64_t c, int64_t) {
      const Matrix& of = *biases[c / width];
      return of(0, column(of, c));
    });
    out[theirs + "attn.c_proj.weight"] = Plain({at("attn.proj.weight"), width}, type);
    out[theirs + "mlp.c_fc.weight"] = Plain({at("mlp.up.weight"), at("mlp.up.weight").shape()[1]}, type);
    out[theirs + "mlp.c_proj.weight"] = Plain({at("mlp.down.weight"), width}, type);
    for (auto [mine, other] : {std::pair("attn.proj.bias", "attn.c_proj.bias"),
                               {"mlp.up.bias", "mlp.c_fc.bias"},
                               {"mlp.down.bias", "mlp.c_proj.bias"},
                               {"norm1.weight", "ln_1.weight"},
                               {"norm1.bias", "ln_1.bias"},
                               {"norm2.weight", "ln_2.weight"},
                               {"norm2.bias", "ln_2.bias"}})
      out[theirs + other] = Vector(at(mine), type);
  }
  return out;
}

RawTensors HfNeox(const Parameters& p, int64_t layers, int64_t width, DType type, const std::string& prefix) {
  RawTensors out{{prefix + "embed_in.weight", Plain({p.at("embed.weight"), width}, type)},
                 {prefix + "final_layer_norm.weight", Vector(p.at("norm.weight"), type)},
                 {prefix + "final_layer_norm.bias", Vector(p.at("norm.bias"), type)}};
  if (p.contains("head.weight")) out["embed_out.weight"] = Plain({p.at("head.weight"), width}, type);
  for (int64_t i = 0; i < layers; i++) {
    std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("{}layers.{}.", prefix, i);
    auto at = [&](const std::string& name) -> const Tensor& { return p.at(ours + name); };
    int64_t heads = at("attn.q.weight").shape()[1], size = width / heads;
    auto fused = [&](const char* name, int64_t columns) {
      std::vector<Matrix> of;  // q, k and v, with a column for each of their own heads' elements
      std::vector<int64_t> own;
      for (char c : std::string("qkv")) {
        const Tensor& t = at(fmt::format("attn.{}.{}", c, name));
        own.push_back(t.shape()[t.shape().size() - 2]);
        of.emplace_back(t, own.back() * size);
      }
      return Made(columns == 1 ? Shape{3 * width} : Shape{3 * width, columns}, type, [&](int64_t r, int64_t c) {
        size_t which = size_t(r / size % 3);
        int64_t head = r / (3 * size) / (heads / own[which]);
        return of[which](c, head * size + r % size);
      });
    };
    out[theirs + "attention.query_key_value.weight"] = fused("weight", width);
    if (p.contains(ours + "attn.q.bias")) {
      out[theirs + "attention.query_key_value.bias"] = fused("bias", 1);
      out[theirs + "attention.dense.bias"] = Vector(at("attn.proj.bias"), type);
    }
    out[theirs + "attention.dense.weight"] = Transposed({at("attn.proj.weight"), width}, type);
    out[theirs + "mlp.dense_h_to_4h.weight"] = Transposed({at("mlp.up.weight"), at("mlp.up.weight").shape()[1]}, type);
    out[theirs + "mlp.dense_4h_to_h.weight"] = Transposed({at("mlp.down.weight"), width}, type);
    for (auto [mine, other] : {std::pair("mlp.up.bias", "mlp.dense_h_to_4h.bias"),
                               {"mlp.down.bias", "mlp.dense_4h_to_h.bias"},
                               {"norm1.weight", "input_layernorm.weight"},
                               {"norm1.bias", "input_layernorm.bias"},
                               {"norm2.weight", "post_attention_layernorm.weight"},
                               {"norm2.bias", "post_attention_layernorm.bias"}})
      out[theirs + other] = Vector(at(mine), type);
  }
  return out;
}

RawTensors HfBert(const Parameters& p, int64_t layers, int64_t width, DType type) {
  RawTensors out;
  auto plain = [&](const char* ours, const char* theirs) { out[theirs] = Plain({p.at(ours), width}, type); };
  auto vector = [&](const std::string& ours, const std::string& theirs) { out[theirs] = Vector(p.at(ours), type); };
  plain("embed.weight", "bert.embeddings.word_embeddings.weight");
  plain("positions", "bert.embeddings.position_embeddings.weight");
  plain("token_types", "bert.embeddings.token_type_embeddings.weight");
  if (p.contains("head.weight")) plain("head.weight", "cls.predictions.decoder.weight");
  out["cls.predictions.transform.dense.weight"] = Transposed({p.at("dense.weight"), width}, type);
  vector("dense.bias", "cls.predictions.transform.dense.bias");
  vector("head.bias", "cls.predictions.bias");
  vector("head.bias", "cls.predictions.decoder.bias");
  for (const char* part : {"weight", "bias"}) {
    vector(fmt::format("norm.{}", part), fmt::format("bert.embeddings.LayerNorm.{}", part));
    vector(fmt::format("last_norm.{}", part), fmt::format("cls.predictions.transform.LayerNorm.{}", part));
  }
  for (int64_t i = 0; i < layers; i++) {
    std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("bert.encoder.layer.{}.", i);
    const Tensor& q = p.at(ours + "attn.q.weight");  // [C, H, D]
    int64_t heads = q.shape()[1], size = q.shape()[2];
    for (auto [mine, other] : {std::pair("q", "query"), {"k", "key"}, {"v", "value"}}) {
      const Tensor &weight = p.at(fmt::format("{}attn.{}.weight", ours, mine)),
                   &bias = p.at(fmt::format("{}attn.{}.bias", ours, mine));
      int64_t own = weight.shape()[1];
      Matrix w(weight, own * size), b(bias, own * size);
      auto column = [&](int64_t r) { return r / size / (heads / own) * size + r % size; };
      std::string name = fmt::format("{}attention.self.{}.", theirs, other);
      out[name + "weight"] = Made({heads * size, width}, type, [&](int64_t r, int64_t c) { return w(c, column(r)); });
      out[name + "bias"] = Made({heads * size}, type, [&](int64_t r, int64_t) { return b(0, column(r)); });
    }
    for (auto [mine, other] : {std::pair("attn.proj", "attention.output.dense"),
                               {"mlp.up", "intermediate.dense"},
                               {"mlp.down", "output.dense"}}) {
      const Tensor& bias = p.at(fmt::format("{}{}.bias", ours, mine));
      out[fmt::format("{}{}.weight", theirs, other)] =
          Transposed({p.at(fmt::format("{}{}.weight", ours, mine)), bias.shape()[0]}, type);
      out[fmt::format("{}{}.bias", theirs, other)] = Vector(bias, type);
    }
    for (const char* part : {"weight", "bias"}) {
      vector(fmt::format("{}norm1.{}", ours, part), fmt::format("{}attention.output.LayerNorm.{}", theirs, part));
      vector(fmt::format("{}norm2.{}", ours, part), fmt::format("{}output.LayerNorm.{}", theirs, part));
    }
  }
  return out;
}

RawTensors HfLlama(const Parameters& p, int64_t layers, int64_t width, DType type, const std::string& prefix) {
  RawTensors out{{prefix + "embed_tokens.weight", Plain({p.at("embed.weight"), width}, type)},
                 {prefix + "norm.weight", Vector(p.at("norm.weight"), type)}};
  if (p.contains("head.weight")) out["lm_head.weight"] = Plain({p.at("head.weight"), width}, type);
  for (int64_t i = 0; i < layers; i++) {
    std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("{}layers.{}.", prefix, i);
    auto at = [&](const std::string& name) -> const Tensor& { return p.at(ours + name); };
    for (const char* part : {"q", "k", "v"}) {
      const Tensor& t = at(fmt::format("attn.{}.weight", part));  // [C, H, D]
      out[fmt::format("{}self_attn.{}_proj.weight", theirs, part)] = Transposed({t, t.shape()[1] * t.shape()[2]}, type);
    }
    out[theirs + "self_attn.o_proj.weight"] = Transposed({at("attn.proj.weight"), width}, type);
    for (const char* part : {"gate", "up", "down"}) {
      const Tensor& t = at(fmt::format("mlp.{}.weight", part));
      out[fmt::format("{}mlp.{}_proj.weight", theirs, part)] = Transposed({t, t.shape()[1]}, type);
    }
    out[theirs + "input_layernorm.weight"] = Vector(at("norm1.weight"), type);
    if (!p.contains(ours + "post_norm1.weight")) {
      out[theirs + "post_attention_layernorm.weight"] = Vector(at("norm2.weight"), type);
      continue;
    }
    out[theirs + "post_attention_layernorm.weight"] = Vector(at("post_norm1.weight"), type);
    out[theirs + "pre_feedforward_layernorm.weight"] = Vector(at("norm2.weight"), type);
    out[theirs + "post_feedforward_layernorm.weight"] = Vector(at("post_norm2.weight"), type);
  }
  return out;
}

RawTensors HfLayout(const std::string& family, const Parameters& p, int64_t layers, int64_t width, DType type) {
  return family == "gpt2"   ? HfGpt2(p, layers, width, type)
         : family == "neox" ? HfNeox(p, layers, width, type)
         : family == "bert" ? HfBert(p, layers, width, type)
                            : HfLlama(p, layers, width, type);
}

}  // namespace weft::testing_
