#include "weft/train/data/document_reader.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

// Formats the keys of a record for an error: "\"id\", \"body\"". Shows at most kMost keys.
std::string KeysText(const nlohmann::json& record) {
  constexpr int kMost = 8;
  std::string text;
  int count = 0;
  for (const auto& [key, value] : record.items()) {
    if (count++ == kMost) return text + ", ...";
    text += (text.empty() ? "" : ", ") + Shown(key);
  }
  return text.empty() ? "no keys" : "the keys " + text;
}

}  // namespace

bool IsJsonLines(const std::string& path) {
  std::string name = absl::AsciiStrToLower(path);
  for (const char* packing : {".gz", ".zst", ".zstd"})
    if (name.ends_with(packing)) {
      name.resize(name.rfind('.'));
      break;
    }
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

absl::StatusOr<TextBlock> DocumentReader::Next() {
  while (true) {
    if (!text_ && next_ == files_.size()) return TextBlock();
    if (!text_) OpenNext();
    absl::StatusOr<TextBlock> block;
    if (records_) {
      block = NextRecord();
    } else if (absl::StatusOr<std::string_view> text = text_->Next(); text.ok()) {
      block = TextBlock{*text, text_->begins_file()};
    } else {
      block = text.status();
    }
    if (!block.ok() || !block->text.empty()) return block;
    if (text_->dropped_mark()) skipped_.Add("byte order marks", files_[next_ - 1]);
    text_.reset();
  }
}

void DocumentReader::OpenNext() {
  const std::string& path = files_[next_++];
  text_.emplace(std::vector<std::string>{path}, block_);
  records_ = IsJsonLines(path);
  buffer_.clear();
  at_ = 0;
  number_ = 0;
  ended_ = false;
}

absl::StatusOr<TextBlock> DocumentReader::NextRecord() {
  while (true) {
    absl::StatusOr<bool> found = NextLine();
    if (!found.ok()) return found.status();
    if (!*found) return TextBlock();
    if (line_.find_first_not_of(" \t\r") == line_.npos) {
      skipped_.Add("blank lines", Place());
      continue;
    }
    absl::StatusOr<std::string> text = TextOfLine();
    if (!text.ok()) return text.status();
    record_ = *std::move(text);
    if (!record_.empty()) return TextBlock{record_, true};
    skipped_.Add("records with an empty text", Place());
  }
}

// Returns false after the last line.
absl::StatusOr<bool> DocumentReader::NextLine() {
  number_++;
  size_t end, from = at_;
  while ((end = buffer_.find('\n', from)) == buffer_.npos && !ended_) {
    buffer_.erase(0, at_);
    at_ = 0;
    from = buffer_.size();
    if (buffer_.size() > kMostRecord)
      return BadInput(Place(),
                      fmt::format("expected a JSON object of at most {} bytes on a line, got a longer line; divide "
                                  "the record",
                                  kMostRecord));
    absl::StatusOr<std::string_view> block = text_->Next();
    if (!block.ok()) return block.status();
    ended_ = block->empty();
    buffer_ += *block;
  }
  if (end == buffer_.npos && at_ == buffer_.size()) return false;
  end = std::min(end, buffer_.size());
  line_ = std::string_view(buffer_).substr(at_, end - at_);
  at_ = std::min(end + 1, buffer_.size());
  return true;
}

absl::StatusOr<std::string> DocumentReader::TextOfLine() const {
  absl::StatusOr<nlohmann::json> record = ParseJsonObject(std::as_bytes(std::span(line_)), Place());
  if (!record.ok()) return absl::InvalidArgumentError(std::string(record.status().message()));
  size_t pair = field_.find(kPairOfFields);
  if (pair == field_.npos) return TextOf(*record, field_);
  absl::StatusOr<std::string> first = TextOf(*record, field_.substr(0, pair)),
                              second = TextOf(*record, field_.substr(pair + kPairOfFields.size()));
  for (const auto* text : {&first, &second})
    if (!text->ok()) return text->status();
  return *first + kPairSeparator + *second;
}

absl::StatusOr<std::string> DocumentReader::TextOf(nlohmann::json& record, const std::string& field) const {
  auto found = record.find(field);
  if (found == record.end())
    return BadInput(Place(),
                    fmt::format("expected a record with the field {}, got one with {}; name the field that holds the "
                                "text: data.field=NAME, or field=NAME for weft prepare",
                                Shown(field), KeysText(record)));
  if (!found->is_string())
    return BadInput(Place(),
                    fmt::format("expected a text in the field {}, got {}; remove the record, or name another field",
                                Shown(field), Shown(*found)));
  auto& text = found->get_ref<std::string&>();
  if (text.find('\0') != text.npos)
    return BadInput(
        Place(),
        fmt::format("expected a text in the field {}, got one with the character U+0000; remove it", Shown(field)));
  return std::move(text);
}

std::string DocumentReader::Place() const { return fmt::format("{}:{}", files_[next_ - 1], number_); }

}  // namespace weft
