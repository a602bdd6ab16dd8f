// ErrorOf: the message of the exception that a piece of code throws.
#pragma once
#include <exception>
#include <functional>
#include <string>

namespace weft::test {

// Returns "" if fn throws nothing.
inline std::string ErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace weft::test
