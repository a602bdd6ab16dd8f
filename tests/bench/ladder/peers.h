// The ranks of one host, one process per GPU, and their device memory mapped into each other (CUDA IPC over NVLink).
//   World world;   PeerMemory<bf16> shards(world, my_shard);
//   shards.at(3)   is rank 3's memory, which this rank's copy engines can read.
#pragma once
#include <cuda.h>
#include <mpi.h>

#include <memory>

#include "probe.h"

inline void Check(CUresult status, const std::string& what) {
  if (status != CUDA_SUCCESS) throw std::runtime_error(what + ": CUresult " + std::to_string(status));
}

struct World {
  World() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  void Barrier() const { MPI_Barrier(MPI_COMM_WORLD); }
  float Max(float value) const {
    float max = 0;
    MPI_Allreduce(&value, &max, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    return max;
  }
  int rank = 0, size = 1;
};

// Returns the mean time in ms of `timed` launches on the stream, after `settle` launches, on the slowest rank.
// Collective: the ranks begin together, and launches are numbered from 0. A single launch after a pause would be wrong,
// because products that run at the power limit run up to 10 % faster then.
inline float SettledMs(const World& world, cudaStream_t stream, int settle, int timed,
                       const std::function<void(int)>& launch) {
  cudaEvent_t begin, end;
  float ms = 0;
  Check(cudaEventCreate(&begin), "create an event");
  Check(cudaEventCreate(&end), "create an event");
  world.Barrier();
  for (int i = 0; i < settle + timed; ++i) {
    if (i == settle) Check(cudaEventRecord(begin, stream), "record the start");
    launch(i);
  }
  Check(cudaEventRecord(end, stream), "record the end");
  Check(cudaEventSynchronize(end), "run timed launches");
  Check(cudaEventElapsedTime(&ms, begin, end), "read a time");
  Check(cudaEventDestroy(begin), "destroy an event");
  Check(cudaEventDestroy(end), "destroy an event");
  return world.Max(ms / float(timed));
}

template <typename T>
class PeerMemory {
 public:
  // Collective. `mine` is the start of an allocation of cudaMalloc.
  PeerMemory(const World& world, T* mine) : rank_(world.rank), pointers_(world.size, mine) {
    cudaIpcMemHandle_t handle;
    std::vector<cudaIpcMemHandle_t> handles(world.size);
    Check(cudaIpcGetMemHandle(&handle, mine), "export memory to the other ranks");
    MPI_Allgather(&handle, sizeof handle, MPI_BYTE, handles.data(), sizeof handle, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < world.size; ++r) {
      if (r == rank_) continue;
      void* mapped = nullptr;
      Check(cudaIpcOpenMemHandle(&mapped, handles[r], cudaIpcMemLazyEnablePeerAccess), "map rank " + std::to_string(r));
      pointers_[r] = static_cast<T*>(mapped);
    }
  }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory() {
    for (int r = 0; r < int(pointers_.size()); ++r)
      if (r != rank_) cudaIpcCloseMemHandle(pointers_[r]);
  }
  T* at(int rank) const { return pointers_.at(rank); }

 private:
  int rank_;
  std::vector<T*> pointers_;
};

// Writes and waits of 32-bit words by the stream itself. They need no kernel and no multiprocessor, and are captured as
// one graph node.
class MemoryOps {
 public:
  void Write(uint32_t* word, uint32_t value) {
    auto& op = ops_.emplace_back();
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
    op.writeValue.value = value;
  }
  // Waits until the word is at least `value`.
  void Await(uint32_t* word, uint32_t value) {
    auto& op = ops_.emplace_back();
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
    op.waitValue.value = value;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  }
  // Waits for 1 and sets the word back to 0, so that every replay starts from the same state.
  void Take(uint32_t* word) {
    auto& op = ops_.emplace_back();
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
    op.waitValue.value = 1;
    op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    Write(word, 0);
  }
  void Issue(cudaStream_t stream) {
    Check(cuStreamBatchMemOp(stream, unsigned(ops_.size()), ops_.data(), 0), "issue stream memory operations");
  }

 private:
  std::vector<CUstreamBatchMemOpParams> ops_ = {};
};

// A barrier between one stream of every rank. It has two sets of words that are used in turns. A rank that is early at
// the next barrier therefore cannot overwrite the word that a late rank still has to take.
class PeerBarrier {
 public:
  explicit PeerBarrier(const World& world) : world_(world), words_(1 << 19) {
    Check(cudaMemset(words_.data(), 0, words_.size() * 4), "clear the barrier's words");
    Check(cudaDeviceSynchronize(), "prepare a barrier");
    peers_ = std::make_unique<PeerMemory<uint32_t>>(world, words_.data());
    world.Barrier();  // no peer may write a word before it is cleared
  }
  // Collective: no rank may free words that another rank still maps.
  void Close() {
    peers_.reset();
    world_.Barrier();
  }
  void Issue(int set, cudaStream_t stream) const {
    MemoryOps ops;
    for (int p = 0; p < world_.size; ++p)
      if (p != world_.rank) ops.Write(peers_->at(p) + set * world_.size + world_.rank, 1);
    for (int p = 0; p < world_.size; ++p)
      if (p != world_.rank) ops.Take(words_.data() + set * world_.size + p);
    ops.Issue(stream);
  }

 private:
  const World& world_;
  Buffer<uint32_t> words_;
  std::unique_ptr<PeerMemory<uint32_t>> peers_;
};
