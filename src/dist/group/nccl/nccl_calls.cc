#include "weft/dist/group/nccl/nccl_calls.h"

#include <exception>
#include <utility>
#include <vector>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using nccl::Type;

// Returns NCCL's element type. NCCL has none for bools, which are bytes of 0 and 1.
Type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return Type::kF64;
    case DType::kF32:
      return Type::kF32;
    case DType::kBF16:
      return Type::kBF16;
    case DType::kF16:
      return Type::kF16;
    case DType::kI64:
      return Type::kI64;
    case DType::kI32:
      return Type::kI32;
    case DType::kU8:
    case DType::kBool:
      return Type::kU8;
  }
  Fail("a dtype that NCCL's groups do not know");
}

nccl::Reduction ReductionOf(const Collective& call) {
  if (call.reduce == ReduceOp::kMin) return nccl::Reduction::kMin;
  bool max = call.reduce == ReduceOp::kMax || call.dtype == DType::kBool;  // a sum of bools is "or"
  return max ? nccl::Reduction::kMax : nccl::Reduction::kSum;
}

size_t BytesOf(const Collective& call, int64_t count) { return size_t(count) * SizeOf(call.dtype); }

// The bytes that this rank sends to and receives from each rank in an exchange.
struct Pieces {
  std::vector<size_t> sends, receives;
};

Pieces PiecesOf(const Collective& c, int ranks, int me) {
  Pieces pieces{std::vector<size_t>(size_t(ranks)), std::vector<size_t>(size_t(ranks))};
  for (size_t r = 0; r < size_t(ranks); r++) {
    if (c.op == CollectiveOp::kAllToAll) pieces.sends[r] = pieces.receives[r] = BytesOf(c, c.count);
    if (c.op == CollectiveOp::kAllToAllV) pieces.sends[r] = BytesOf(c, c.send_counts[r]);
    if (c.op == CollectiveOp::kAllGatherV) pieces.sends[r] = BytesOf(c, c.count);
    if (c.op == CollectiveOp::kAllToAllV || c.op == CollectiveOp::kAllGatherV)
      pieces.receives[r] = BytesOf(c, c.recv_counts[r]);
  }
  if (c.op == CollectiveOp::kShift) {
    pieces.sends[size_t((me + c.peer) % ranks)] = BytesOf(c, c.count);
    pieces.receives[size_t((me - c.peer + ranks) % ranks)] = BytesOf(c, c.count);
  }
  return pieces;
}

}  // namespace

NcclCalls::NcclCalls(std::shared_ptr<NcclCommunicator> comm, StreamedDevice& device, int rank, int size)
    : comm_(std::move(comm)), device_(device), rank_(rank), size_(size), word_(device.Allocate(sizeof(float))) {
  device_.Fill(word_->data(), 0, sizeof(float));
}

void NcclCalls::Put(const Collective& call) const {
  // The result of every call of one rank is its input.
  if (size_ == 1) {
    if (call.in != call.out) device_.Copy(call.out, call.in, size_t(OutputBytes(call, 1, 0)));
    return;
  }
  if (call.blocks > 1) return PutBlocks(call);
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kReduce:
    case CollectiveOp::kBarrier:
      return Reduce(call);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return Move(call);
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
    case CollectiveOp::kAllGatherV:
    case CollectiveOp::kShift:
      return Exchange(call);
  }
}

void NcclCalls::Join(absl::FunctionRef<void()> put) const {
  const NcclLibrary& nccl = comm_->library();
  nccl.Check(nccl.GroupStart(), "ncclGroupStart", comm_->get());
  std::exception_ptr error;
  try {
    put();
  } catch (...) {
    error = std::current_exception();
  }
  nccl::Result end = nccl.GroupEnd();  // always called, otherwise later calls would never run
  if (error) std::rethrow_exception(error);
  nccl.Check(end, "ncclGroupEnd", comm_->get());
}

void NcclCalls::PutBlocks(const Collective& call) const {
  Join([&] {
    for (int64_t block = 0; block < call.blocks; block++) Put(BlockOf(call, block, size_));
  });
}

void NcclCalls::Reduce(const Collective& c) const {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device_.Handle();
  auto count = size_t(c.count);
  Type type = TypeOf(c.dtype);
  nccl::Reduction op = ReductionOf(c);
  nccl::Result result = nccl::Result::kSuccess;
  if (c.op == CollectiveOp::kAllReduce)
    result = nccl.AllReduce(c.in, c.out, count, type, op, comm, stream);
  else if (c.op == CollectiveOp::kReduceScatter)
    result = nccl.ReduceScatter(c.in, c.out, count, type, op, comm, stream);
  else if (c.op == CollectiveOp::kReduce)
    result = nccl.Reduce(c.in, c.out, count, type, op, c.peer, comm, stream);
  else
    result = nccl.AllReduce(word_->data(), word_->data(), 1, Type::kF32, nccl::Reduction::kMax, comm, stream);
  nccl.Check(result, Name(c.op), comm);
}

void NcclCalls::Move(const Collective& c) const {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device_.Handle();
  size_t bytes = BytesOf(c, c.count);
  nccl::Result result = nccl::Result::kSuccess;
  if (c.op == CollectiveOp::kAllGather)
    result = nccl.AllGather(c.in, c.out, bytes, Type::kU8, comm, stream);
  else if (c.op == CollectiveOp::kBroadcast)
    result = nccl.Broadcast(c.in, c.out, bytes, Type::kU8, c.peer, comm, stream);
  else if (c.op == CollectiveOp::kSend)
    result = nccl.Send(c.in, bytes, Type::kU8, c.peer, comm, stream);
  else
    result = nccl.Recv(c.out, bytes, Type::kU8, c.peer, comm, stream);
  nccl.Check(result, Name(c.op), comm);
}

// Moves all pieces in one NCCL group call. A rank's piece for itself is among them: NCCL copies it while it moves the
// others. A copy of its own would run after them.
void NcclCalls::Exchange(const Collective& c) const {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device_.Handle();
  Pieces pieces = PiecesOf(c, size_, rank_);
  auto* in = static_cast<const char*>(c.in);
  auto* out = static_cast<char*>(c.out);
  size_t sent = 0, received = 0;
  nccl::Result first = nccl.GroupStart();
  auto call = [&first](nccl::Result result) {
    if (first == nccl::Result::kSuccess) first = result;
  };
  for (int r = 0; r < size_; r++) {
    size_t send = pieces.sends[size_t(r)], receive = pieces.receives[size_t(r)];
    bool in_place = r == rank_ && in + sent == out + received;
    if (send && !in_place) call(nccl.Send(in + sent, send, Type::kU8, r, comm, stream));
    if (receive && !in_place) call(nccl.Recv(out + received, receive, Type::kU8, r, comm, stream));
    if (c.op != CollectiveOp::kAllGatherV) sent += send;
    received += receive;
  }
  call(nccl.GroupEnd());  // always called, otherwise later calls would never run
  nccl.Check(first, Name(c.op), comm);
}

}  // namespace weft
