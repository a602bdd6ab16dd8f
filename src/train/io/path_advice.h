// Help for paths in messages: a hint for a path that does not exist, and shell quoting.
#pragma once
#include <string>

namespace weft {

// Returns a hint about the first part of `path` that does not exist. If that folder holds a similar name, the hint is
// "; did you mean data/input.txt?", otherwise "; there is no inptu.txt in data". Returns "" if the whole path exists.
std::string PathAdvice(const std::string& path);

// Quotes a word for a shell if it needs quotes, for lines that users paste.
std::string ShellWord(const std::string& word);

}  // namespace weft
