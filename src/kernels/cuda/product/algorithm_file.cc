#include "weft/kernels/cuda/product/algorithm_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <sstream>
#include <utility>

namespace weft::cuda {
namespace {

// Returns the numbers of a text that they fill exactly, such as "4 0 1".
template <class Numbers>
std::optional<Numbers> Parsed(const std::string& text, std::ios_base& (*base)(std::ios_base&)) {
  Numbers numbers{};
  std::istringstream in(text);
  in >> base;
  for (auto& number : numbers) in >> number;
  return in && in.eof() ? std::optional(numbers) : std::nullopt;
}

}  // namespace

AlgorithmFile::AlgorithmFile(std::string path, const std::string& title)
    : file_(std::move(path), "algorithms 3: " + title) {}

AlgorithmMap AlgorithmFile::Read() const {
  AlgorithmMap map;
  for (const auto& [fields, words] : file_.Read().entries) {
    auto key = Parsed<ProductKey>(fields, std::dec);
    auto algorithm = Parsed<AlgorithmWords>(words, std::hex);
    if (key && algorithm) map.insert_or_assign(*key, *algorithm);
  }
  return map;
}

void AlgorithmFile::Add(const ProductKey& key, const AlgorithmWords& words) const {
  file_.Add({{fmt::format("{}", fmt::join(key, " ")), fmt::format("{:x}", fmt::join(words, " "))}});
}

std::string AlgorithmPath(std::string_view version, std::string_view device) {
  return CachePath(fmt::format("cublaslt-{}-{}", version, device));
}

}  // namespace weft::cuda
