#include "weft/core/ops/sdpa_backends.h"

#include <fmt/format.h>

namespace weft {
namespace {

constexpr const char* kNames[kNumSdpaBackends] = {"cudnn", "flash", "plain"};
thread_local int64_t current = kAllSdpaBackends;

int64_t BitOf(SdpaBackend backend) { return int64_t(1) << int(backend); }

}  // namespace

const char* Name(SdpaBackend backend) { return kNames[size_t(backend)]; }

SdpaBackends::SdpaBackends(std::initializer_list<SdpaBackend> allowed, Loc loc)
    : SdpaBackends(std::span(allowed.begin(), allowed.size()), loc) {}
SdpaBackends::SdpaBackends(std::span<const SdpaBackend> allowed, Loc loc) : previous_(current) {
  int64_t set = 0;
  for (SdpaBackend backend : allowed) set |= BitOf(backend);
  WEFT_CHECK(set != 0, fmt::format("SdpaBackends at {}: expected at least one of {}, got none", ToString(loc),
                                   SdpaBackendNames(kAllSdpaBackends)));
  current = set;
}
SdpaBackends::~SdpaBackends() { current = previous_; }
int64_t SdpaBackends::Current() { return current; }

bool Allows(const Attrs& attrs, SdpaBackend backend) {
  return (attrs.IntOr("backends", kAllSdpaBackends) & BitOf(backend)) != 0;
}

std::string SdpaBackendNames(int64_t set) {
  std::string names;
  for (int i = 0; i < kNumSdpaBackends; i++) {
    if (!(set >> i & 1)) continue;
    bool last = set >> i == 1;
    names += fmt::format("{}{}", names.empty() ? "" : last ? " and " : ", ", kNames[i]);
  }
  return names;
}

}  // namespace weft
