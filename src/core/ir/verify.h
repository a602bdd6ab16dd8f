// Checks of a program between the passes that rewrite it. Verify itself is in graph.h.
#pragma once
#include "weft/core/base/mesh_shape.h"
#include "weft/core/ir/graph.h"

namespace weft {

// Whether each pass verifies the program that it gives: in debug and sanitized builds, and where the environment has
// WEFT_VERIFY=1, as all tests have.
bool VerifiesPasses();

// Verify for the program of one rank: also that each value is the chunk that its placement gives it on `mesh`.
void VerifyLocal(const Graph& graph, const MeshShape& mesh);

}  // namespace weft
