// weft plan --search, with fabricated rates: what it finds and leaves out, and what it prints.
#include "launcher/plan/search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "launcher/plan/predicted_models.h"

namespace weft {
namespace {

using nlohmann::json;
using testing_::FakeRates;
using testing_::kModels;
using testing_::Parsed;
using testing_::Predicted;
using testing_::RatesOf;
using testing_::Resolved;

absl::StatusOr<SearchResult> Searched(const char* model, const SearchRequest& request, const RatesFile& rates) {
  Config config = *Parsed(model, request.given);
  return Search(config, request, rates, [&](const Words& words) { return Resolved(model, words); });
}

// The order is that of the predictions, and a candidate's keys give weft plan the same step.
TEST(Search, NamesWhatPlanPredicts) {
  for (const char* device : {"cpu", "cuda"})
    for (const char* model : kModels)
      for (int64_t devices : {1, 3, 4}) {
        FakeRates fake{.device = device, .lost_share = 0.3};
        RatesFile rates = RatesOf(fake);
        SearchRequest request{.given = {fmt::format("device={}", device)}, .devices = devices};
        SearchResult result = Searched(model, request, rates).value();
        ASSERT_GE(result.found.size(), 1);
        EXPECT_GE(result.plans, int64_t(result.found.size()));
        for (size_t i = 0; i < result.found.size(); i++) {
          const Found& found = result.found[i];
          Words words = request.given;
          words.insert(words.end(), found.candidate.keys.begin(), found.candidate.keys.end());
          Config config = *Resolved(model, words);
          EXPECT_EQ(config.mesh.ranks(), devices);
          EXPECT_EQ(config.train.global_batch, 12);
          PlanReport report = Predicted(config, rates);
          EXPECT_EQ(report.time->total, found.time.total) << Pasted(found.candidate);
          EXPECT_EQ(report.memory.Total(), found.bytes) << Pasted(found.candidate);
          if (i > 0) {
            EXPECT_LE(float(result.found[i - 1].time.total), float(found.time.total));
          }
        }
      }
}

// A limit leaves out what needs more, and only that; then smaller micro-batches and recompute are tried.
TEST(Search, KeepsToTheMemory) {
  RatesFile rates = RatesOf({});
  for (const char* model : kModels) {
    SearchRequest request{.devices = 2};
    SearchResult all = Searched(model, request, rates).value();
    auto less = [](const Found& a, const Found& b) { return a.bytes < b.bytes; };
    auto [least, most] = std::minmax_element(all.found.begin(), all.found.end(), less);
    ASSERT_LT(least->bytes, most->bytes);
    constexpr double kGiB = 1 << 30;
    for (double share : {0.0, 0.5, 1.0}) {
      request.memory = (double(least->bytes) + share * double(most->bytes - least->bytes)) / kGiB;
      SearchResult fits = Searched(model, request, rates).value();
      auto limit = request.memory * kGiB;
      for (const Found& f : fits.found) EXPECT_LE(double(f.bytes), limit);
      for (const Found& f : all.found)
        EXPECT_EQ(double(f.bytes) <= limit,
                  std::any_of(fits.found.begin(), fits.found.end(),
                              [&](const Found& g) { return g.time.total == f.time.total && g.bytes == f.bytes; }))
            << Pasted(f.candidate);
      if (share < 1) {
        EXPECT_GT(fits.ReasonsOfAll()[fmt::format("needs more than {} GiB", request.memory)], 0);
      }
    }
    // Less than any mesh needs with whole micro-batches: only a candidate that saves memory fits.
    request.memory = 0.97 * double(least->bytes) / kGiB;
    absl::StatusOr<SearchResult> saved = Searched(model, request, rates);
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    for (const Found& f : saved->found) {
      std::string keys = Pasted(f.candidate);
      EXPECT_TRUE(keys.find("train.recompute=") != keys.npos || keys.find("train.micro_batch=") != keys.npos) << keys;
    }
  }
}

// parallel.fsdp=gradients needs ranks to shard over. On GPUs it also keeps weights in the compute type between steps,
// so there meshes with only tensor parallel ranks try it too.
TEST(Search, TriesFsdpWhereItHasAnEffect) {
  for (const char* device : {"cpu", "cuda"}) {
    Config config = *Parsed(kModels[1], {fmt::format("device={}", device)});
    int alone = 0;
    for (const Candidate& candidate : Candidates(config, {}, 4)) {
      std::string keys = Pasted(candidate);
      bool has_dp = keys.find("mesh.dp=") != keys.npos, has_fsdp = keys.find("parallel.fsdp=") != keys.npos;
      EXPECT_TRUE(has_dp || keys.find("parallel.fsdp=full") == keys.npos) << keys;
      alone += has_fsdp && !has_dp;
    }
    EXPECT_EQ(alone > 0, device == std::string("cuda"));
  }
}

TEST(Search, KeepsTheKeysThatAreGiven) {
  RatesFile rates = RatesOf({});
  for (const char* given : {"mesh.tp=2", "parallel.fsdp=full", "parallel.overlap=never", "mesh.dp=-1"}) {
    SearchResult result = Searched(kModels[1], {.given = {given}, .devices = 4}, rates).value();
    std::string key(given, std::string_view(given).find('=') + 1);
    for (const Found& f : result.found) EXPECT_EQ(Pasted(f.candidate).find(key), std::string::npos) << given;
  }
}

// Each candidate is either found, or counted with a reason.
TEST(Search, CountsWhatItLeavesOut) {
  FakeRates fake;
  fake.ranks = {2};
  RatesFile rates = RatesOf(fake);
  Config config = *Parsed(kModels[1], {});
  SearchResult result = Searched(kModels[1], {.devices = 4}, rates).value();
  int64_t left_out = 0;
  for (const auto& [reason, count] : result.ReasonsOfAll()) left_out += count;
  EXPECT_EQ(size_t(left_out) + result.found.size(), Candidates(config, {}, 4).size());
  EXPECT_GT(result.ReasonsOfAll()[LacksText(rates, absl::NotFoundError("all_reduce among 4 ranks"))], 0);
  json parsed = json::parse(ToJson(result));
  EXPECT_EQ(parsed["candidates"].size(), result.found.size());
  EXPECT_EQ(parsed["candidates"][0]["step_ms"], result.found[0].time.total);
  EXPECT_EQ(parsed["plans"], result.plans);
  absl::Status none = Searched(kModels[1], {.devices = 4, .memory = 1e-6}, rates).status();
  const std::string kNone =
      "--search: expected a mesh of 4 devices on which the step can be planned in 1e-06 GiB, got none:\n  ";
  EXPECT_EQ(std::string(none.message()).substr(0, kNone.size()), kNone);
  FakeRates gpu;
  gpu.device = "cuda";
  EXPECT_FALSE(Searched(kModels[1], {.devices = 4}, RatesOf(gpu)).ok());
}

// Returns the keys of the table's rows with numbers, and of those that are refused.
struct Table {
  Words found, refused;
};
Table TableOf(const std::string& text) {
  Table table;
  std::vector<std::string> lines = absl::StrSplit(text.substr(0, text.find("left out:")), '\n', absl::SkipEmpty());
  for (size_t i = 2; i < lines.size(); i++) {  // the first two are the head
    Words words = absl::StrSplit(lines[i], ' ', absl::SkipEmpty());
    auto end = std::ranges::find(words, "refused:");
    auto keys = words.begin() + (end == words.end() ? 5 : 1);
    (end == words.end() ? table.found : table.refused).push_back(fmt::format("{}", fmt::join(keys, end, " ")));
  }
  return table;
}

// Every mesh has one row: its fastest candidate, or why there is none. With `all` every candidate has a row. The keys
// of a row can be pasted, and rows are in the order of their times.
TEST(Search, PrintsTheFastestOfEachMesh) {
  for (std::vector<int> measured : {std::vector{2, 3, 4, 6}, {2}})
    for (const char* model : kModels)
      for (int64_t devices : {1, 2, 4}) {
        FakeRates fake;
        fake.ranks = measured;
        SearchRequest request{.devices = devices};
        SearchResult result = Searched(model, request, RatesOf(fake)).value();
        Words fastest, all;
        std::set<std::string> meshes, in_table;
        for (const Found& f : result.found) {
          all.push_back(Pasted(f.candidate));
          if (in_table.insert(PastedMesh(f.candidate)).second) fastest.push_back(all.back());
        }
        Table table = TableOf(ToText(result, request, /*all=*/false));
        EXPECT_EQ(table.found, fastest);
        EXPECT_EQ(TableOf(ToText(result, request, /*all=*/true)).found, all);
        for (const Candidate& c : Candidates(*Parsed(model, {}), {}, devices)) meshes.insert(PastedMesh(c));
        for (const std::string& mesh : table.refused) EXPECT_TRUE(in_table.insert(mesh).second) << mesh;
        EXPECT_EQ(in_table, meshes);
        EXPECT_EQ(table.refused.empty(), measured.size() > 1 || devices < 4);
      }
}

}  // namespace
}  // namespace weft
