#include "weft/core/host/cores.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <memory>
#include <thread>

namespace weft {
namespace {

constexpr size_t kMostCores = size_t(1) << 20;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

bool Has(std::string_view cores, size_t core) {
  return core / 8 < cores.size() && (uint8_t(cores[core / 8]) >> core % 8 & 1) != 0;
}

void Add(CoreSet& cores, size_t core) {
  cores.resize(std::max(cores.size(), core / 8 + 1));
  cores[core / 8] = char(uint8_t(cores[core / 8]) | 1u << core % 8);
}

int Count(std::string_view cores) {
  int count = 0;
  for (char byte : cores) count += std::popcount(uint8_t(byte));
  return count;
}

// Returns the cores that are in any of the sets.
CoreSet Union(std::span<const CoreSet> sets) {
  CoreSet all;
  for (const CoreSet& set : sets) {
    all.resize(std::max(all.size(), set.size()));
    for (size_t i = 0; i < set.size(); i++) all[i] = char(uint8_t(all[i]) | uint8_t(set[i]));
  }
  return all;
}

}  // namespace

CoreSet AvailableCoreSet() {
  CoreSet cores;
  // The kernel refuses a set that is too small for the host.
  for (size_t most = CPU_SETSIZE; most <= kMostCores; most *= 2) {
    std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(most));
    size_t size = CPU_ALLOC_SIZE(most);
    if (!set || (::sched_getaffinity(0, size, set.get()) != 0 && errno != EINVAL)) break;
    for (size_t core = 0; core < most; core++)
      if (CPU_ISSET_S(core, size, set.get())) Add(cores, core);
    if (!cores.empty()) return cores;
  }
  for (size_t core = 0; core < std::max(1u, std::thread::hardware_concurrency()); core++) Add(cores, core);
  return cores;
}

int AvailableCores() { return Count(AvailableCoreSet()); }

int ShareOfCores(std::string_view mine, std::span<const CoreSet> host, std::optional<int> quota) {
  std::map<int, int> shared;  // by number of ranks that share a core: how many such cores
  for (size_t core = 0; core < 8 * mine.size(); core++)
    if (Has(mine, core))
      shared[int(std::count_if(host.begin(), host.end(), [&](const CoreSet& cores) { return Has(cores, core); }))]++;
  double share = 1e-9;  // so that a third and two thirds are 1 in spite of rounding
  for (auto [ranks, cores] : shared) share += double(cores) / std::max(1, ranks);
  if (quota) share *= std::min(1.0, double(*quota) / Count(Union(host)));
  return std::max(1, int(share));
}

}  // namespace weft
