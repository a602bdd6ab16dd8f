// NCCL API: the functions of NCCL that Weft calls, as its library exports them (nccl.h of NCCL 2.28).
//
// They are declared here so that builds without CUDA have the group too, and so that tests can replace the library.
// nccl_api_test.cc compares this with nccl.h if that is installed. The numbers and layouts are NCCL's binary interface,
// which is stable within a major version.
#pragma once
#include <climits>
#include <cstddef>

namespace weft::nccl {

struct Communicator;   // opaque
struct MemoryWindow;   // opaque
using Stream = void*;  // a cudaStream_t

struct UniqueId {
  char bytes[128];
};

enum class Result : int { kSuccess = 0, kInProgress = 7 };  // all other values are failures
enum class Type : int { kI8, kU8, kI32, kU32, kI64, kU64, kF16, kF32, kF64, kBF16 };
enum class Reduction : int { kSum, kProduct, kMax, kMin };

inline constexpr int kUnset = INT_MIN;
inline constexpr int kNoColor = -1;
inline constexpr int kOldest = 22800;  // the oldest version that has the config below
// From this version on symmetric kernels wait for the kernel before them. From 2.28 on they are launched early.
inline constexpr int kSymmetricWaits = 23007;
inline constexpr int kCtaPolicyZero = 2;  // calls use no multiprocessors where copy engines can make them
inline constexpr int kSymmetric = 1;      // a window for that
inline constexpr size_t kWindowAlign = 4096;

struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldest;
  int blocking = kUnset;
  int cluster_size = kUnset;
  int min_ctas = kUnset, max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
  int traffic_class = kUnset;
  const char* name = nullptr;
  int collnet = kUnset;
  int cta_policy = kUnset;
  int shrink_share = kUnset;
  int nvls_ctas = kUnset;
  int channels_per_net_peer = kUnset;
  int nvlink_centric = kUnset;
};

// The functions, one row each: the result, the name after "nccl", the arguments.
// clang-format off
#define WEFT_NCCL_FUNCTIONS(X)                                                                                        \
  X(Result, GetVersion, (int* version))                                                                               \
  X(Result, GetUniqueId, (UniqueId* id))                                                                              \
  X(Result, CommInitRankConfig, (Communicator** made, int size, UniqueId id, int rank, Config* config))               \
  X(Result, CommSplit, (Communicator* parent, int color, int key, Communicator** made, Config* config))               \
  X(Result, CommDestroy, (Communicator* comm))                                                                        \
  X(Result, CommAbort, (Communicator* comm))                                                                          \
  X(Result, CommGetAsyncError, (Communicator* comm, Result* error))                                                   \
  X(const char*, GetErrorString, (Result result))                                                                     \
  X(const char*, GetLastError, (Communicator* comm))                                                                  \
  X(Result, GroupStart, ())                                                                                           \
  X(Result, GroupEnd, ())                                                                                             \
  X(Result, AllReduce, (const void* in, void* out, size_t count, Type type, Reduction op, Communicator* c, Stream s)) \
  X(Result, AllGather, (const void* in, void* out, size_t count, Type type, Communicator* c, Stream s))               \
  X(Result, ReduceScatter,                                                                                            \
    (const void* in, void* out, size_t count, Type type, Reduction op, Communicator* c, Stream s))                    \
  X(Result, Broadcast, (const void* in, void* out, size_t count, Type type, int root, Communicator* c, Stream s))     \
  X(Result, Reduce,                                                                                                   \
    (const void* in, void* out, size_t count, Type type, Reduction op, int root, Communicator* c, Stream s))          \
  X(Result, Send, (const void* in, size_t count, Type type, int peer, Communicator* c, Stream s))                     \
  X(Result, Recv, (void* out, size_t count, Type type, int peer, Communicator* c, Stream s))

// Those that windows need. A library may lack them.
#define WEFT_NCCL_WINDOW_FUNCTIONS(X)                                                                               \
  X(Result, MemAlloc, (void** data, size_t bytes))                                                                  \
  X(Result, AlltoAll, (const void* in, void* out, size_t count, Type type, Communicator* c, Stream s))              \
  X(Result, MemFree, (void* data))                                                                                  \
  X(Result, CommWindowRegister, (Communicator* comm, void* data, size_t bytes, MemoryWindow** made, int flags))           \
  X(Result, CommWindowDeregister, (Communicator* comm, MemoryWindow* window))
// clang-format on

struct Functions {
#define WEFT_MEMBER(R, name, arguments) R(*name) arguments = nullptr;
  WEFT_NCCL_FUNCTIONS(WEFT_MEMBER)
  WEFT_NCCL_WINDOW_FUNCTIONS(WEFT_MEMBER)
#undef WEFT_MEMBER
};

}  // namespace weft::nccl
