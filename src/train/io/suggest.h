// The nearest of some valid words to a misspelt one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other; case is ignored.
int EditDistance(std::string_view a, std::string_view b);

// The nearest choice, or "" when none is near enough to be what was meant.
std::string Nearest(std::string_view word, const std::vector<std::string>& choices);

// The nearest key: the same word of another section (`lr` for `optimizer.lr`), else near words, first of the same
// section.
std::string NearestKey(std::string_view key, const std::vector<std::string>& keys);

}  // namespace weft
