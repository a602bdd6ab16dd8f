#include "weft/core/passes/block.h"

#include <algorithm>

namespace weft {

bool IsBlockNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

namespace {

std::string_view ScopeOf(const Node& node) {
  std::string_view scope = node.scope ? std::string_view(*node.scope) : std::string_view();
  size_t dot = node.phase == Phase::kOptimizer ? scope.find('.') : std::string_view::npos;
  return dot == std::string_view::npos ? scope : scope.substr(dot + 1);
}

// Returns where the first part that is a number ends, or npos.
size_t EndOfNumber(std::string_view scope) {
  for (size_t at = 0; at < scope.size();) {
    size_t dot = std::min(scope.find('.', at), scope.size());
    std::string_view part = scope.substr(at, dot - at);
    if (IsBlockNumber(part)) return dot;
    at = dot + 1;
  }
  return std::string_view::npos;
}

}  // namespace

std::string_view BlockOf(const Node& node) {
  std::string_view scope = ScopeOf(node);
  size_t end = EndOfNumber(scope);
  return scope.substr(0, end == std::string_view::npos ? scope.find('.') : end);
}

bool IsInRepeatedBlock(const Node& node) { return EndOfNumber(ScopeOf(node)) != std::string_view::npos; }

}  // namespace weft
