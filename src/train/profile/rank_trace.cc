#include "weft/train/profile/rank_trace.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/compile/comm_plan.h"

namespace weft {
namespace {

// Returns "f32[2, 8], i32[2] -> f32[2, 16]": the shapes of this rank's shards. Omits operands without data.
std::string ShapesText(const KernelCall& call) {
  auto list = [](std::span<const TensorView> views) {
    std::vector<std::string> texts;
    for (const TensorView& view : views) {
      if (!view.data) continue;
      std::vector<int64_t> extents;
      for (int d = 0; d < view.rank; d++) extents.push_back(view.dim(d).extent);
      texts.push_back(fmt::format("{}[{}]", Name(view.dtype), fmt::join(extents, ", ")));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return fmt::format("{} -> {}", list(call.in), list(call.out));
}

std::string CallMembers(const Node& node, const KernelCall& call) {
  return fmt::format(R"("scope":{},"line":{},"shapes":{})", JsonText(node.scope ? *node.scope : ""),
                     JsonText(ToString(node.loc)), JsonText(ShapesText(call)));
}

// Returns members that identify the calls of a batch: positions in the plan, op, phase, dtype, modules, lines and
// shapes.
std::string BatchMembers(const ProfiledBatch& batch) {
  std::string members =
      fmt::format(R"("op":"{}","phase":"{}","dtype":"{}","call":{},"calls":{})", Name(batch.node().op),
                  Name(batch.node().phase), Name(batch.node().outputs[0].dtype), batch.first, batch.steps.size());
  if (batch.steps.size() == 1) return members + "," + CallMembers(batch.node(), batch.calls[0]);
  std::string parts;
  for (size_t i = 0; i < batch.steps.size(); i++)
    parts += fmt::format("{}{{{}}}", i ? "," : "", CallMembers(*batch.steps[i].node, batch.calls[i]));
  return members + R"(,"parts":[)" + parts + "]";
}

// Returns, per batch, when the next kernel after it begins.
std::vector<int64_t> NextKernels(std::span<const ProfiledBatch> batches) {
  std::vector<int64_t> next(batches.size(), std::numeric_limits<int64_t>::max());
  for (size_t i = batches.size() - 1; i > 0; i--)
    next[i - 1] = batches[i].is_collective() ? next[i] : batches[i].span.begin;
  return next;
}

std::string NameOf(const ProfiledBatch& batch) {
  if (batch.is_copies()) return "copy";
  return batch.steps.size() == 1 ? Name(batch.node().op)
                                 : fmt::format("{} x {}", Name(batch.node().op), batch.steps.size());
}

}  // namespace

RankTrace::RankTrace(const std::vector<RunProfile::Step>& steps, const Options& options,
                     std::span<const int64_t> last_arrivals)
    : options_(options), last_arrivals_(last_arrivals), modules_(options.origin) {
  for (size_t i = 0; i < steps.size(); i++) AddStep(steps[i], options_.first_step + int64_t(i));
  module_slices_ = modules_.Take();
}

void RankTrace::AddStep(const RunProfile::Step& step, int64_t number) {
  totals_.steps++;
  totals_.step_time += double(step.span.length());
  modules_.Open(fmt::format("step {}", number), step.span.begin);
  size_t n = step.runs.size();
  for (size_t i = 0; i < n; i++) {
    std::string name = n == 1 ? "micro-step and update" : fmt::format("micro-step {} of {}", i + 1, n);
    AddProgram(step.runs[i], n > 1 && i + 1 == n ? name + ", and update" : name);
  }
  modules_.Close(step.span.end);
}

void RankTrace::AddProgram(const RunProfile::ProgramRun& run, const std::string& name) {
  std::vector<ProfiledBatch> batches = BatchesOf(run);
  if (batches.empty()) return;
  std::vector<int64_t> arrivals = TakeArrivals(batches);
  std::vector<Exposed> exposed = ExposedOf(batches, arrivals);
  std::vector<int64_t> next = NextKernels(batches);
  modules_.Open(name, batches[0].span.begin);
  int64_t at = batches[0].span.begin;
  for (size_t i = 0; i < batches.size(); i++) {
    const ProfiledBatch& batch = batches[i];
    batch.is_collective() ? AddCollective(batch, arrivals[i], exposed[i]) : AddKernel(batch);
    // A collective may run at the same time as later kernels, or begin after them. On the module track it has only the
    // time before the next kernel.
    RunProfile::Span own = batch.span;
    if (batch.is_collective()) own = {std::min(own.begin, next[i]), std::min(own.end, next[i])};
    own = {std::max(own.begin, at), std::max(own.end, at)};
    at = own.end;
    modules_.Add(batch, own, Handed(batch));
  }
  modules_.Close(at);
}

// Returns when the last rank arrived in each batch; 0 for kernels.
std::vector<int64_t> RankTrace::TakeArrivals(std::span<const ProfiledBatch> batches) {
  std::vector<int64_t> arrivals;
  for (const ProfiledBatch& batch : batches)
    arrivals.push_back(batch.is_collective() ? last_arrivals_[next_arrival_++] : 0);
  return arrivals;
}

void RankTrace::AddKernel(const ProfiledBatch& batch) {
  totals_.AddKernel(batch);
  std::string members = RateMembers(batch.cost, batch.span.length());
  if (!batch.is_copies()) members += "," + BatchMembers(batch);
  kernels_.push_back({.name = NameOf(batch),
                      .begin = batch.span.begin - options_.origin,
                      .end = batch.span.end - options_.origin,
                      .args = "{" + members + "}"});
}

int64_t RankTrace::Handed(const ProfiledBatch& batch) const {
  if (!batch.is_collective()) return 0;
  int ranks = options_.mesh.sizes[size_t(batch.node().attrs.Int("axis"))];
  int64_t bytes = 0;
  for (const GroupCall& call : GroupCallsOf(batch.node(), ranks)) bytes += call.bytes();
  return bytes;
}

void RankTrace::AddCollective(const ProfiledBatch& batch, int64_t arrival, const Exposed& exposed) {
  auto axis = size_t(batch.node().attrs.Int("axis"));
  auto [begin, end] = batch.span;
  int64_t moves = std::clamp(arrival, begin, end), handed = Handed(batch);
  totals_.AddCollective(batch, options_.mesh.names[axis], exposed, handed);
  std::string members = RateMembers({.bytes = handed}, end - moves);
  members += fmt::format(R"(,"axis":"{}","ranks":{},"waiting us":{:.3f},"moving us":{:.3f},"exposed us":{:.3f},)",
                         options_.mesh.names[axis], options_.mesh.sizes[axis], double(moves - begin) / 1e3,
                         double(end - moves) / 1e3, double(exposed.all) / 1e3);
  auto add = [&](std::string name, int64_t from, int64_t to, std::string args) {
    collectives_[axis].push_back({std::move(name), from - options_.origin, to - options_.origin, std::move(args)});
  };
  add(fmt::format("{} {}", NameOf(batch), options_.mesh.names[axis]), begin, end,
      "{" + members + BatchMembers(batch) + "}");
  if (moves > begin) add("waiting", begin, moves, "{}");
  if (end > moves) add("moving", moves, end, "{}");
}

std::string RankTrace::Events(int rank, const std::string& name) const {
  TraceText text(rank);
  text.NameProcess(name);
  text.AddTrack(1, "modules", module_slices_);
  text.AddTrack(2, "kernels", kernels_);
  for (const auto& [axis, slices] : collectives_)
    text.AddTrack(3 + int(axis), "collectives " + options_.mesh.names[axis], slices);
  return text.events();
}

}  // namespace weft
