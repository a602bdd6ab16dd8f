// Errors about a key that is not in the schema.
#pragma once
#include <string>

namespace weft {

// Whether `key` is the name of a section, such as "mesh" in "mesh.dp".
bool IsSection(const std::string& key);

// Returns "unknown key; did you mean optimizer.lr?", or, if no key is close, a list of the keys of the section. For a
// kind of parallelism that is not built, returns that, and the keys of those that are.
std::string UnknownKey(const std::string& key);

}  // namespace weft
