#include "weft/dist/group/issued_call.h"

#include <utility>

namespace weft {

IssuedCall::IssuedCall(const Collective& from, uint64_t number, Work handle)
    : call(from),
      sequence(number),
      work(std::move(handle)),
      site(from.site),
      send_counts(from.send_counts.begin(), from.send_counts.end()),
      recv_counts(from.recv_counts.begin(), from.recv_counts.end()) {
  call.site = site;
  call.send_counts = send_counts;
  call.recv_counts = recv_counts;
}

}  // namespace weft
