// Model families: each is one file in models/, which CMake joins into a table. A new family is that file and a config.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "weft/parallel/nn/layers/transformer.h"

namespace weft {

struct ModelFamily {
  const char* name;                                         // of the file too
  const char* summary;                                      // for people
  TransformerConfig (*configure)(TransformerConfig sizes);  // sets what is not a size
  int64_t (*default_ffn)(int64_t dim);
  bool tie_embeddings;  // unless the config says otherwise
};

std::span<const ModelFamily* const> ModelFamilies();
const ModelFamily* FindFamily(std::string_view name);  // null where there is none

}  // namespace weft
