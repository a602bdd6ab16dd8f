#include <fmt/format.h>

#include "reference/pages.h"
#include "weft/core/ir/collective_row.h"
#include "weft/dist/group/collective.h"

namespace weft::reference {
namespace {

const char* Text(Handed handed) {
  switch (handed) {
    case Handed::kCount:
      return "`count` elements";
    case Handed::kCountPerRank:
      return "`count` elements for each rank";
    case Handed::kSendCounts:
      return "`send_counts` elements for each rank";
    case Handed::kNothing:
      return "none";
  }
  return "";
}

std::string YesNo(bool value) { return value ? "yes" : "no"; }
std::string NameOr(AttrName<int64_t> name, const char* otherwise) {
  return name ? Code(std::string(name.text)) : otherwise;
}

}  // namespace

std::string CollectivesPage(const Places&) {
  std::string text = Heading("Collectives",
                             "[Cost of collectives](../guide/ranks-and-hosts.md#cost-of-collectives) has "
                             "their steps and bytes.");
  std::vector<std::vector<std::string>> groups, graph;
  for (const CollectiveTraits& c : kCollectiveTraits)
    groups.push_back({Code(c.name), Text(c.handed), YesNo(c.reduces), YesNo(c.has_peer), YesNo(c.own_counts)});
  const auto add = [&](Op op) {
    const CollectiveRow& row = *FindCollectiveRow(op);
    graph.push_back({Code(Name(op)), fmt::format("{}", row.cost), YesNo(row.reduces), NameOr(row.joins, "none"),
                     NameOr(row.cuts, "none")});
  };
  for (int i = 0; i < kNumOps; i++)
    if (FindCollectiveRow(Op(i))) add(Op(i));
  text +=
      "\n## Between the ranks of a group\n\nThese are the calls that groups run, record and report "
      "(`src/dist/group/process_group.h`).\n"
      "`weft bench collective` measures them.\n\n" +
      Table({"collective", "a rank's input", "reduces", "has a root or peer", "counts may differ per rank"}, groups);
  return text +
         "\n## In a program\n\nThe partition of a program inserts these ops (`src/core/ops/collective.cc`), and "
         "`weft plan` lists them.\n"
         "The cost is in bytes on the wire, relative to an all-gather; 0 is a local move.\n\n" +
         Table({"op", "cost", "reduces", "joins chunks of", "cuts into chunks"}, graph);
}

}  // namespace weft::reference
