// TextStream: turns bytes that arrive in any pieces into UTF-8 that a terminal can show at any time.
#pragma once
#include <string>
#include <string_view>

namespace weft {

class TextStream {
 public:
  // Returns the text that can be shown now, in whole characters. Each byte that is not UTF-8 becomes one U+FFFD. Bytes
  // that may still become a character wait for the next call.
  std::string Add(std::string_view bytes);
  // Ends the stream. Returns one U+FFFD for each byte that is left.
  std::string End();

 private:
  std::string waiting_;
};

}  // namespace weft
