#include "weft/dist/net/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <string>

#include "weft/core/base/error.h"

namespace weft {

Key Hmac(const Key& key, std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) {
    uint64_t length = part.size();
    text += BytesOf(length);
    text += part;
  }
  Key code{};
  unsigned bytes = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  bool ok = HMAC(EVP_sha256(), key.data(), int(key.size()), data, text.size(), code.data(), &bytes) != nullptr;
  WEFT_CHECK(ok && bytes == code.size(), "secret: libcrypto computes no HMAC-SHA256");
  return code;
}

bool SameKey(const Key& a, const Key& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Key RandomKey() {
  Key key{};
  WEFT_CHECK(getrandom(key.data(), key.size(), 0) == ssize_t(key.size()), "secret: the system gives no random bytes");
  return key;
}

}  // namespace weft
