// The header of a token shard: all its tokens can be read, or opening it returns an error.
#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/train/data/source/token_shard.h"
#include "weft/train/data/source/token_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string path = fuzz::FileOf(data, size);
  // The run of 4096 tokens that Summarize reads, and the stream that looks for the magic number.
  fuzz::AllocationBound bound(size, {.largest = 17 << 10, .live = 26 << 10});
  bool begins = BeginsAsTokenShard(path);
  absl::StatusOr<TokenShard> shard = OpenTokenShard(path);
  fuzz::Check(begins || !shard.ok(), "what is a shard begins as one");
  if (!shard.ok()) return 0;
  fuzz::Check(shard->size > 0 && size_t(shard->size * shard->width) < size, "tokens lie within the file");
  absl::StatusOr<TokenStream> stream = TokenStream::Map({path, path});
  fuzz::Check(stream.ok() && stream->size() == 2 * shard->size, "two shards are one stream");
  TokenSummary summary = Summarize(*stream);
  TokenStream tail = stream->CutTail(shard->size + shard->size / 2);
  fuzz::Check(tail.size() == 0 || uint32_t(tail[tail.size() - 1]) <= summary.largest, "the last token is seen");
  return 0;
}
