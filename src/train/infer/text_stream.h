// TextStream: bytes that come in any pieces, out as UTF-8 that a terminal can show at any time.
#pragma once
#include <string>
#include <string_view>

namespace weft {

class TextStream {
 public:
  // What can be shown now: whole characters. Bytes that are not UTF-8 become U+FFFD, one each; those that may still
  // become a character wait.
  std::string Add(std::string_view bytes);
  // What is left when no more bytes come.
  std::string End();

 private:
  std::string waiting_;
};

}  // namespace weft
