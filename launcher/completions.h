// weft completions SHELL: a script that lets bash or zsh complete commands, options, keys of a config and their values.
#pragma once
#include <span>

#include "launcher/command.h"

namespace weft {

int CompletionsCommand(std::span<const Command> commands, const Words& words);

}  // namespace weft
