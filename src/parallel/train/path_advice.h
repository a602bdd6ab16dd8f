// What to do about a path that leads to nothing.
#pragma once
#include <string>

namespace weft {

// "; did you mean data/input.txt?" where something beside it is spelt almost so, else "; there is no inptu.txt in
// data", of the first part that is not there. "" where all of it is.
std::string PathAdvice(const std::string& path);

}  // namespace weft
