// Paths for those who read them: what to do about one that leads to nothing, and how to paste one.
#pragma once
#include <string>

namespace weft {

// "; did you mean data/input.txt?" where something beside it is spelt almost so, else "; there is no inptu.txt in
// data", of the first part that is not there. "" where all of it is.
std::string PathAdvice(const std::string& path);

// A word as a shell takes it, for lines that are made to be pasted: in quotes where it needs them.
std::string ShellWord(const std::string& word);

}  // namespace weft
