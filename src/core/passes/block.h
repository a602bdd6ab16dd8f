// Blocks: the repeated modules of a model, by which passes group the nodes of a program.
#pragma once
#include <string_view>

#include "weft/core/ir/node.h"

namespace weft {

// Whether the part of a module's path between two dots is the number of a repeated module: "3" of "blocks.3.mlp".
bool IsBlockNumber(std::string_view part);

// Returns "blocks.3" for a node of "blocks.3.mlp.down", and "embed" for one of "embed": the repeated module, or else
// the outermost one. "" outside modules. A node of the optimizer belongs to the block whose parameter it updates:
// "head" if it is of "optimizer.head.weight".
std::string_view BlockOf(const Node& node);
// Whether the node is in a repeated module.
bool IsInRepeatedBlock(const Node& node);

}  // namespace weft
