// Finds the valid word nearest to a misspelt one, and shortens lists of names for messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Returns the number of insertions, deletions, substitutions and swaps of adjacent letters that turn one word into the
// other. Ignores case.
int EditDistance(std::string_view a, std::string_view b);

// Returns the nearest choice, or "" if none is close enough to be a misspelling.
std::string Nearest(std::string_view word, const std::vector<std::string>& choices);

// Returns "; did you mean "cuda"?", or "" if no choice is close. Knows what other tools call some of the choices.
std::string DidYouMean(const std::string& text, const std::vector<std::string>& choices);

// Returns "expected one of cpu, cuda, got "cude"; did you mean "cuda"?".
std::string ExpectedOneOf(const std::vector<std::string>& choices, std::string_view got);

// Returns "lr" of "optimizer.lr".
std::string_view LastPart(std::string_view key);

// Returns the nearest key, or "". Prefers a key with the same last part in another section (`optimizer.lr` for `lr`),
// then a similar key, first of the same section.
std::string NearestKey(std::string_view key, const std::vector<std::string>& keys);

// Returns "a, b, c, d and 3 more", with the first `most` names.
std::string FirstFew(const std::vector<std::string>& names, size_t most = 4);

}  // namespace weft
