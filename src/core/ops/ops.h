// All op builders: what layers, losses and optimizers are written with.
#pragma once
#include "core/graph/builder.h"
#include "core/graph/node.h"
#include "core/ops/families.h"
#include "core/ops/math.h"
