#include "weft/train/io/text_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "weft/core/host/utf8.h"
#include "weft/train/io/bad_input.h"

namespace weft {
absl::StatusOr<BlockReader> BlockReader::Open(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  return BlockReader(*std::move(file), path);
}

absl::Status BlockReader::Append(size_t most, std::string& bytes) {
  if (ended_) return absl::OkStatus();
  if (decoder_) return Unpack(most, bytes);
  size_t kept = bytes.size();
  bytes.resize(kept + most);
  absl::StatusOr<size_t> size = file_.Read(std::span(bytes).subspan(kept));
  bytes.resize(kept + size.value_or(0));
  ended_ = size.value_or(0) < most;
  offset_ += int64_t(size.value_or(0));
  if (!size.ok() || std::exchange(begun_, true)) return size.status();
  decoder_ = DecoderOf(std::string_view(bytes).substr(kept));
  if (!decoder_) return absl::OkStatus();
  packed_ = bytes.substr(kept);
  offset_ = 0;
  bytes.resize(kept);
  ended_ = false;
  return Unpack(most, bytes);
}

absl::Status BlockReader::Unpack(size_t most, std::string& bytes) {
  size_t kept = bytes.size(), done = 0;
  bytes.resize(kept + most);
  absl::Status status;
  while (status.ok() && done < most && !ended_) {
    absl::StatusOr<Decoder::Progress> progress =
        decoder_->Unpack(std::span(packed_).subspan(taken_), std::span(bytes).subspan(kept + done));
    if (!progress.ok()) {
      status = BadInput(
          path_, fmt::format("expected a whole {} stream, got damage near offset {} of the file ({}); copy the "
                             "file again, or make it again",
                             decoder_->name(), offset_ + int64_t(taken_), std::string(progress.status().message())));
    } else if (progress->taken + progress->given == 0) {
      status = Refill();
    } else {
      taken_ += progress->taken;
      done += progress->given;
    }
  }
  bytes.resize(kept + done);
  return status;
}

// A file may end only at the end of a stream.
absl::Status BlockReader::Refill() {
  constexpr size_t kBytes = size_t{1} << 17;
  offset_ += int64_t(taken_);
  taken_ = 0;
  packed_.resize(kBytes);
  absl::StatusOr<size_t> size = file_.Read(packed_);
  packed_.resize(size.value_or(0));
  if (!size.ok() || *size > 0) return size.status();
  ended_ = decoder_->whole();
  if (ended_) return absl::OkStatus();
  return BadInput(path_,
                  fmt::format("expected a whole {} stream, got a file that ends within it, at offset {}; copy the file "
                              "again, or make it again",
                              decoder_->name(), offset_));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most) {
  absl::StatusOr<InputFile> file = InputFile::Open(path, most);
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
    if (buffer_.empty()) continue;  // end of this file
    bool ends = buffer_.size() < block_;
    given_ = ends ? buffer_.size() : WholeCodePoints(buffer_);
    std::string_view text(buffer_.data(), given_);
    if (absl::Status s = Check(text); !s.ok()) return s;
    return text;
  }
}

// Fills the buffer from the open file, or opens the next one. Closes the file at its end.
absl::Status TextReader::Fill() {
  bool fresh = !file_;
  if (fresh) {
    absl::StatusOr<BlockReader> file = BlockReader::Open(files_[next_++]);
    if (!file.ok()) return file.status();
    file_.emplace(*std::move(file));
    offset_ = 0;
  }
  begins_ = fresh;
  if (absl::Status s = file_->Append(block_ - buffer_.size(), buffer_); !s.ok()) return s;
  if (fresh)
    if (absl::Status s = DropMark(); !s.ok()) return s;
  if (!buffer_.empty()) return absl::OkStatus();
  file_.reset();
  return fresh ? BadInput(files_[next_ - 1], "the file is empty; give a text") : absl::OkStatus();
}

// Some programs put U+FEFF before a text to mark it as UTF-8. It is not part of the text.
absl::Status TextReader::DropMark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  dropped_mark_ = buffer_.starts_with(kMark);
  if (!dropped_mark_) return absl::OkStatus();
  buffer_.erase(0, kMark.size());
  offset_ = int64_t(kMark.size());
  return file_->Append(block_ - buffer_.size(), buffer_);
}

absl::Status TextReader::Check(std::string_view text) const {
  size_t bad = std::min(InvalidUtf8(text), text.find('\0'));
  if (bad == text.npos) return absl::OkStatus();
  const std::string& path = files_[next_ - 1];
  const char* advice = path.ends_with(".bin") ? "give a text, or a token shard, which begins with 20240520 or 20240801"
                                              : "convert the file to UTF-8";
  return BadInput(path, fmt::format("expected UTF-8 text, got the byte 0x{:02x} at offset {}{}; {}", uint8_t(text[bad]),
                                    offset_ + int64_t(bad), file_->packed() ? " of the unpacked text" : "", advice));
}

}  // namespace weft
