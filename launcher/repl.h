// Repl: a conversation with a model. Each line of stdin is added to the text, and the model continues it.
#pragma once
#include <functional>

#include "absl/status/statusor.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/infer/generate.h"

namespace weft {

struct ReplOutput {
  ShowText show;                         // receives the text of the model
  std::function<absl::Status()> finish;  // called after the text of each line; an error ends the conversation
  bool asks = false;                     // show "> " before each line is read
};

// Reads lines until the end of stdin and returns the number of tokens written. Rank 0 reads; all ranks must call it.
// SIGINT, or SIGUSR1 under mpirun, stops the text in progress. A second one before that text has ended ends the
// process. While a line is awaited, either signal ends the conversation, as the end of stdin does.
absl::StatusOr<int64_t> Converse(TextWriter& writer, const Ranks& ranks, const ReplOutput& output);

}  // namespace weft
