#include "weft/train/io/path_advice.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "weft/core/host/suggest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> NamesIn(const fs::path& folder) {
  constexpr size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMost; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());  // so that ties always give the same name
  return names;
}

}  // namespace

std::string PathAdvice(const std::string& path) {
  fs::path there;
  std::error_code error;
  for (const fs::path& part : fs::path(path)) {
    if (part.empty() || fs::exists(there / part, error)) {
      there /= part;
      continue;
    }
    fs::path folder = there.empty() ? fs::current_path(error) : there;
    if (!fs::is_directory(folder, error)) return fmt::format("; {} is no folder", folder.string());
    std::string nearest = Nearest(part.string(), NamesIn(folder));
    if (!nearest.empty()) return fmt::format("; did you mean {}?", (there / nearest).string());
    return fmt::format("; there is no {} in {}", part.string(), folder.string());
  }
  return "";
}

std::string ShellWord(const std::string& word) {
  auto plain = [](unsigned char ch) { return std::isalnum(ch) || ch >= 0x80 || std::strchr("_./-+=:,@%", ch); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (char ch : word) quoted += ch == '\'' ? "'\\''" : std::string(1, ch);
  return quoted + "'";
}

}  // namespace weft
