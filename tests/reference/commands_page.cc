#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "absl/strings/str_split.h"
#include "reference/pages.h"

namespace weft::reference {
namespace {

std::string Printed(const std::string& command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> block;
  while (size_t n = std::fread(block.data(), 1, block.size(), pipe.get())) text.append(block.data(), n);
  if (pclose(pipe.release()) != 0) throw std::runtime_error(command + " failed");
  return text;
}

// Returns the names and lines of commands in the text of `weft help`: two blanks, the name, the line.
std::vector<std::pair<std::string, std::string>> CommandsIn(const std::string& usage) {
  std::vector<std::pair<std::string, std::string>> commands;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(usage, '\n'))) {
    if (!line.starts_with("  ") || line.starts_with("  weft")) continue;
    size_t blank = line.find(' ', 2), begin = line.find_first_not_of(' ', blank);
    if (begin == line.npos) throw std::runtime_error("not a command in weft help: " + line);
    commands.emplace_back(line.substr(2, blank - 2), line.substr(begin));
  }
  return commands;
}

}  // namespace

std::string CommandsPage(const Places& places) {
  std::string usage = Printed(places.program + " help");
  std::string text =
      Heading("Commands",
              "`weft COMMAND` is one program with these commands.\n"
              "Its exit code is 0 for success, 2 for bad usage or a bad config, and 1 for a failure.\n"
              "A command that a signal ends has 128 plus its number, and so has ranks=N if a signal ends a rank.");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, line] : CommandsIn(usage))
    rows.push_back({fmt::format("[`weft {0}`](#weft-{0})", name), line});
  text += "\n" + Table({"command", "what it does"}, rows) + fmt::format("\n```text\n{}```\n", usage);
  for (const auto& [name, line] : CommandsIn(usage))
    text += fmt::format("\n## weft {0}\n\n```text\n{1}```\n", name, Printed(places.program + " help " + name));
  return text +
         fmt::format("\n## weft completions\n\n```text\n{}```\n", Printed(places.program + " completions --help"));
}

}  // namespace weft::reference
