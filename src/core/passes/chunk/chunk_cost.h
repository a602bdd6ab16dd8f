// ChunkCost: what chunks of rows cost and what they save, in the unit of NodeTime.
#pragma once
#include "weft/core/passes/chunk/chunk_links.h"

namespace weft {

class ChunkCost {
 public:
  // link_time: see ChunkOptions.
  ChunkCost(const Links& links, const MeshShape& mesh, ChosenChunks chosen, double link_time)
      : links_(links), mesh_(mesh), chosen_(chosen), link_time_(link_time) {}

  // Whether the product hides more time of the collectives before and after it than its copies take.
  bool Pays(int product) const;
  // The time of a phase's collectives that chunks hide, less that of its copies.
  double Saving(Phase phase) const;

 private:
  // The part of the time of the node's collectives that other chunks may hide.
  double HiddenPart(int i) const;
  double CopyTime(int i) const;
  double LinkTime(int collective) const;
  double LinkTimeAround(int product) const;

  const Links& links_;
  const MeshShape& mesh_;
  ChosenChunks chosen_;
  double link_time_;
};

}  // namespace weft
