// Weft as a library: the header for programs that train on many devices.
//
//   Context context = Context::FromEnvironment(argc, argv);
//   DeviceMesh mesh(context, {{"dp", -1}});
//   State state = Init(model, AdamW(3e-4), mesh);
//   auto step = Compile([&](Var tokens, Var targets) { ... }, state);
#pragma once
#include "weft/core/base/device.h"
#include "weft/core/base/tensor.h"
#include "weft/core/ops/ops.h"
#include "weft/core/runtime/context.h"
#include "weft/core/transforms/grad.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/dtensor/axis_collectives.h"
#include "weft/parallel/dtensor/dtensor.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/dtensor/move.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/nn/layers/transformer.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"
