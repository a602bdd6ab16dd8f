#include "weft/train/io/mapping_watch.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <vector>

#include "weft/core/base/error.h"

namespace weft {

struct WatchedMapping {
  std::atomic<uintptr_t> begin{0};  // 0: the node is free
  std::atomic<size_t> size{0};
  std::atomic<int64_t> lost{-1};
  WatchedMapping* next = nullptr;
};

namespace {

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<WatchedMapping*>::is_always_lock_free,
              "a signal handler may take no lock");

std::atomic<WatchedMapping*> newest{nullptr};  // head of the list of all nodes
struct sigaction previous;                     // the earlier SIGBUS action; written once, before ours is installed

// If `address` lies in a watched mapping, replaces the mapping with zeros and returns true.
bool PutZeros(uintptr_t address) {
  for (WatchedMapping* m = newest.load(std::memory_order_acquire); m; m = m->next) {
    uintptr_t begin = m->begin;
    size_t size = m->size;
    if (begin == 0 || address < begin || address - begin >= size) continue;
    int64_t none = -1;
    m->lost.compare_exchange_strong(none, int64_t(address - begin));  // before any thread can see the zeros
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    return mmap(reinterpret_cast<void*>(begin), size, PROT_READ, flags, -1, 0) != MAP_FAILED;
  }
  return false;
}

void Handle(int signal, siginfo_t* info, void*) {
  int error = errno;
  bool fault = info->si_code > 0;  // a memory fault, not a signal sent by another process
  if (!fault || !PutZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    sigaction(signal, &previous, nullptr);
    if (!fault) raise(signal);  // a fault recurs by itself
  }
  errno = error;
}

void Install() {
  sigaction(SIGBUS, nullptr, &previous);
  struct sigaction action {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  WEFT_CHECK(sigaction(SIGBUS, &action, nullptr) == 0, "signals: SIGBUS cannot be caught");
}

// The free nodes. Never destroyed, because a file may be unmapped after main returns.
struct Nodes {
  std::mutex mutex;
  std::vector<WatchedMapping*> free;
};
Nodes& AllNodes() {
  static Nodes& nodes = *new Nodes;
  return nodes;
}

}  // namespace

MappingWatch::MappingWatch(std::span<const std::byte> mapped) {
  static std::once_flag installed;
  std::call_once(installed, Install);
  Nodes& nodes = AllNodes();
  std::lock_guard lock(nodes.mutex);
  bool fresh = nodes.free.empty();
  node_ = fresh ? new WatchedMapping : nodes.free.back();
  if (!fresh) nodes.free.pop_back();
  node_->lost = -1;
  node_->size = mapped.size();
  node_->begin = reinterpret_cast<uintptr_t>(mapped.data());
  if (!fresh) return;
  node_->next = newest;
  newest.store(node_, std::memory_order_release);
}

MappingWatch::~MappingWatch() {
  Nodes& nodes = AllNodes();
  std::lock_guard lock(nodes.mutex);
  node_->begin = 0;
  nodes.free.push_back(node_);
}

int64_t MappingWatch::lost() const { return node_->lost; }

}  // namespace weft
