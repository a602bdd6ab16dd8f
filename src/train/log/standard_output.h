// Printing on stdout. Lost output, for example on a full disk, is reported as an error.
#pragma once
#include <string_view>

#include "absl/status/status.h"

namespace weft {

// Prints the message (core/host/message.h) and flushes. Returns kUnavailable with the system's reason if this or any
// earlier output was lost.
absl::Status Print(std::string_view text);
// Prints bytes unchanged and flushes. Returns errors as Print does.
absl::Status PrintBytes(std::string_view bytes);
// Returns kUnavailable if any output to stdout so far was lost.
absl::Status CheckPrinted();

// Opens each of stdin, stdout and stderr that is closed, in a way that allows neither reads nor writes. Otherwise a
// file opened later could take its descriptor, and messages would be written into that file. Call it at the start of
// main.
void ReserveStandardFiles();

}  // namespace weft
