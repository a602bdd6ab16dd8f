#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "absl/strings/str_replace.h"
#include "reference/pages.h"

namespace weft::reference {
namespace {

std::string Line(const std::vector<std::string>& cells) { return fmt::format("| {} |\n", fmt::join(cells, " | ")); }

void Sort(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

std::vector<std::string> Without(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

}  // namespace

std::string Heading(const std::string& title, const std::string& what) {
  return fmt::format(
      "# {}\n\n{}\nThis page is generated: `reference_test` compares it with the program, and "
      "[the index](../README.md#reference) has the command that writes it again.\n",
      title, what);
}

std::string Table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string text = Line(head) + "|";
  for (size_t i = 0; i < head.size(); i++) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : rows) text += Line(row);
  return text;
}

std::string Code(const std::string& text) { return "`" + absl::StrReplaceAll(text, {{"|", "\\|"}}) + "`"; }

void ExpectSame(const std::string& what, std::vector<std::string> table, std::vector<std::string> sources) {
  Sort(table);
  Sort(sources);
  std::vector<std::string> unknown = Without(table, sources), missing = Without(sources, table);
  if (!unknown.empty() || !missing.empty())
    throw std::runtime_error(fmt::format("{}: only in the table: {}; only in the sources: {}", what,
                                         fmt::join(unknown, ", "), fmt::join(missing, ", ")));
}

}  // namespace weft::reference
