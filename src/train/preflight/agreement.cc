#include "weft/train/preflight/agreement.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "weft/core/base/hash.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"

namespace weft {
namespace {

// Returns one line per key, including unset ones, so that the lines of two ranks correspond.
std::string SharedKeys(const Config& config) {
  std::string lines;
  for (const Field& field : Schema())
    if (!field.per_rank) lines += fmt::format("{}: {}\n", field.key, PrintValue(field, config));
  return lines;
}

uint64_t HashOf(std::string_view text) {
  StableHash hash;
  hash.Mix(text);
  return hash.value();
}

// Returns the hash of the texts of all token ids, in order. For token shards without a tokenizer, returns the
// vocabulary size.
uint64_t HashOfKinds(const Dataset& data) {
  if (!data.tokenizer()) return uint64_t(data.vocab());
  std::vector<int32_t> kinds(size_t(data.tokenizer_vocab()));
  std::iota(kinds.begin(), kinds.end(), 0);
  return HashOf(data.tokenizer()->Decode(kinds));
}

struct Facts {
  uint64_t config, kinds, train, val, shares;
  int64_t vocab, train_tokens, val_tokens;
};

Facts FactsOf(const Config& config, const Dataset& data) {
  return {HashOf(SharedKeys(config)), HashOfKinds(data), Summarize(data.train()).hash, Summarize(data.val()).hash,
          data.source_hash(),         data.vocab(),      data.train().size(),          data.val().size()};
}

Facts Unpack(const std::string& bytes) {
  Facts facts{};
  std::memcpy(&facts, bytes.data(), std::min(bytes.size(), sizeof facts));
  return facts;
}

// Returns, for example, "train.seed is 2 there and 1 on rank 0".
std::string FirstDifference(const std::string& theirs, const std::string& first) {
  std::vector<std::string> a = absl::StrSplit(theirs, '\n'), b = absl::StrSplit(first, '\n');
  if (a.size() != b.size()) return "its version of weft knows other keys";
  size_t i = size_t(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  if (i == a.size()) return "";
  std::vector<std::string> key = absl::StrSplit(a[i], absl::MaxSplits(": ", 1)),
                           other = absl::StrSplit(b[i], absl::MaxSplits(": ", 1));
  auto shown = [](const std::string& value) { return value.empty() ? "unset" : value; };
  return fmt::format("{} is {} there and {} on rank 0", key[0], shown(key.back()), shown(other.back()));
}

// Returns why the data of a rank with `theirs` differs from `first`, or "". Compares the vocabulary before the config,
// because model.vocab may follow from it.
std::string DataFault(const Facts& theirs, const Facts& first) {
  if (theirs.kinds != first.kinds)
    return fmt::format(
        "another vocabulary ({} kinds of token against {}): data.tokenizer, or the data of data.train or data.val, "
        "is not the same there",
        theirs.vocab, first.vocab);
  if (theirs.config != first.config) return "";  // the data may depend on the config
  auto tokens = [](const char* what, const char* key, int64_t count, int64_t of_first) {
    return fmt::format(
        "other {} ({} tokens against {}): the data of {} is not the same there; compare the files with sha256sum", what,
        count, of_first, key);
  };
  if (theirs.train != first.train)
    return tokens("training tokens", "data.train", theirs.train_tokens, first.train_tokens);
  if (theirs.shares != first.shares)
    return "other sources in data.train: their sizes or weights are not the same there";
  if (theirs.val != first.val) return tokens("validation tokens", "data.val", theirs.val_tokens, first.val_tokens);
  return "";
}

absl::Status Differs(size_t rank, const std::string& host, const std::string& in) {
  return absl::InvalidArgumentError(
      fmt::format("weft: rank {} (host {}) has {}; start all ranks with the same config and data", rank, host, in));
}

}  // namespace

absl::Status CheckSameRun(const Config& config, const Dataset& data, const Ranks& ranks) {
  Facts mine = FactsOf(config, data);
  std::vector<std::string> all = ranks.gather({reinterpret_cast<const char*>(&mine), sizeof mine});
  auto odd = std::find_if(all.begin(), all.end(), [&](const std::string& facts) { return facts != all[0]; });
  if (odd == all.end()) return absl::OkStatus();
  auto r = size_t(odd - all.begin());
  std::vector<std::string> hosts = ranks.gather(ranks.host), keys = ranks.gather(SharedKeys(config));
  std::string fault = DataFault(Unpack(all[r]), Unpack(all[0]));
  if (fault.empty()) fault = fmt::format("another config: {}", FirstDifference(keys[r], keys[0]));
  return Differs(r, hosts[r], fault);
}

absl::Status CheckSameConfig(const Config& config, const std::string& lines, const Ranks& ranks) {
  std::vector<std::string> all = ranks.gather(SharedKeys(config) + lines);
  auto odd = std::find_if(all.begin(), all.end(), [&](const std::string& keys) { return keys != all[0]; });
  if (odd == all.end()) return absl::OkStatus();
  auto r = size_t(odd - all.begin());
  return Differs(r, ranks.gather(ranks.host)[r], fmt::format("another config: {}", FirstDifference(*odd, all[0])));
}

}  // namespace weft
