// LocalProgram: the program that each rank runs. Partition makes it, and passes rewrite it.
#pragma once
#include <string>
#include <vector>

#include "weft/core/base/mesh_shape.h"
#include "weft/core/ir/graph.h"

namespace weft {

struct LocalProgram {
  Graph graph;  // local nodes; their ValueInfo has global shapes and shardings
  MeshShape mesh;
  std::vector<std::string> inlined;  // ops whose composition was inlined because a dim that they need whole is sharded
};

}  // namespace weft
