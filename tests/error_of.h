// The text of the error that a piece of code ends with.
#pragma once
#include <exception>
#include <functional>
#include <string>

namespace weft::test {

// "" when fn ends without one.
inline std::string ErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace weft::test
