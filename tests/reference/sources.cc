#include "reference/sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace weft::reference {

namespace fs = std::filesystem;

std::vector<std::string> Files(const std::string& root, const std::vector<std::string>& folders,
                               const std::vector<std::string>& suffixes) {
  std::vector<std::string> files;
  auto add = [&](const fs::path& path) {
    for (const std::string& suffix : suffixes)
      if (path.string().ends_with(suffix)) files.push_back(path.string());
  };
  for (const std::string& folder : folders) {
    fs::path path = fs::path(root) / folder;
    if (!fs::is_directory(path)) add(path);
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) add(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::vector<std::string> Found(const std::vector<std::string>& files, const std::string& pattern) {
  std::regex regex(pattern);
  std::vector<std::string> found;
  for (const std::string& file : files) {
    std::string text = ReadAll(file);
    for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.push_back((*it)[1]);
  }
  return found;
}

}  // namespace weft::reference
