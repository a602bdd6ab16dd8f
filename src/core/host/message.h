// Messages: what Weft prints for people.
//
//   PrintStderr("weft: {}: cannot be removed\n", path);
//
// Names of files, keys and values come from outside, and a terminal obeys the escape sequences in them. So every
// message goes through Printable.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

// Returns `text` with unprintable bytes as \xNN: control characters other than \n and \t, the characters that turn the
// direction of text, and bytes that are not UTF-8.
std::string Printable(std::string_view text);

// Writes Printable(text) at once. Does not throw: a message that cannot be written is lost.
void PrintMessage(std::FILE* out, std::string_view text);

template <class... T>
void PrintStderr(fmt::format_string<T...> format, T&&... values) {
  PrintMessage(stderr, fmt::format(format, std::forward<T>(values)...));
}
// CheckPrinted (train/log/standard_output.h) reports output that was lost.
template <class... T>
void PrintStdout(fmt::format_string<T...> format, T&&... values) {
  PrintMessage(stdout, fmt::format(format, std::forward<T>(values)...));
}

}  // namespace weft
