// What is printed on stdout: output that is lost, for example on a full disk, must not pass for printed.
#pragma once
#include <string_view>

#include "absl/status/status.h"

namespace weft {

// Prints the message (core/host/message.h) and flushes. kUnavailable, with the system's reason, when this or anything
// before it was lost.
absl::Status Print(std::string_view text);
// Like Print, but writes the bytes as they are.
absl::Status PrintBytes(std::string_view bytes);
// kUnavailable when anything that was written to stdout so far was lost.
absl::Status CheckPrinted();

// Opens those of stdin, stdout and stderr that are closed, so that they cannot be read or written and no file of ours
// takes their number: the messages would be written into it. Call at the beginning of main.
void ReserveStandardFiles();

}  // namespace weft
