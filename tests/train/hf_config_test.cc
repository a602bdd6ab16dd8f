// Every key of a published config.json is compared with our model, must have the one value that Weft computes, or
// changes no number; a key that nobody knows is refused by name.
#include "weft/train/huggingface/hf_config.h"

#include <gtest/gtest.h>

#include <set>

#include "fmt/format.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/hf_keys.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

ModelConfig ModelWith(const std::string& family, const Words& words = {}) {
  std::string yaml = "model: {family: " + family +
                     ", layers: 2, heads: 6, dim: 48, ffn: 35, context: 7, vocab: 37}\n"
                     "data: {synthetic: true}\ntrain: {steps: 3, global_batch: 5}\n";
  absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", words);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->model : ModelConfig();
}

Json JsonOf(const HfNumber& n, double value) {
  return n.kind == HfNumber::kFlag && (value == 0 || value == 1) ? Json(value != 0) : Json(value);
}

// What transformers would write of the model, each compared key included.
Json SettingsOf(const HfFamily& family, const ModelConfig& model) {
  Json json;
  for (const HfWord& w : family.words)
    if (w.Applies(model)) json[w.key] = w.words[0];
  for (std::span<const HfNumber> numbers : {family.numbers, family.sizes})
    for (const HfNumber& n : numbers)
      if (std::string_view(n.key).find('.') == std::string_view::npos) json[n.key] = JsonOf(n, n.value(model));
  json["tie_word_embeddings"] = model.tie_embeddings;
  return json;
}

std::string Answer(const Json& json, const std::string& family, const ModelConfig& model, bool same_head = false) {
  absl::Status status = CheckHfConfig(json, *FindHfFamily(family), model, [&] { return same_head; });
  return status.ok() ? "ok" : std::string(status.message());
}

Json With(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return json;
}

const Json kValues[] = {nullptr,
                        true,
                        false,
                        0,
                        1,
                        2,
                        0.5,
                        -1,
                        "",
                        "x",
                        Json::array(),
                        Json::array({"full_attention"}),
                        Json::array({"sliding_attention"}),
                        Json::object({{"a", 1}})};

class HfConfig : public testing::TestWithParam<const char*> {
 protected:
  void Expect(const std::string& text, const Json& json, const ModelConfig& model) {
    std::string answer = Answer(json, GetParam(), model);
    EXPECT_NE(answer.find(text), answer.npos) << "expected " << text << "\ngot      " << answer << "\nfor " << json;
  }
  void Expect(const std::string& text, const Json& json) { Expect(text, json, model_); }

  const HfFamily& family_ = *FindHfFamily(GetParam());
  ModelConfig model_ = ModelWith(GetParam());
  Json settings_ = SettingsOf(family_, model_);
};

// The law over the tables: a neutral key may be anything, a fixed key exactly what its row takes.
TEST_P(HfConfig, TakesWhatTheTablesTake) {
  EXPECT_EQ(Answer(settings_, GetParam(), model_), "ok");
  std::set<std::string> seen;
  for (std::span<const HfKey> keys : {family_.keys, HfGenericKeys()})
    for (const HfKey& row : keys) {
      bool own = keys.data() == family_.keys.data();
      if (!own && (seen.contains(row.key) || family_.Compares(row.key))) continue;  // the family has a row of its own
      EXPECT_TRUE(seen.insert(row.key).second) << row.key;
      EXPECT_EQ(FindHfKey(row.key, family_), &row);
      size_t refused = 0, taken = 0;
      for (const Json& value : kValues) {
        std::string answer = Answer(With(settings_, row.key, value), GetParam(), model_);
        bool takes = !row.taken || row.taken(value);
        (takes ? taken : refused)++;
        if (takes)
          EXPECT_EQ(answer, "ok") << row.key << " = " << value;
        else
          EXPECT_TRUE(answer.starts_with(fmt::format("{}: {}, got {}", row.key, row.why, value.dump()))) << answer;
      }
      EXPECT_EQ(refused == 0, !row.taken) << row.key;
      EXPECT_GT(taken, 0u) << row.key;
    }
}

