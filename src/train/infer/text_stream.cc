#include "weft/train/infer/text_stream.h"

#include <algorithm>

#include "weft/core/host/utf8.h"

namespace weft {
namespace {
constexpr uint32_t kReplacement = 0xFFFD;
}  // namespace

std::string TextStream::Add(std::string_view bytes) {
  waiting_ += bytes;
  std::string shown;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    size_t whole = std::min(InvalidUtf8(rest), rest.size());
    shown += rest.substr(0, whole);
    rest.remove_prefix(whole);
    if (rest.empty() || BeginsCodePoint(rest)) break;
    AppendUtf8(kReplacement, shown);
    rest.remove_prefix(1);
  }
  waiting_ = std::string(rest);
  return shown;
}

std::string TextStream::End() {
  std::string shown;
  for (size_t i = 0; i < waiting_.size(); i++) AppendUtf8(kReplacement, shown);
  waiting_.clear();
  return shown;
}

}  // namespace weft
