#include "core/base/message.h"

namespace weft {

void PrintMessage(std::FILE* out, std::string_view text) { std::fwrite(text.data(), 1, text.size(), out); }

}  // namespace weft
