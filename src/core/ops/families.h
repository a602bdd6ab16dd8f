// The op families, joined once. A new family adds its header and its list here; a new op only a row in its family.
#pragma once
#include "weft/core/ops/attention.h"
#include "weft/core/ops/collective.h"
#include "weft/core/ops/einsum.h"
#include "weft/core/ops/embedding.h"
#include "weft/core/ops/fused.h"
#include "weft/core/ops/leaf.h"
#include "weft/core/ops/loss.h"
#include "weft/core/ops/norm.h"
#include "weft/core/ops/optimizer_ops.h"
#include "weft/core/ops/random.h"
#include "weft/core/ops/reduce.h"
#include "weft/core/ops/structural.h"

// clang-format off
#define WEFT_FAMILIES(X)    \
  WEFT_LEAF_OPS(X)          \
  WEFT_EINSUM_OPS(X)        \
  WEFT_REDUCE_OPS(X)        \
  WEFT_STRUCTURAL_OPS(X)    \
  WEFT_RANDOM_OPS(X)        \
  WEFT_EMBEDDING_OPS(X)     \
  WEFT_NORM_OPS(X)          \
  WEFT_ATTENTION_OPS(X)     \
  WEFT_LOSS_OPS(X)          \
  WEFT_OPTIMIZER_OPS(X)     \
  WEFT_FUSED_OPS(X)         \
  WEFT_COLLECTIVE_OPS(X)
// clang-format on
