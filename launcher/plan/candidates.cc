#include "launcher/plan/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"

namespace weft {
namespace {

bool Has(const Words& words, std::string_view key) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word.substr(word.starts_with("--") ? 2 : 0).starts_with(std::string(key) + "=");
  });
}

// Adds values of keys to lists of words.
class Chooser {
 public:
  Chooser(const Config& config, const Words& given) : config_(config), given_(given) {}

  // Returns the values to try: those listed, or the config's if the user gave the key.
  Words Values(std::string_view key, Words values) const {
    return Has(given_, key) ? Words{ValueOf(key)} : std::move(values);
  }
  // Adds the word unless the user gave the key or the config has the value.
  void Add(Words& words, std::string_view key, const std::string& value) const {
    if (!Has(given_, key) && ValueOf(key) != value) words.push_back(fmt::format("{}={}", key, value));
  }
  std::string ValueOf(std::string_view key) const {
    Config config = config_;
    return PrintValue(*FindField(std::string(key)), config);
  }
  bool given(std::string_view key) const { return Has(given_, key); }
  const Config& config() const { return config_; }

 private:
  const Config& config_;
  const Words& given_;
};

struct Sizes {
  int64_t replicate, dp, tp;
};

// Returns the ways to arrange the ranks. Copies of shards (mesh.replicate) need shards.
std::vector<Sizes> MeshesOf(int64_t ranks) {
  std::vector<Sizes> meshes;
  for (int64_t tp = 1; tp <= ranks; tp++)
    for (int64_t replicate = 1; ranks % tp == 0 && replicate <= ranks / tp; replicate++) {
      int64_t dp = ranks / tp / replicate;
      bool fits = dp * replicate * tp == ranks;
      if (fits && (replicate == 1 || dp > 1)) meshes.push_back({replicate, dp, tp});
    }
  return meshes;
}

bool Keeps(const Chooser& choose, const Sizes& mesh) {
  auto same = [&](const char* axis, int64_t size) {
    int64_t given = choose.config().mesh[axis];
    return !choose.given(fmt::format("mesh.{}", axis)) || given == MeshConfig::kFill || given == size;
  };
  return same("replicate", mesh.replicate) && same("dp", mesh.dp) && same("tp", mesh.tp);
}

// Returns the words of the mesh. All axes are named, so that the words fit any config.
Words WordsOf(const Chooser& choose, const Sizes& mesh) {
  Words words;
  for (const auto& [axis, size] :
       {std::pair{"mesh.replicate", mesh.replicate}, {"mesh.dp", mesh.dp}, {"mesh.tp", mesh.tp}}) {
    bool needed = size > 1 || choose.ValueOf(axis) != "1";
    if (needed && !choose.given(axis)) words.push_back(fmt::format("{}={}", axis, size));
  }
  return words;
}

// auto is one of the others (OverlapOf).
Words OverlapsOf(const Sizes& mesh, bool on_gpu) {
  if (mesh.dp * mesh.tp * mesh.replicate == 1) return {"auto"};
  Words overlaps{"auto", on_gpu ? "never" : "always", on_gpu && mesh.tp > 1 ? "always" : "fill", "halves"};
  if (mesh.tp > 1) overlaps.emplace_back("chunks");
  return overlaps;
}

void AddOptions(const Chooser& choose, const Sizes& mesh, std::vector<Candidate>& candidates) {
  bool shards = mesh.dp > 1;
  bool on_gpu = choose.config().device == DeviceChoice::kCuda;
  Words fsdp = shards ? Words{"none", "gradients", "full"} : Words{"none"};
  // Without ranks to shard over, gradients keeps weights in the compute type between steps.
  if (!shards && mesh.tp > 1 && on_gpu) fsdp.emplace_back("gradients");
  if (mesh.replicate > 1) fsdp = {"gradients", "full"};
  Words sequence = mesh.tp > 1 ? Words{"false", "true"} : Words{"false"};
  for (const std::string& f : choose.Values("parallel.fsdp", fsdp))
    for (const std::string& s : choose.Values("parallel.sequence_parallel", sequence))
      for (const std::string& o : choose.Values("parallel.overlap", OverlapsOf(mesh, on_gpu))) {
        Candidate candidate{WordsOf(choose, mesh)};
        choose.Add(candidate.keys, "parallel.fsdp", f);
        choose.Add(candidate.keys, "parallel.sequence_parallel", s);
        choose.Add(candidate.keys, "parallel.overlap", o);
        candidates.push_back(std::move(candidate));
      }
}

// Returns the end of the mesh's keys.
Words::const_iterator MeshEnd(const Candidate& candidate) {
  return std::ranges::find_if_not(candidate.keys, [](const std::string& key) { return key.starts_with("mesh."); });
}

}  // namespace

std::vector<Candidate> Candidates(const Config& config, const Words& given, int64_t devices) {
  Chooser choose(config, given);
  std::vector<Candidate> candidates;
  for (const Sizes& mesh : MeshesOf(devices))
    if (Keeps(choose, mesh)) AddOptions(choose, mesh, candidates);
  return candidates;
}

std::vector<Candidate> Smaller(const Candidate& candidate, const Config& config, const Words& given,
                               int64_t micro_batch) {
  Chooser choose(config, given);
  Words micro{""};  // as it is
  for (int64_t size = micro_batch / 2; size >= 1 && !choose.given("train.micro_batch"); size /= 2)
    micro.push_back(fmt::format("{}", size));
  std::vector<Candidate> all;
  for (const std::string& size : micro)
    for (const std::string& mode : choose.Values("train.recompute", {"none", "selective", "full"})) {
      Candidate smaller = candidate;
      choose.Add(smaller.keys, "train.recompute", mode);
      if (!size.empty()) smaller.keys.push_back(fmt::format("train.micro_batch={}", size));
      all.push_back(std::move(smaller));
    }
  return all;
}

std::string Pasted(const Candidate& candidate) { return fmt::format("{}", fmt::join(candidate.keys, " ")); }

std::string PastedMesh(const Candidate& candidate) {
  return fmt::format("{}", fmt::join(candidate.keys.begin(), MeshEnd(candidate), " "));
}

std::string PastedOptions(const Candidate& candidate) {
  return fmt::format("{}", fmt::join(MeshEnd(candidate), candidate.keys.end(), " "));
}

}  // namespace weft