// What our model has too is compared, with transformers' default where it is absent.
TEST_P(HfConfig, ComparesNumbers) {
  for (std::span<const HfNumber> numbers : {family_.numbers, family_.sizes})
    for (const HfNumber& n : numbers) {
      if (std::string_view(n.key).find('.') != std::string_view::npos) continue;  // of the rotary embedding, below
      double ours = n.value(model_);
      bool flag = n.kind == HfNumber::kFlag;
      auto shown = [&](double value) { return flag ? Json(value != 0).dump() : fmt::format("{}", value); };
      for (const Json& value :
           {Json(ours * 2), Json("x"), Json(flag ? ours == 0 : true), Json::array(), Json(ours * (1 + 1e-5))}) {
        std::string answer = Answer(With(settings_, n.key, value), GetParam(), model_);
        std::string want = fmt::format("expected {} {}, as {} is, got {}", n.key, shown(ours), n.ours, value.dump());
        EXPECT_TRUE(n.free ? answer == "ok" : answer.starts_with(want)) << answer << "\n" << want;
      }
      for (bool null : {false, true}) {
        Json without = settings_;
        without.erase(n.key);
        if (null) without[n.key] = nullptr;
        if (null && n.null)
          Expect(ours == 0 ? "ok" : fmt::format("as {} is, got null; set {}=0", n.ours, n.ours), without);
        else if (!n.absent || n.absent(model_) == ours)
          Expect("ok", without);
        else
          Expect(fmt::format("expected {} {}, as {} is, got none, where transformers takes {}; set {}={}", n.key,
                             shown(ours), n.ours, shown(n.absent(model_)), n.ours, shown(n.absent(model_))),
                 without);
      }
    }
}

TEST_P(HfConfig, ComparesWordsAndTiedEmbeddings) {
  for (const HfWord& w : family_.words) {
    if (!w.Applies(model_)) continue;
    for (const char* word : w.words) Expect("ok", With(settings_, w.key, word));
    for (const Json& value : {Json("relu"), Json("quick_gelu"), Json(1)})
      Expect(fmt::format("expected {} {}", w.key, w.words[0]), With(settings_, w.key, value));
  }
  for (bool ours : {true, false}) {
    ModelConfig model = ModelWith(GetParam(), {fmt::format("model.tie_embeddings={}", ours)});
    for (Json theirs : {Json(true), Json(false), Json(nullptr), Json(1), Json()}) {
      Json json = With(settings_, "tie_word_embeddings", theirs);
      if (theirs.is_boolean() && theirs == ours) {
        Expect("ok", json, model);
      } else if (theirs.is_boolean()) {
        Expect(fmt::format("expected tie_word_embeddings {}, as model.tie_embeddings is, got {}; set "
                           "model.tie_embeddings={}",
                           ours, !ours, !ours),
               json, model);
        EXPECT_EQ(Answer(json, GetParam(), model, true), "ok");  // the weights hold the embedding twice
      } else {
        Expect("expected tie_word_embeddings true or false, got ", json, model);
      }
    }
    Json without = settings_;
    without.erase("tie_word_embeddings");
    Expect(family_.tied == ours ? "ok" : "got none, where transformers takes", without, model);
  }
}

TEST_P(HfConfig, RefusesKeysThatNobodyKnows) {
  for (const Json& value : kValues) {
    Json json = With(settings_, "qk_norm", value);
    Expect(value.is_null() ? "ok"
                           : fmt::format("expected keys that Weft knows of family {}, got also qk_norm = {}; if the "
                                         "model computes the same without them, name them in model.init_neutral",
                                         GetParam(), value.dump()),
           json);
    Expect("ok", json, ModelWith(GetParam(), {"model.init_neutral=qk_norm"}));
    Expect("ok", json, ModelWith(GetParam(), {"model.init_neutral=[a, qk_norm]"}));
    Expect("ok", With(settings_, "_attn_implementation_autoset", value));
  }
  // A key that is known to change the numbers is refused whatever model.init_neutral holds.
  Expect("attention_chunk_size: expected none", With(settings_, "attention_chunk_size", 4),
         ModelWith(GetParam(), {"model.init_neutral=attention_chunk_size"}));
  Json many = settings_;
  for (int i = 0; i < 9; i++) many[fmt::format("key_{}", i)] = i;
  Expect("got also key_0 = 0, key_1 = 1, key_2 = 2, key_3 = 3 and 5 more; if", many);
}

std::vector<const char*> Names() {
  std::vector<const char*> names;
  for (const HfFamily* family : HfFamilies()) names.push_back(family->family);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Families, HfConfig, testing::ValuesIn(Names()),
                         [](const auto& family) { return std::string(family.param); });

