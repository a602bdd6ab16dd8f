// All op builders: what layers, losses and optimizers are written with.
#pragma once
#include "weft/core/graph/builder.h"
#include "weft/core/graph/node.h"
#include "weft/core/ops/families.h"
#include "weft/core/ops/math.h"
