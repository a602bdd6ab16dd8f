// Sources: what files of the tree contain, by regular expressions.
#pragma once
#include <string>
#include <vector>

namespace weft::reference {

// Returns the files below root/FOLDER for each folder, or root/FOLDER itself if it is a file, that have one of these
// suffixes.
std::vector<std::string> Files(const std::string& root, const std::vector<std::string>& folders,
                               const std::vector<std::string>& suffixes);
std::string ReadAll(const std::string& path);
// Returns the first group of every match, in the order of the files.
std::vector<std::string> Found(const std::vector<std::string>& files, const std::string& pattern);

}  // namespace weft::reference
