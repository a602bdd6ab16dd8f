#include "launcher/command.h"

#include <algorithm>

namespace weft {

ConfigWords SplitWords(const Words& words) {
  ConfigWords split;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos)
      split.overrides.push_back(word);
    else if (split.path.empty())
      split.path = word;
    else
      return {};
  }
  return split;
}

bool AsksForHelp(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "--help" || w == "-h"; });
}

}  // namespace weft