// The object of the rotary embedding: rope_scaling before transformers 5, rope_parameters since.
class HfRope : public testing::Test {
 protected:
  void Expect(const std::string& text, const Json& rope, const Words& words = {}, const Json& beside = Json::object()) {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      ModelConfig model = ModelWith("llama", words);
      Json json = With(SettingsOf(*FindHfFamily("llama"), model), name, rope);
      json.update(beside);
      std::string answer = Answer(json, "llama", model);
      EXPECT_NE(answer.find(text), answer.npos) << "expected " << text << "\ngot      " << answer << "\nfor " << json;
    }
  }
  const Json llama3_ = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 2.0},
                        {"high_freq_factor", 5.0},
                        {"original_max_position_embeddings", 64}};
  const Words scaled_ = {"model.rope_factor=32", "model.rope_low=2", "model.rope_high=5", "model.rope_context=64"};
};

TEST_F(HfRope, IsThatOfTheModel) {
  for (const Json& none : {Json(nullptr), Json::object(), Json({{"rope_type", "default"}}), Json({{"type", "default"}}),
                           Json({{"rope_type", "default"}, {"factor", 7}, {"rope_theta", 1e4}})}) {
    Expect("ok", none);
    Expect("expected rope_scaling.factor 32, as model.rope_factor is, got none, where transformers takes 1", none,
           scaled_);
  }
  Expect("ok", llama3_, scaled_);
  Expect("expected rope_scaling.factor 1, as model.rope_factor is, got 32.0; set model.rope_factor=32.0", llama3_);
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json other = With(llama3_, key, llama3_[key].get<double>() + 1), without = llama3_;
    without.erase(key);
    Expect(fmt::format("expected rope_scaling.{} {}, as model.rope_", key, llama3_[key].get<double>()), other, scaled_);
    bool context = key == std::string("original_max_position_embeddings");  // absent: max_position_embeddings, 7 here
    Expect(context ? "expected rope_scaling.original_max_position_embeddings 64, as model.rope_context is, got 7.0"
                   : fmt::format("expected rope_scaling.{}, as rope_type llama3 has it, got none", key),
           without, scaled_);
  }
}

TEST_F(HfRope, IsRefusedWhereItIsAnother) {
  for (const char* type : {"linear", "dynamic", "yarn", "longrope", "proportional", "su", "mrope"})
    for (const char* key : {"rope_type", "type"})
      Expect(fmt::format("expected rope_scaling.{} default or llama3, which Weft has, got \"{}\"; Weft has no such "
                         "model",
                         key, type),
             {{key, type}, {"factor", 2.0}});
  Expect("expected rope_scaling.rope_type and rope_scaling.type to be equal, got \"llama3\" and \"linear\"",
         With(llama3_, "type", "linear"), scaled_);
  Expect("partial_rotary_factor: expected 1: Weft rotates whole heads, got 0.5",
         {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}});
  Expect("ok", {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}});
  Expect("got also rope_scaling.mscale = 2; if", With(llama3_, "mscale", 2), scaled_);
  Expect("ok", With(llama3_, "mscale", 2), [&] {
    Words words = scaled_;
    words.push_back("model.init_neutral=rope_scaling.mscale");
    return words;
  }());
  Expect("to be an object or null, got [1]", Json::array({1}));
}

// Versions of transformers differ on which of two wins.
TEST_F(HfRope, IsRefusedWhereTheFileDisagreesWithItself) {
  Expect("expected rope_theta and rope_scaling.rope_theta to be equal, got 10000.0 and 500.0",
         {{"rope_type", "default"}, {"rope_theta", 500.0}});
  Expect(
      "expected original_max_position_embeddings and rope_scaling.original_max_position_embeddings to be equal, got "
      "32 and 64",
      llama3_, scaled_, {{"original_max_position_embeddings", 32}});
  Expect("ok", llama3_, scaled_, {{"original_max_position_embeddings", 64}});
  Expect("expected rope_scaling and rope_parameters to be equal", llama3_, scaled_,
         {{"rope_scaling", llama3_}, {"rope_parameters", {{"rope_type", "default"}}}});
  Expect("ok", llama3_, scaled_, {{"rope_scaling", llama3_}, {"rope_parameters", llama3_}});
}

