// DocumentReader: reads the documents of text files, in blocks. A plain file is one document. A JSONL file (.jsonl or
// .ndjson, optionally followed by .gz or .zst) has one document per record, in a field of the JSON object on each line.
// Files may be larger than memory; a record may have at most kMostRecord bytes.
//
//   DocumentReader reader({"book.txt", "pages.jsonl.zst"}, "text");
//   for (;;) {
//     absl::StatusOr<TextBlock> block = reader.Next();
//     if (!block.ok() || block->text.empty()) break;
//   }
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/skip_count.h"
#include "weft/train/io/text_reader.h"

namespace weft {

struct TextBlock {
  std::string_view text;  // whole code points; empty after the last document
  bool begins = false;    // whether it is the first block of a document
};

// Two fields of a record, "source -> target", are one document: their texts with kPairSeparator between them.
inline constexpr std::string_view kPairOfFields = " -> ";
inline constexpr char kPairSeparator = '\0';  // in no text of a record

class DocumentReader {
 public:
  static constexpr size_t kMostRecord = size_t{64} << 20;

  DocumentReader(std::vector<std::string> files, std::string field, size_t block = TextReader::kBlock)
      : files_(std::move(files)), field_(std::move(field)), block_(block) {}

  // Returns the next block, valid until the next call. Errors name the file and the offset or the line.
  absl::StatusOr<TextBlock> Next();
  // The parts dropped so far: byte order marks, blank lines, and records with an empty text.
  const SkipCount& skipped() const { return skipped_; }
  // Returns the bytes of the open file consumed so far, or 0 if no file is open.
  int64_t taken() const { return text_ ? text_->taken() : 0; }

 private:
  void OpenNext();
  absl::StatusOr<TextBlock> NextRecord();
  absl::StatusOr<bool> NextLine();
  absl::StatusOr<std::string> TextOfLine() const;
  absl::StatusOr<std::string> TextOf(nlohmann::json& record, const std::string& field) const;
  std::string Place() const;

  std::vector<std::string> files_;
  std::string field_;
  size_t block_;
  size_t next_ = 0;                 // index into files_ of the next file
  std::optional<TextReader> text_;  // reads files_[next_ - 1]
  bool records_ = false;            // whether the open file is JSONL;
  std::string buffer_;              // then the bytes of it that were read,
  size_t at_ = 0;                   // and how many of them were consumed
  bool ended_ = false;
  std::string_view line_;
  int64_t number_ = 0;  // of the line; counts from 1
  std::string record_;
  SkipCount skipped_;
};

// Whether a path has the name of a JSONL file.
bool IsJsonLines(const std::string& path);

}  // namespace weft
