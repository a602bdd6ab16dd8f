// The op families, joined once. A new family adds its header and its list here; a new op only a row in its family.
#pragma once
#include "core/ops/attention.h"
#include "core/ops/collective.h"
#include "core/ops/einsum.h"
#include "core/ops/embedding.h"
#include "core/ops/fused.h"
#include "core/ops/leaf.h"
#include "core/ops/loss.h"
#include "core/ops/norm.h"
#include "core/ops/optimizer_ops.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/structural.h"

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
