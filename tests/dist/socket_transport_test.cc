// Gloo's own algorithms run on the transport of proven sockets, and its pairs keep Gloo's promises. Ranks are threads.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>

#include "error_of.h"
#include "weft/core/base/error.h"
#include "weft/dist/failure/side_channel.h"
#include "weft/dist/group/gloo/socket_context.h"

namespace weft {
namespace {

using test::ErrorOf;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Returns the two ends of a TCP connection over loopback.
std::pair<Socket, Socket> SocketPairOverTcp() {
  Socket listener = OpenListener("127.0.0.1", 0);
  Connection caller = ConnectTo(Resolve("127.0.0.1", PortOf(listener)).at(0), Clock::now() + 5s);
  EXPECT_TRUE(WaitReady(listener.fd(), POLLIN, Clock::now() + 5s));
  return {std::move(caller.socket), Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC))};
}

class TestContext final : public gloo::Context {
 public:
  TestContext(int my_rank, int num_ranks, std::shared_ptr<SocketContext> transport)
      : gloo::Context(my_rank, num_ranks) {
    setTimeout(20s);
    transportContext_ = std::move(transport);
  }
  SocketContext& transport() { return static_cast<SocketContext&>(*transportContext_); }
};
using Contexts = std::vector<std::shared_ptr<TestContext>>;

Contexts Connected(int ranks) {
  std::vector<std::shared_ptr<SocketContext>> transports;
  for (int r = 0; r < ranks; r++) {
    transports.push_back(std::make_shared<SocketContext>(r, ranks));
    transports[size_t(r)]->setTimeout(20s);
    for (int other = 0; other < r; other++) {
      auto [mine, its] = SocketPairOverTcp();
      transports[size_t(r)]->createPair(other);
      transports[size_t(other)]->createPair(r);
      transports[size_t(r)]->Adopt(other, std::move(mine), "rank " + std::to_string(other));
      transports[size_t(other)]->Adopt(r, std::move(its), "rank " + std::to_string(r));
    }
  }
  Contexts contexts;
  for (int r = 0; r < ranks; r++) contexts.push_back(std::make_shared<TestContext>(r, ranks, transports[size_t(r)]));
  return contexts;
}

// Runs fn(context) on all ranks at once.
void RunGloo(int ranks, const std::function<void(const std::shared_ptr<TestContext>&)>& fn) {
  Contexts contexts = Connected(ranks);
  ForAllRanks(ranks, [&](int r) {
    std::string error = ErrorOf([&] { fn(contexts[size_t(r)]); });
    EXPECT_EQ(error, "") << "of rank " << r;
    if (testing::Test::HasFailure()) contexts[size_t(r)]->closeConnections();  // so that no rank waits for this one
  });
}

int64_t Value(int rank, size_t i) { return int64_t(i % 1000) * 7 + rank; }
std::vector<int64_t> Values(int rank, size_t n) {
  std::vector<int64_t> values(n);
  for (size_t i = 0; i < n; i++) values[i] = Value(rank, i);
  return values;
}

