// ChooseChunks: which nodes Chunk computes in chunks of rows.
#pragma once
#include <optional>
#include <vector>

#include "weft/core/passes/chunk/chunk.h"
#include "weft/core/passes/chunk/chunk_rows.h"

namespace weft {

// Returns, for each node of the program, how it is computed in chunks, or nullopt if it is computed as a whole. A
// reader gets the chunks of its operand if both have the same cut and the same dim of the value as rows.
std::vector<std::optional<InChunks>> ChooseChunks(const LocalProgram& program, const ChunkOptions& options);

}  // namespace weft
