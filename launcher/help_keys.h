// weft help keys: the keys of a config, from its schema.
#pragma once
#include "launcher/command.h"

namespace weft {

// Prints the sections, or all keys of the section that the words name: what each key takes, its default and its
// meaning.
int HelpKeys(const Words& words);

}  // namespace weft
