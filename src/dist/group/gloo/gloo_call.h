// GlooGroup::Call: the state of one running collective of a Gloo group.
#pragma once
#include "weft/dist/group/gloo/gloo_group.h"

namespace weft {

struct GlooGroup::Call {
  const Collective& c;
  Deadline deadline;
  GlooChannel& channel;
  int64_t element;  // bytes
  GlooTag tag;

  Call(const Collective& collective, uint64_t sequence, Deadline until, GlooChannel& on)
      : c(collective), deadline(until), channel(on), element(int64_t(SizeOf(collective.dtype))) {
    tag.call_hash = HashOf(collective);
    tag.sequence = sequence;
  }

  // The hash is equal on all ranks of a call, and for a send and its receive.
  static uint64_t HashOf(const Collective& c) {
    const CollectiveTraits& traits = Traits(c.op);
    bool pair = IsPointToPoint(c.op);
    return GlooTag::HashOf({pair ? 0x100 : uint64_t(c.op), uint64_t(c.dtype), traits.reduces ? uint64_t(c.reduce) : 0,
                            traits.has_peer && !pair ? uint64_t(c.peer) : 0});
  }
};

}  // namespace weft
