#include "weft/train/io/text_reader.h"

#include <algorithm>
#include <span>

#include "fmt/format.h"
#include "weft/core/host/utf8.h"

namespace weft {
namespace {

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, what));
}

}  // namespace

absl::StatusOr<BlockReader> BlockReader::Open(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  return BlockReader(*std::move(file));
}

absl::Status BlockReader::Append(size_t most, std::string& bytes) {
  if (ended_) return absl::OkStatus();
  size_t kept = bytes.size();
  bytes.resize(kept + most);
  absl::StatusOr<size_t> size = file_.Read(std::span(bytes).subspan(kept));
  bytes.resize(kept + size.value_or(0));
  ended_ = size.value_or(0) < most;
  return size.status();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path, 256'000'000);
  if (!file.ok()) return file.status();
  std::string bytes(size_t(file->size()), '\0');
  absl::StatusOr<size_t> size = file->Read(bytes);
  if (!size.ok()) return size.status();
  bytes.resize(*size);
  return bytes;
}

absl::StatusOr<std::string_view> TextReader::Next() {
  offset_ += int64_t(given_);
  buffer_.erase(0, given_);
  given_ = 0;
  while (true) {
    bool last = !file_ && next_ == files_.size();
    if (last) return std::string_view();
    if (absl::Status s = Fill(); !s.ok()) return s;
    if (buffer_.empty()) continue;  // the file has ended
    bool ends = buffer_.size() < block_;
    given_ = ends ? buffer_.size() : WholeCodePoints(buffer_);
    std::string_view text(buffer_.data(), given_);
    if (absl::Status s = Check(text); !s.ok()) return s;
    return text;
  }
}

// Reads on in the file, or in the next one; leaves that where it has ended.
absl::Status TextReader::Fill() {
  bool fresh = !file_;
  if (fresh) {
    absl::StatusOr<BlockReader> file = BlockReader::Open(files_[next_++]);
    if (!file.ok()) return file.status();
    file_.emplace(*std::move(file));
    offset_ = 0;
  }
  if (absl::Status s = file_->Append(block_ - buffer_.size(), buffer_); !s.ok()) return s;
  if (!buffer_.empty()) return absl::OkStatus();
  file_.reset();
  return fresh ? Bad(files_[next_ - 1], "the file is empty; give a text") : absl::OkStatus();
}

absl::Status TextReader::Check(std::string_view text) const {
  size_t bad = std::min(InvalidUtf8(text), text.find('\0'));
  if (bad == text.npos) return absl::OkStatus();
  const std::string& path = files_[next_ - 1];
  const char* advice = path.ends_with(".bin") ? "give a text, or a token shard, which begins with 20240520 or 20240801"
                                              : "convert the file to UTF-8";
  return Bad(path, fmt::format("expected UTF-8 text, got the byte 0x{:02x} at offset {}; {}", uint8_t(text[bad]),
                               offset_ + int64_t(bad), advice));
}

}  // namespace weft
