// weft::Error and the check macro. Building, rewriting or running a graph throws Error on failure.
//
//   WEFT_CHECK(dim < rank, fmt::format("slice: expected dim below {}, got {}", rank, dim));
//
// I/O, configuration and parsing return absl::Status instead.
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace weft {

using Loc = std::source_location;

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Error. It is not inline, so a check costs its caller only one branch.
[[noreturn]] void Fail(const std::string& message);

// Returns "attention.cc:61": the file's name without its folders, and the line.
std::string ToString(const Loc& loc);

}  // namespace weft

// The message is an expression of type std::string, evaluated only when the check fails.
#define WEFT_CHECK(condition, message) \
  do {                                 \
    if (!(condition)) [[unlikely]]     \
      ::weft::Fail(message);           \
  } while (0)
