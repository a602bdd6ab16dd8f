#include "weft/core/compile/pipeline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "weft/core/compile/measure.h"
#include "weft/core/host/host_name.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/passes/accumulate.h"
#include "weft/core/passes/chunk/chunk.h"
#include "weft/core/passes/combine/combine.h"
#include "weft/core/passes/combine/join_rows.h"
#include "weft/core/passes/fuse.h"
#include "weft/core/passes/interleave.h"
#include "weft/core/passes/schedule/schedule.h"
#include "weft/core/passes/simplify.h"

namespace weft {
namespace {

// A program whose kernels wait for no collective keeps its order, which needs less memory. But halves always take
// turns: else all gradients of one would live until those of the other.
bool Interleaves(const LocalProgram& program, const Runtime& runtime) {
  auto waits = [](const auto& node) { return IsCollective(node->op) && node->phase != Phase::kOptimizer; };
  return runtime.overlap == OverlapMode::kHalves ||
         (runtime.Interleaves() && std::ranges::any_of(program.graph.nodes, waits));
}

// How many times as long a GPU takes for a byte of a collective as for one in memory: NVLink moves 220 to 280 GB/s
// between two to four H200s, and their memory 4,260 GB/s.
constexpr double kNvlinkTime = 16;
// The same in NodeTime's unit: on H200s products compute 1.75 times as many FLOPs while memory moves a byte as NodeTime
// has it, up to 750 TFLOP/s.
constexpr double kNvlinkNodeTime = 1.75 * kNvlinkTime;

// Gradients of weights run while collectives do. Where joined ones take longer than one collective, single ones would
// hide several. The other half of a batch hides them all. On CPUs collectives may take as long as all kernels.
LocalProgram Combined(const LocalProgram& program, const Runtime& runtime) {
  if (!runtime.context->numerics().combine) return program;
  bool halves = runtime.overlap == OverlapMode::kHalves, gpu = runtime.device == DeviceKind::kCuda;
  CombineOptions options;
  if (Interleaves(program, runtime) && !halves) options.gradient_bytes = gpu ? kNvlinkNodeTime : 0;
  LocalProgram combined = Combine(program, runtime.kernels(), options);
  return halves ? JoinRows(combined, runtime.kernels()) : combined;
}

// On a GPU a product's chunk, or that of most products, is at least two waves of tiles of 128 x 256 on the 132
// multiprocessors of an H100, because a smaller one wastes more of its last wave.
LocalProgram Chunked(const LocalProgram& program, const Runtime& runtime) {
  ChunkOptions options{.chunks = runtime.chunks};
  if (runtime.device == DeviceKind::kCuda) {
    options.least_outputs = int64_t(2) * 132 * 128 * 256;
    options.link_time = kNvlinkTime;
  }
  return runtime.overlap == OverlapMode::kChunks ? Chunk(program, options) : program;
}

LocalProgram Interleaved(const LocalProgram& program, const Runtime& runtime) {
  if (!Interleaves(program, runtime)) return program;
  bool gpu = runtime.device == DeviceKind::kCuda;
  return Interleave(program, gpu ? kNvlinkNodeTime : std::numeric_limits<double>::infinity());
}

struct Pass {
  const char* name;
  LocalProgram (*run)(const LocalProgram& program, const Runtime& runtime, const RecomputeOptions& recompute);
};
constexpr Pass kPasses[] = {
    {"3.combine", [](const auto& program, const auto& runtime, const auto&) { return Combined(program, runtime); }},
    {"4.fuse",
     [](const auto& program, const auto& runtime, const auto&) {
       return Fuse(program, runtime.kernels(), {.activation_grads = runtime.context->numerics().activation_grads});
     }},
    {"5.recompute",
     [](const auto& program, const auto&, const auto& recompute) { return Recompute(program, recompute); }},
    {"6.simplify", [](const auto& program, const auto&, const auto&) { return Simplify(program); }},
    {"7.chunk", [](const auto& program, const auto& runtime, const auto&) { return Chunked(program, runtime); }},
    {"8.interleave",
     [](const auto& program, const auto& runtime, const auto&) { return Interleaved(program, runtime); }},
    {"9.accumulate", [](const auto& program, const auto& runtime,
                        const auto&) { return Interleaves(program, runtime) ? program : Accumulate(program); }},
    {"10.schedule",
     [](const auto& program, const auto& runtime, const auto&) {
       if (!runtime.Overlaps()) return program;
       return Schedule(program, Interleaves(program, runtime) ? Moved::kNotInterleaved : Moved::kAll);
     }},
};

// All ranks of a host write the same text to the same path. Each first writes a file of its own and then renames it.
void Dump(const Graph& graph, std::string_view name, const char* stage) {
  const char* folder = std::getenv("WEFT_DUMP");
  if (!folder || !*folder || name.empty()) return;
  std::string path = fmt::format("{}/{}.{}.txt", folder, name, stage),
              draft = fmt::format("{}.{}.{}", path, HostName(), gettid());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream file(draft);
  file << Print(graph);
  file.close();
  if (file) std::filesystem::rename(draft, path, error);
  WEFT_CHECK(file && !error, fmt::format("WEFT_DUMP={}: {} cannot be written; expected a folder that can be made and "
                                         "written to, or no WEFT_DUMP",
                                         folder, path));
}

}  // namespace

LocalProgram Lower(const Graph& graph, const PartitionOptions& options, std::string_view name) {
  Dump(graph, name, "1.trace");
  LocalProgram local = Partition(graph, options);
  Dump(local.graph, name, "2.partition");
  return local;
}

Plan Compile(const LocalProgram& program, const Runtime& runtime, std::string_view name,
             const RecomputeOptions& recompute) {
  LocalProgram now = program;
  for (const Pass& pass : kPasses) {
    now = pass.run(now, runtime, recompute);
    Dump(now.graph, name, pass.name);
  }
  MeasureBackends(now.graph, runtime);
  return MakePlan(now, runtime);
}

}  // namespace weft
