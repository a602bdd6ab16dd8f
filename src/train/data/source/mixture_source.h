// MixtureSource: sequences from several sources in given shares. Sequence i of a run takes its source from the seed and
// i. Each source is read in its own order and starts over when it is used up. The order does not depend on the mesh or
// on where a run was stopped.
#pragma once
#include <memory>
#include <vector>

#include "weft/train/data/source/token_source.h"

namespace weft {

class MixtureSource : public TokenSource {
 public:
  struct Part {
    std::unique_ptr<const TokenSource> source;
    double weight = 1;  // its share of the sequences is weight / the sum of all weights
  };
  // Requires at most kMaxSources parts. `key` is the random key of the picks.
  MixtureSource(std::vector<Part> parts, uint64_t key);

  int64_t Fill(const DataPosition& at, int64_t row, BatchSpan out) const override;
  void Skip(int64_t sequences, DataPosition& at) const override;
  size_t num_sources() const override { return parts_.size(); }
  uint64_t Hash() const override;

 private:
  // Returns the index of the source of sequence i.
  size_t Pick(int64_t i) const;

  std::vector<Part> parts_;
  std::vector<uint64_t> ends_;  // upper ends of the ranges of 64-bit numbers that pick each source but the last
  uint64_t key_;
};

}  // namespace weft
