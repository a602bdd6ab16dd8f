// What an error says of a key that the schema does not have.
#pragma once
#include <string>

namespace weft {

// "mesh" of "mesh.dp"; whether there are such keys.
bool IsSection(const std::string& key);

// "unknown key; did you mean optimizer.lr?", else with the keys that could stand there.
std::string UnknownKey(const std::string& key);

}  // namespace weft
