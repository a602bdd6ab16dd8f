// IssuedCall: a pending call of a stream-ordered group. It owns copies of the call's site and counts, but not the
// tensor memory.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/dist/group/collective.h"
#include "weft/dist/group/work.h"

namespace weft {

struct IssuedCall {
  IssuedCall(const Collective& from, uint64_t number, Work handle);
  IssuedCall(const IssuedCall&) = delete;
  IssuedCall& operator=(const IssuedCall&) = delete;

  Collective call;
  uint64_t sequence;
  Work work;
  SiteText site;
  std::vector<int64_t> send_counts, recv_counts;
};

}  // namespace weft