// Sizes below and above the limit for eager sends and the size of a socket's buffers.
const size_t kCounts[] = {1, 100, SocketPair::kEager / 8, SocketPair::kEager / 8 + 1, 100'000, 2'000'000};

using Member = std::shared_ptr<TestContext>;

void CheckAllreduce(const Member& context, size_t n) {
  const int ranks = context->size;
  std::vector<int64_t> in = Values(context->rank, n), out(n);
  for (auto algorithm : {gloo::AllreduceOptions::Algorithm::RING, gloo::AllreduceOptions::Algorithm::BCUBE}) {
    gloo::AllreduceOptions sum(context);
    sum.setAlgorithm(algorithm);
    sum.setInput(in.data(), n);
    sum.setOutput(out.data(), n);
    sum.setReduceFunction([](void* c, const void* a, const void* b, size_t count) {
      for (size_t i = 0; i < count; i++)
        static_cast<int64_t*>(c)[i] = static_cast<const int64_t*>(a)[i] + static_cast<const int64_t*>(b)[i];
    });
    sum.setTag(uint32_t(algorithm));
    gloo::allreduce(sum);
    for (size_t i = 0; i < n; i++)
      ASSERT_EQ(out[i], int64_t(ranks) * Value(0, i) + ranks * (ranks - 1) / 2) << "allreduce at " << i;
  }
}

void CheckAllgather(const Member& context, size_t n) {
  std::vector<int64_t> in = Values(context->rank, n), all(n * size_t(context->size));
  gloo::AllgatherOptions gathered(context);
  gathered.setInput(in.data(), n);
  gathered.setOutput(all.data(), all.size());
  gathered.setTag(10);
  gloo::allgather(gathered);
  for (int r = 0; r < context->size; r++)
    for (size_t i = 0; i < n; i++) ASSERT_EQ(all[size_t(r) * n + i], Value(r, i)) << "allgather at " << i;
}

void CheckBroadcast(const Member& context, size_t n) {
  for (int root = 0; root < context->size; root++) {
    gloo::BroadcastOptions broadcast(context);
    std::vector<int64_t> out = Values(context->rank, n);
    broadcast.setOutput(out.data(), n);
    broadcast.setRoot(root);
    broadcast.setTag(uint32_t(20 + root));
    gloo::broadcast(broadcast);
    ASSERT_EQ(out, Values(root, n)) << "broadcast";
  }
}

void CheckAlltoall(const Member& context, size_t n) {
  const int ranks = context->size, me = context->rank;
  std::vector<int64_t> to(n * size_t(ranks)), from(n * size_t(ranks));
  for (int r = 0; r < ranks; r++)
    for (size_t i = 0; i < n; i++) to[size_t(r) * n + i] = Value(me * ranks + r, i);
  gloo::AlltoallOptions alltoall(context);
  alltoall.setInput(to.data(), to.size());
  alltoall.setOutput(from.data(), from.size());
  alltoall.setTag(30);
  gloo::alltoall(alltoall);
  for (int r = 0; r < ranks; r++)
    for (size_t i = 0; i < n; i++) ASSERT_EQ(from[size_t(r) * n + i], Value(r * ranks + me, i)) << "alltoall";
}

TEST(SocketTransport, GloosAlgorithmsGiveTheirResults) {
  for (int ranks : {2, 3, 4})
    for (size_t n : kCounts) {
      if (ranks > 2 && n > 100'000) continue;
      RunGloo(ranks, [&](const Member& context) {
        for (auto check : {CheckAllreduce, CheckAllgather, CheckBroadcast, CheckAlltoall}) check(context, n);
        gloo::BarrierOptions barrier(context);
        barrier.setTag(40);
        gloo::barrier(barrier);
      });
    }
}

constexpr int kUneven = 3;  // ranks

// Rank 0 has n elements, rank 1 none and rank 2 twice as many.
void CheckAllgatherv(const Member& context, size_t n) {
  std::vector<size_t> counts{n, 0, 2 * n};
  std::vector<int64_t> in = Values(context->rank, counts[size_t(context->rank)]), all(3 * n);
  gloo::AllgathervOptions gathered(context);
  gathered.setInput(in.data(), in.size());
  gathered.setOutput(all.data(), counts);
  gloo::allgatherv(gathered);
  for (size_t i = 0; i < n; i++) ASSERT_EQ(all[i], Value(0, i));
  for (size_t i = 0; i < 2 * n; i++) ASSERT_EQ(all[n + i], Value(2, i));
}

// Gathers to rank 1 and scatters from there, then takes the maximum on rank 2.
void CheckOneRoot(const Member& context, size_t n) {
  const int me = context->rank;
  std::vector<int64_t> out(n), parts(3 * n), mine = Values(me, n);
  gloo::GatherOptions gather(context);
  gather.setInput(mine.data(), n);
  if (me == 1) gather.setOutput(parts.data(), parts.size());
  gather.setRoot(1);
  gather.setTag(1);
  gloo::gather(gather);
  for (int r = 0; me == 1 && r < kUneven; r++)
    for (size_t i = 0; i < n; i++) ASSERT_EQ(parts[size_t(r) * n + i], Value(r, i));
  gloo::ScatterOptions scatter(context);
  std::vector<int64_t*> pieces;
  for (int r = 0; r < kUneven; r++) pieces.push_back(parts.data() + size_t(r) * n);
  if (me == 1) scatter.setInputs(pieces, n);
  scatter.setOutput(out.data(), n);
  scatter.setRoot(1);
  scatter.setTag(2);
  gloo::scatter(scatter);
  ASSERT_EQ(out, mine);
  gloo::ReduceOptions reduce(context);
  reduce.setInput(mine.data(), n);
  reduce.setOutput(out.data(), n);
  reduce.setRoot(2);
  reduce.setTag(3);
  reduce.setReduceFunction([](void* c, const void* a, const void* b, size_t count) {
    for (size_t i = 0; i < count; i++)
      static_cast<int64_t*>(c)[i] = std::max(static_cast<const int64_t*>(a)[i], static_cast<const int64_t*>(b)[i]);
  });
  gloo::reduce(reduce);
  if (me == 2) {
    ASSERT_EQ(out, Values(2, n));
  }
}

void CheckAlltoallv(const Member& context, size_t n) {
  std::vector<int64_t> to(3 * n), from(3 * n), counts(3, int64_t(n));
  std::fill(to.begin(), to.end(), context->rank);
  gloo::AlltoallvOptions alltoall(context);
  alltoall.setInput(to.data(), counts);
  alltoall.setOutput(from.data(), counts);
  alltoall.setTag(4);
  gloo::alltoallv(alltoall);
  for (size_t i = 0; i < 3 * n; i++) ASSERT_EQ(from[i], int64_t(i / n));
}

TEST(SocketTransport, GloosAlgorithmsOfOneRootAndUnevenCounts) {
  for (size_t n : {size_t(5), size_t(30'000)})
    RunGloo(kUneven, [&](const Member& context) {
      for (auto check : {CheckAllgatherv, CheckOneRoot, CheckAlltoallv}) check(context, n);
    });
}

// Messages match receives in order: with either side first, with several messages on one slot, and with receives that
// are larger than the message.
TEST(SocketTransport, TheNthMessageOfASlotIsTheNthReceives) {
  for (size_t n : {size_t(0), size_t(64), SocketPair::kEager / 8 + 7, size_t(300'000)})
    for (bool receive_first : {true, false})
      RunGloo(2, [&](const std::shared_ptr<TestContext>& context) {
        constexpr int kMessages = 5;
        const bool sender = context->rank == 0;
        std::vector<int64_t> memory((n + 100) * kMessages);
        auto buffer = context->createUnboundBuffer(memory.data(), memory.size() * 8);
        if (sender == receive_first) std::this_thread::sleep_for(20ms);
        for (size_t m = 0; m < kMessages; m++) {
          size_t offset = m * (n + 100) * 8;
          if (!sender) {
            buffer->recv(0, 7, offset, (n + 100) * 8);
          } else {
            for (size_t i = 0; i < n; i++) memory[m * (n + 100) + i] = Value(int(m), i);
            buffer->send(1, 7, offset, n * 8);
          }
        }
        for (int m = 0; m < kMessages; m++) ASSERT_TRUE(sender ? buffer->waitSend() : buffer->waitRecv());
        for (size_t m = 0; m < kMessages; m++)
          for (size_t i = 0; i < n; i++) ASSERT_EQ(memory[m * (n + 100) + i], Value(int(m), i)) << m << " of " << n;
      });
}

// Sends more small messages than the window holds and receives their slots in the opposite order.
TEST(SocketTransport, MessagesMayComeInAnyOrder) {
  for (size_t bytes : {size_t(1), size_t(3000), size_t(16384), size_t(50'000)})
    RunGloo(2, [&](const std::shared_ptr<TestContext>& context) {
      const int messages = bytes < 100 ? 2000 : 500;
      std::vector<char> memory(bytes * size_t(messages));
      auto buffer = context->createUnboundBuffer(memory.data(), memory.size());
      if (context->rank == 0) {
        for (int m = 0; m < messages; m++) memory[size_t(m) * bytes] = char(m * 31);
        for (int m = 0; m < messages; m++) buffer->send(1, uint64_t(m), size_t(m) * bytes, bytes);
        for (int m = 0; m < messages; m++) ASSERT_TRUE(buffer->waitSend());
      } else {
        const int at_once = 100;  // waiting receives are searched linearly
        for (int last = messages; last > 0; last -= at_once) {
          for (int m = last - 1; m >= std::max(0, last - at_once); m--)
            buffer->recv(0, uint64_t(m), size_t(m) * bytes, bytes);
          for (int m = last - 1; m >= std::max(0, last - at_once); m--) ASSERT_TRUE(buffer->waitRecv());
        }
        for (int m = 0; m < messages; m++) ASSERT_EQ(memory[size_t(m) * bytes], char(m * 31)) << m;
      }
    });
}

TEST(SocketTransport, ReceivesFromAnyRank) {
  for (size_t bytes : {size_t(8), size_t(100'000)})
    RunGloo(4, [&](const std::shared_ptr<TestContext>& context) {
      std::vector<int64_t> memory(bytes / 8 * 4, context->rank);
      auto buffer = context->createUnboundBuffer(memory.data(), memory.size() * 8);
      if (context->rank != 0) {
        if (context->rank == 2) std::this_thread::sleep_for(20ms);
        buffer->send(0, 3, 0, bytes);
        ASSERT_TRUE(buffer->waitSend());
        return;
      }
      int64_t sum = 0, ranks = 0;
      for (int i = 1; i < 4; i++) {
        int rank = -1;
        buffer->recv(std::vector<int>{1, 2, 3}, 3, size_t(i) * bytes, bytes);
        ASSERT_TRUE(buffer->waitRecv(&rank));
        ASSERT_EQ(memory[size_t(i) * bytes / 8], rank);
        sum += rank;
        ranks |= 1 << rank;
      }
      EXPECT_EQ(sum, 6);
      EXPECT_EQ(ranks, 0b1110);
    });
}

// Three threads of each rank wait at once, as the calls of a group do. The thread that drives the sockets must not drop
// messages of the other threads.
TEST(SocketTransport, ThreadsOfOneRankWaitSideBySide) {
  RunGloo(3, [&](const std::shared_ptr<TestContext>& context) {
    ForAllRanks(3, [&](int thread) {
      const int me = context->rank, right = (me + 1) % 3, left = (me + 2) % 3;
      for (int round = 0; round < 200; round++) {
        size_t n = size_t(1) << ((round * 5 + thread * 3) % 15);
        std::vector<int64_t> out = Values(me, n), in(n);
        auto send = context->createUnboundBuffer(out.data(), n * 8),
             recv = context->createUnboundBuffer(in.data(), n * 8);
        auto slot = uint64_t(thread) << 32 | uint64_t(round);
        recv->recv(left, slot);
        send->send(right, slot);
        ASSERT_TRUE(recv->waitRecv());
        ASSERT_TRUE(send->waitSend());
        ASSERT_EQ(in, Values(left, n));
      }
    });
  });
}

TEST(SocketTransport, ATimeoutNamesWhoIsMissing) {
  Contexts contexts = Connected(3);
  char x[2] = {};
  auto buffer = contexts[0]->createUnboundBuffer(x, 2);
  buffer->recv(2, 1, 0, 1);
  auto begin = Clock::now();
  std::string error = ErrorOf([&] { buffer->waitRecv(100ms); });
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_EQ(error, "timed out after 100 ms: rank 2 has not sent a message");
  // The other ranks then see closed connections, as with Gloo's own transport.
  auto other = contexts[1]->createUnboundBuffer(x, 1);
  EXPECT_NE(ErrorOf([&] {
              other->recv(0, 1);
              other->waitRecv(5s);
            }).find("the connection to rank 0 ended"),
            std::string::npos);
}

TEST(SocketTransport, AClosedConnectionEndsItsWaitsOnly) {
  Contexts contexts = Connected(3);
  int64_t x = 5, y = 0;
  auto late = contexts[0]->createUnboundBuffer(&y, 8), sent = contexts[1]->createUnboundBuffer(&x, 8);
  sent->send(0, 9);
  ASSERT_TRUE(sent->waitSend());
  sent.reset();
  contexts[1].reset();
  // A message that it sent before it closed can still be received, but nothing after that.
  late->recv(1, 9);
  ASSERT_TRUE(late->waitRecv());
  EXPECT_EQ(y, 5);
  EXPECT_EQ(ErrorOf([&] {
              late->recv(1, 10);
              late->waitRecv();
            }),
            "the connection to rank 1 ended: it closed the connection");
  auto there = contexts[2]->createUnboundBuffer(&x, 8), here = contexts[0]->createUnboundBuffer(&y, 8);
  there->send(0, 1);
  here->recv(2, 1);
  ASSERT_TRUE(here->waitRecv());
}

TEST(SocketTransport, AnAbortEndsAWaitOfAnotherThread) {
  Contexts contexts = Connected(2);
  char x = 0;
  for (bool drives : {true, false}) {  // whether the aborted wait drives the sockets or sleeps
    auto first = contexts[0]->createUnboundBuffer(&x, 1), second = contexts[0]->createUnboundBuffer(&x, 1);
    bool first_over = true, second_over = true;
    std::thread one([&] { first_over = first->waitRecv(); });
    std::this_thread::sleep_for(50ms);
    std::thread two([&] { second_over = second->waitRecv(); });
    std::this_thread::sleep_for(50ms);
    (drives ? first : second)->abortWaitRecv();
    (drives ? one : two).join();
    (drives ? second : first)->abortWaitRecv();
    (drives ? two : one).join();
    EXPECT_FALSE(first_over || second_over);
  }
}

// A proven rank may still break the protocol. That ends only its own connection, and nothing is written outside the
// buffers.
TEST(SocketTransport, FramesThatBreakTheProtocolEndTheConnection) {
  struct Case {
    FrameHeader header;
    const char* why;
  };
  for (const Case& c : {Case{{1, 1 << 20, FrameKind::kEager}, "a large message that nobody expects"},
                        Case{{1, uint64_t(1) << 40, FrameKind::kEager}, "a large message that nobody expects"},
                        Case{{1, uint64_t(1) << 40, FrameKind::kDirect}, "was not permitted"},
                        Case{{1, uint64_t(1) << 40, FrameKind::kBody}, "was not permitted"},
                        Case{{1, 8, FrameKind::kBody}, "was not permitted"},
                        Case{{1, 9000, FrameKind::kEager}, "where 16 are expected"},
                        Case{{0, 1, FrameKind::kCredit}, "takes more than was sent"},
                        Case{{0, 1, FrameKind(77)}, "does not speak this protocol"}}) {
    auto [mine, its] = SocketPairOverTcp();
    auto context = std::make_shared<SocketContext>(0, 2);
    context->createPair(1);
    context->Adopt(1, std::move(mine), "rank 1");
    std::vector<char> memory(16);
    auto buffer = context->createUnboundBuffer(memory.data(), memory.size());
    buffer->recv(1, 1, 0, 16);
    WriteAll(its.fd(), &c.header, sizeof(c.header), Clock::now() + 5s, "rank 0");
    std::string text(9000, 'x'), error = ErrorOf([&] {
                                   WriteAll(its.fd(), text.data(), text.size(), Clock::now() + 5s, "rank 0");
                                   buffer->waitRecv(5s);
                                 });
    EXPECT_NE(error.find(c.why), std::string::npos) << error;
  }
}

TEST(SocketTransport, WhatItHasNotIsRefused) {
  Contexts contexts = Connected(2);
  char x[8] = {};
  auto buffer = contexts[0]->createUnboundBuffer(x, 8);
  EXPECT_THROW(buffer->send(1, 0, 4, 8), gloo::InvalidOperationException);
  EXPECT_THROW(buffer->recv(1, 0, 9, 1), gloo::InvalidOperationException);
  EXPECT_THROW(buffer->send(0, 0), gloo::InvalidOperationException);
  EXPECT_THROW(contexts[0]->getPair(1)->createSendBuffer(0, x, 8), gloo::InvalidOperationException);
  EXPECT_THROW(contexts[0]->getPair(1)->connect({}), gloo::InvalidOperationException);
  EXPECT_EQ(contexts[0]->getPair(1)->address().str().substr(0, 10), "127.0.0.1:");
}

}  // namespace
}  // namespace weft
