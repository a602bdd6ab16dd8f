// Pages: the text of each page of docs/reference, from the tables of the program. A page that lists what the sources
// contain throws std::runtime_error if its own table and the sources differ.
#pragma once
#include <string>
#include <vector>

namespace weft::reference {

// The folder of the sources, and the built program.
struct Places {
  std::string root, program;
};

struct Page {
  const char* file;  // in docs/reference
  std::string (*text)(const Places& places);
};

std::string KeysPage(const Places& places);         // from the schema of the config
std::string CommandsPage(const Places& places);     // from what the program prints
std::string EventsPage(const Places& places);       // from records of every kind
std::string VariablesPage(const Places& places);    // from the sources and the build files
std::string OpsPage(const Places& places);          // from the op records
std::string CollectivesPage(const Places& places);  // from the rows of collectives

inline constexpr Page kPages[] = {
    {"keys.md", KeysPage},         {"commands.md", CommandsPage},
    {"log-events.md", EventsPage}, {"environment.md", VariablesPage},
    {"ops.md", OpsPage},           {"collectives.md", CollectivesPage},
};

// Returns the heading and the first lines of a page.
std::string Heading(const std::string& title, const std::string& what);
// Returns the lines of a table. Each row has as many cells as the head.
std::string Table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);
std::string Code(const std::string& text);  // `text`, as a cell may contain it
// Throws std::runtime_error with both differences unless the two sorted lists are equal.
void ExpectSame(const std::string& what, std::vector<std::string> table, std::vector<std::string> sources);

}  // namespace weft::reference
