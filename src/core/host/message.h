// Messages: text that Weft prints for people.
//
//   PrintStderr("weft: {}: cannot be removed\n", path);
//
// Names of files, keys and values come from outside, and a terminal executes the escape sequences in them. So every
// message is printed through Printable.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

// Returns `text` with unprintable bytes as \xNN. Unprintable are control characters other than \n and \t, characters
// that change the direction of text, and bytes that are not UTF-8.
std::string Printable(std::string_view text);

// Writes Printable(text) in one call. Does not throw: a message that cannot be written is lost.
void PrintMessage(std::FILE* out, std::string_view text);

template <class... T>
void PrintStderr(fmt::format_string<T...> format, T&&... values) {
  PrintMessage(stderr, fmt::format(format, std::forward<T>(values)...));
}
// Output may be lost. CheckPrinted (train/log/standard_output.h) reports that.
template <class... T>
void PrintStdout(fmt::format_string<T...> format, T&&... values) {
  PrintMessage(stdout, fmt::format(format, std::forward<T>(values)...));
}

}  // namespace weft
