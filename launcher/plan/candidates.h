// Candidates: the meshes and options that weft plan --search tries for a config.
#pragma once
#include <string>
#include <vector>

#include "launcher/command.h"
#include "weft/train/config/config.h"

namespace weft {

// A config of the search, as words for the command line: "mesh.dp=2", "parallel.fsdp=full".
struct Candidate {
  Words keys;  // those of the mesh first
};

// Returns the combinations of mesh, parallel.fsdp, parallel.sequence_parallel and parallel.overlap for `devices` ranks
// that differ from each other in what a step does. They may be illegal for the model. `given` are the user's words,
// whose keys are kept. A key that has the value of `config` already is left out, except for those of the mesh.
std::vector<Candidate> Candidates(const Config& config, const Words& given, int64_t devices);

// Returns what saves memory in a candidate whose step does not fit: train.recompute, and micro-batches of half the
// sequences, a quarter and so on, down to 1 of `micro_batch`. The first is the candidate itself.
std::vector<Candidate> Smaller(const Candidate& candidate, const Config& config, const Words& given,
                               int64_t micro_batch);

// Returns all keys to paste, or only those of the mesh, or only the others: "mesh.dp=2 parallel.fsdp=full".
std::string Pasted(const Candidate& candidate);
std::string PastedMesh(const Candidate& candidate);
std::string PastedOptions(const Candidate& candidate);

}  // namespace weft
