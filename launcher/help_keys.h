// weft help keys: prints the keys of a config from its schema.
#pragma once
#include "launcher/command.h"

namespace weft {

// Without arguments, prints the names of all keys by section. With a section, or a key in it, prints the meaning, the
// type and the default of each key of that section. Returns the exit code.
int HelpKeys(const Words& words);
// Whether the word is a key or a section of keys.
bool NamesKeys(const std::string& word);

}  // namespace weft
