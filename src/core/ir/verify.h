// Checks of a program between the passes that rewrite it. Verify itself is in graph.h.
#pragma once
#include "weft/core/base/mesh_shape.h"
#include "weft/core/ir/graph.h"

namespace weft {

// Whether each pass verifies the program that it returns. True in debug and sanitized builds, and if the environment
// has WEFT_VERIFY=1, which all tests set.
bool VerifiesPasses();

// Verifies the program of one rank. It checks what Verify checks, and that each value has the chunk shape that its
// placement gives it on `mesh`. Throws Error.
void VerifyLocal(const Graph& graph, const MeshShape& mesh);

}  // namespace weft
