// DocumentReader: the documents of text files, in blocks. A file is one document, and a JSONL file (.jsonl or .ndjson,
// also before .gz or .zst) one per record: the text of a field of the JSON object on each line. Files may be larger
// than memory; a record may not have more than kMostRecord bytes.
//
//   DocumentReader reader({"book.txt", "pages.jsonl.zst"}, "text");
//   for (;;) {
//     absl::StatusOr<TextBlock> block = reader.Next();
//     if (!block.ok() || block->text.empty()) break;
//   }
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/skip_count.h"
#include "weft/train/io/text_reader.h"

namespace weft {

struct TextBlock {
  std::string_view text;  // whole code points; empty behind the last document
  bool begins = false;    // it is the first of a document
};

class DocumentReader {
 public:
  static constexpr size_t kMostRecord = size_t{64} << 20;

  DocumentReader(std::vector<std::string> files, std::string field, size_t block = TextReader::kBlock)
      : files_(std::move(files)), field_(std::move(field)), block_(block) {}

  // Good until the next call. Errors name the file and the offset or the line.
  absl::StatusOr<TextBlock> Next();
  // What was dropped so far: byte order marks, blank lines and records with an empty text.
  const SkipCount& skipped() const { return skipped_; }
  // Bytes of the open file that were used so far; 0 where none is open.
  int64_t taken() const { return text_ ? text_->taken() : 0; }

 private:
  void OpenNext();
  absl::StatusOr<TextBlock> NextRecord();
  absl::StatusOr<bool> NextLine();
  absl::StatusOr<std::string> TextOfLine() const;
  std::string Place() const;

  std::vector<std::string> files_;
  std::string field_;
  size_t block_;
  size_t next_ = 0;                 // of files_
  std::optional<TextReader> text_;  // of files_[next_ - 1]
  bool records_ = false;            // it is JSONL,
  std::string buffer_;              //   of which these bytes are read,
  size_t at_ = 0;                   //   up to here
  bool ended_ = false;
  std::string_view line_;
  int64_t number_ = 0;  // of the line, from 1
  std::string record_;
  SkipCount skipped_;
};

// Whether the name is that of JSONL.
bool IsJsonLines(const std::string& path);

}  // namespace weft
