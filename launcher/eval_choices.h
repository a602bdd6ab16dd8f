// The part of weft eval that chooses among endings: choices=FILE.
#pragma once
#include <string>

#include "launcher/rank.h"

namespace weft {

struct ChoiceRequest {
  std::string choices;  // the file of items
  std::string out;      // the file of results; "": none
  bool json = false;
};

// Runs the command on this rank, with the arguments that are not options of weft eval. Returns the exit code.
int EvalChoices(RankJob& mine, const Words& words, const ChoiceRequest& request);

}  // namespace weft
