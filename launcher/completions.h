// weft completions SHELL: prints a script with which bash or zsh completes commands, options, config keys and their
// values.
#pragma once
#include <span>

#include "launcher/command.h"

namespace weft {

int CompletionsCommand(std::span<const Command> commands, const Words& words);

}  // namespace weft