// GELU by erf and its tanh form are two words, and the error says which setting has the other.
TEST(HfConfigWords, AreThoseOfTheModelsOptions) {
  for (bool exact : {true, false}) {
    ModelConfig model = ModelWith("neox", {fmt::format("model.exact_gelu={}", exact)});
    Json json = SettingsOf(*FindHfFamily("neox"), model);
    for (const char* word : {"gelu", "gelu_python"})
      EXPECT_EQ(Answer(With(json, "hidden_act", word), "neox", model) == "ok", exact) << word;
    for (const char* word : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
      EXPECT_EQ(Answer(With(json, "hidden_act", word), "neox", model) == "ok", !exact) << word;
    std::string other = Answer(With(json, "hidden_act", exact ? "gelu_fast" : "gelu"), "neox", model);
    EXPECT_TRUE(other.ends_with(fmt::format("; set model.exact_gelu={}", !exact))) << other;
    json.erase("hidden_act");
    EXPECT_EQ(Answer(json, "neox", model) == "ok", exact);  // transformers takes gelu
  }
}

TEST(HfConfigAliases, AreTheKeysThatTheyStandFor) {
  for (const HfFamily* family : HfFamilies()) {
    ModelConfig model = ModelWith(family->family);
    Json settings = SettingsOf(*family, model);
    for (const HfAlias& alias : family->aliases) {
      Json renamed = With(settings, alias.alias, settings[alias.key]);
      EXPECT_EQ(Answer(renamed, family->family, model), "ok");
      renamed.erase(alias.key);
      EXPECT_EQ(Answer(renamed, family->family, model), "ok");
      std::string differ = Answer(With(settings, alias.alias, 99), family->family, model);
      EXPECT_TRUE(differ.starts_with(fmt::format("expected {} and {} to be equal, got ", alias.key, alias.alias)));
      std::string other = Answer(With(renamed, alias.alias, 99), family->family, model);
      EXPECT_TRUE(other.starts_with(fmt::format("expected {} ", alias.key))) << other;
    }
  }
}

// config.json of GPT-2 as it was published in 2019.
Json PublishedGpt2() {
  return {{"activation_function", "gelu_new"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"attn_pdrop", 0.1},
          {"bos_token_id", 50256},
          {"embd_pdrop", 0.1},
          {"eos_token_id", 50256},
          {"initializer_range", 0.02},
          {"layer_norm_epsilon", 1e-05},
          {"model_type", "gpt2"},
          {"n_ctx", 1024},
          {"n_embd", 768},
          {"n_head", 12},
          {"n_layer", 12},
          {"n_positions", 1024},
          {"resid_pdrop", 0.1},
          {"summary_activation", nullptr},
          {"summary_first_dropout", 0.1},
          {"summary_proj_to_labels", true},
          {"summary_type", "cls_index"},
          {"summary_use_proj", true},
          {"vocab_size", 50257},
          {"task_specific_params", {{"text-generation", {{"max_length", 50}}}}}};
}

// rope_scaling of Llama 3.2 1B.
Json PublishedScaling() {
  return {{"factor", 32.0},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192},
          {"rope_type", "llama3"}};
}

// config.json of Llama 3.2 1B as it was published in 2024.
Json PublishedLlama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008, 128009}},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"initializer_range", 0.02},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 16},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling", PublishedScaling()},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.45.0.dev0"},
          {"use_cache", true},
          {"vocab_size", 128256}};
}

// Llama's file also as transformers 5 writes it.
TEST(HfConfigFiles, ThatArePublishedAreTaken) {
  auto preset = [](const Words& words) {
    absl::StatusOr<Config> config =
        ParseConfig("data: {synthetic: true}\ntrain: {steps: 1, global_batch: 1}\n", "a.yaml", words);
    EXPECT_TRUE(config.ok()) << config.status();
    return config->model;
  };
  EXPECT_EQ(Answer(PublishedGpt2(), "gpt2", preset({"model.preset=gpt2_124m"})), "ok");
  Json llama = PublishedLlama(), scaling = PublishedScaling();
  ModelConfig model = preset({"model.preset=llama3_1b", "model.rope_factor=32"});
  EXPECT_EQ(Answer(llama, "llama", model), "ok");
  llama.erase("rope_scaling");
  llama.erase("rope_theta");
  scaling["rope_theta"] = 500000.0;
  llama["rope_parameters"] = scaling;
  EXPECT_EQ(Answer(llama, "llama", model), "ok");
}

}  // namespace
}  // namespace weft
