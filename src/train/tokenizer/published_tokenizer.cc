#include "weft/train/tokenizer/published_tokenizer.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/io/text_reader.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char *kJson = "tokenizer.json", *kModel = "tokenizer.model";

std::string In(const std::string& folder, const char* name) { return (fs::path(folder) / name).string(); }

bool IsThere(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Detects the kind of a file from its beginning: a JSON object, a line of base64 and a rank, or the first piece of a
// sentencepiece model.
std::optional<TokenizerKind> KindOf(std::string_view table) {
  constexpr char kFirstField = '\n';  // the tag of a protobuf's first field, which has a length
  size_t first = table.find_first_not_of(" \t\r\n");
  if (first != table.npos && table[first] == '{') return TokenizerKind::kHuggingFace;
  if (table.starts_with(kFirstField)) return TokenizerKind::kSentencePiece;
  std::string_view line = table.substr(0, table.find('\n'));
  size_t space = std::min(line.find(' '), line.size());
  std::string bytes;
  bool ranked = space + 1 < line.size() && absl::ascii_isdigit(uint8_t(line[space + 1])) &&
                absl::Base64Unescape(absl::string_view(line.data(), space), &bytes);
  return ranked ? std::optional(TokenizerKind::kTiktoken) : std::nullopt;
}

absl::StatusOr<TokenizerFiles> ReadFiles(const std::string& path, bool published) {
  absl::StatusOr<std::string> table = ReadFile(path);
  if (!table.ok()) return absl::InvalidArgumentError(std::string(table.status().message()) + PathAdvice(path));
  TokenizerFiles files{*std::move(table)};
  std::string beside = (fs::path(path).parent_path() / kTokenizerSettings).string();
  if (!published || !IsThere(beside)) return files;
  absl::StatusOr<std::string> settings = ReadFile(beside);
  if (!settings.ok()) return settings.status();
  files.settings = *std::move(settings);
  return files;
}

bool IsPublished(TokenizerKind kind) { return kind != TokenizerKind::kBytes && kind != TokenizerKind::kChars; }

// Returns Unimplemented if the file is valid but of a kind that Weft does not support.
absl::StatusOr<Tokenizer> OpenFile(TokenizerKind kind, const std::string& path) {
  absl::StatusOr<TokenizerFiles> files = ReadFiles(path, IsPublished(kind));
  if (!files.ok()) return files.status();
  std::optional<TokenizerKind> found = IsPublished(kind) ? KindOf(files->table) : std::nullopt;
  auto bad = [&](const std::string& what) { return BadInput(path, what); };
  if (kind == TokenizerKind::kHuggingFace) {
    bool pointer = files->table.starts_with("version https://git-lfs");
    const char* got = pointer ? "a pointer of Git LFS to one; fetch it with git lfs pull" : "another file";
    if (!found) return bad(fmt::format("expected a {} or a {}, got {}", kJson, kModel, got));
    kind = *found;
  }
  auto word = [](TokenizerKind k) { return kTokenizers[size_t(k)].word; };
  if (found && *found != kind)
    return bad(
        fmt::format("expected a file of {}, got one of {}; give {}:{}", word(kind), word(*found), word(*found), path));
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromFiles(kind, *std::move(files));
  if (tokenizer.ok()) return tokenizer;
  const absl::Status& status = tokenizer.status();
  return absl::Status(status.code(), fmt::format("{}: {}", path, std::string(status.message())));
}

// Refuses a tokenizer.json that adds tokens which the model file lacks. Otherwise they would be lost silently.
absl::Status CheckAdds(const std::string& json_path, int64_t vocab) {
  absl::StatusOr<nlohmann::json> json = ReadJsonObject(json_path);
  if (!json.ok()) return json.status();
  auto added = json->find("added_tokens");
  if (added == json->end() || !added->is_array()) return absl::OkStatus();
  for (const nlohmann::json& token : *added) {
    if (!token.is_object() || !token.contains("id") || !token["id"].is_number_integer()) continue;
    if (int64_t id = token["id"].get<int64_t>(); id >= vocab)
      return absl::InvalidArgumentError(fmt::format(
          "{}: adds {} with id {}, which {} in its folder, of {} ids, does not have; Weft reads the latter only: use a "
          "tokenizer.json of byte-level BPE, or remove the token from both and from the weights",
          json_path, Shown(token.value("content", nlohmann::json())), id, kModel, vocab));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tokenizer> OpenFolder(const std::string& folder) {
  std::string json = In(folder, kJson), model = In(folder, kModel);
  if (!IsThere(json) && !IsThere(model))
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a folder with {} or {}, got one without", folder, kJson, kModel));
  if (!IsThere(json)) return OpenFile(TokenizerKind::kHuggingFace, model);
  absl::StatusOr<Tokenizer> tokenizer = OpenFile(TokenizerKind::kHuggingFace, json);
  if (!absl::IsUnimplemented(tokenizer.status()) || !IsThere(model)) return tokenizer;
  // Llama 2's tokenizer.json is another kind of BPE; its tokenizer.model holds the same tokenizer.
  absl::StatusOr<Tokenizer> second = OpenFile(TokenizerKind::kHuggingFace, model);
  if (second.ok()) {
    if (absl::Status s = CheckAdds(json, second->vocab()); !s.ok()) return s;
    return second;
  }
  return absl::InvalidArgumentError(
      fmt::format("{}\n{}", std::string(tokenizer.status().message()), std::string(second.status().message())));
}

}  // namespace

absl::StatusOr<Tokenizer> OpenTokenizer(TokenizerKind kind, const std::string& path) {
  std::error_code error;
  bool folder = kind == TokenizerKind::kHuggingFace && fs::is_directory(path, error);
  absl::StatusOr<Tokenizer> tokenizer = folder ? OpenFolder(path) : OpenFile(kind, path);
  if (tokenizer.ok()) return tokenizer;
  return absl::InvalidArgumentError(std::string(tokenizer.status().message()));
}

std::optional<std::string> FolderWithTokenizer(const std::string& init) {
  std::error_code error;
  fs::path path = init, folder = fs::is_directory(path, error) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  std::string name = folder.string();
  if (!IsThere(In(name, kJson)) && !IsThere(In(name, kModel))) return std::nullopt;
  return name;
}

}  // namespace weft
