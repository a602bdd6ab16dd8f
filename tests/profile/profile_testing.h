// Reads the trace of a run, and checks the laws that every trace obeys: those of the format, and those of the plans
// that ran.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/core/compile/comm_plan.h"
#include "weft/core/ir/record.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/plan_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft::testing_ {

struct TraceSlice {
  std::string name;
  int64_t begin = 0, end = 0;  // in nanoseconds
  nlohmann::json args;
};
using Tracks = std::map<std::string, std::vector<TraceSlice>>;  // slices in the order of the file

inline int64_t Nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

// Returns the tracks by process; process 1 is rank 0. Checks what the format requires of each event.
inline std::map<int, Tracks> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json trace = nlohmann::json::parse(file);
  std::map<int, Tracks> processes;
  std::map<int, std::string> names;  // names of threads
  std::map<int, int> named;          // how often each process was named
  for (const nlohmann::json& e : trace.at("traceEvents")) {
    int pid = e.at("pid"), tid = e.at("tid");
    EXPECT_GT(pid, 0);
    if (e.at("ph") == "M") {
      named[pid] += e.at("name") == "process_name";
      if (e.at("name") == "thread_name") {
        EXPECT_TRUE(names.emplace(tid, e.at("args").at("name")).second) << "two threads of one number";
        processes[pid][names.at(tid)];
      }
      continue;
    }
    EXPECT_EQ(e.at("ph"), "X");
    EXPECT_GE(double(e.at("ts")), 0);
    EXPECT_GE(double(e.at("dur")), 0);
    int64_t begin = Nanoseconds(e.at("ts"));
    processes[pid][names.at(tid)].push_back({e.at("name"), begin, begin + Nanoseconds(e.at("dur")), e.at("args")});
  }
  EXPECT_EQ(named.size(), processes.size());
  for (auto [pid, count] : named) EXPECT_EQ(count, 1) << pid;
  return processes;
}

// Checks that slices are disjoint or nested. Inner slices come later in the file.
inline void CheckNesting(const std::vector<TraceSlice>& track) {
  std::vector<const TraceSlice*> open;
  int64_t last = 0;
  for (const TraceSlice& slice : track) {
    EXPECT_GE(slice.begin, last) << slice.name;
    last = slice.begin;
    while (!open.empty() && slice.begin >= open.back()->end && slice.end > open.back()->end) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(slice.end, open.back()->end) << slice.name << " and " << open.back()->name;
    }
    open.push_back(&slice);
  }
}

inline bool IsStep(const TraceSlice& slice) { return slice.name.starts_with("step "); }

// Returns the slices of the collectives of all axes, in the order in which they began.
inline std::vector<TraceSlice> CollectivesOf(const Tracks& tracks) {
  std::vector<TraceSlice> calls;
  for (const auto& [name, track] : tracks)
    for (const TraceSlice& slice : track)
      if (name.starts_with("collectives ") && slice.args.contains("call")) calls.push_back(slice);
  std::stable_sort(calls.begin(), calls.end(),
                   [](const TraceSlice& a, const TraceSlice& b) { return a.begin < b.begin; });
  return calls;
}

// Returns the slices of kernel and collective calls, in the order in which they ran.
inline std::vector<TraceSlice> CallsOf(const Tracks& tracks) {
  std::vector<TraceSlice> calls = CollectivesOf(tracks);
  calls.insert(calls.end(), tracks.at("kernels").begin(), tracks.at("kernels").end());
  std::erase_if(calls, [](const TraceSlice& slice) { return !slice.args.contains("call"); });
  std::stable_sort(calls.begin(), calls.end(),
                   [](const TraceSlice& a, const TraceSlice& b) { return a.begin < b.begin; });
  return calls;
}

// Checks that the times of kernels and collectives lie within steps and add up to no more than the steps.
inline void CheckTimes(const Tracks& tracks, int64_t first, int64_t last) {
  std::vector<TraceSlice> steps;
  for (const TraceSlice& slice : tracks.at("modules"))
    if (IsStep(slice)) steps.push_back(slice);
  ASSERT_EQ(int64_t(steps.size()), last - first + 1);
  int64_t in_steps = 0, in_calls = 0;
  for (size_t i = 0; i < steps.size(); i++) {
    EXPECT_EQ(steps[i].name, "step " + std::to_string(first + int64_t(i)));
    in_steps += steps[i].end - steps[i].begin;
  }
  for (const TraceSlice& call : CallsOf(tracks)) {
    in_calls += call.end - call.begin;
    auto within = [&](const TraceSlice& step) { return step.begin <= call.begin && call.end <= step.end; };
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(), within), 1) << call.name;
  }
  EXPECT_GT(in_calls, 0);
  EXPECT_LE(in_calls, in_steps);
}

// A rank's plans of a step in the order in which they run, without allocating memory for them.
struct PlannedStep {
  Context context;
  PlanGroupFactory groups;
  std::unique_ptr<DeviceMesh> mesh;
  std::unique_ptr<TrainingStep> step;
  std::optional<StepPlans> plans;
  std::vector<const Plan*> order;

  PlannedStep(const Config& config, int rank) : context(rank, MeshOf(config).num_ranks()) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    mesh = std::make_unique<DeviceMesh>(context, groups, MeshOf(config));
    StepOptions options = StepOptionsOf(config);
    options.kernels = &context.kernels(DeviceKind::kCpu);
    step = std::make_unique<TrainingStep>(ModelOf(config), options);
    plans = step->Compile(RuntimeOf(context, *mesh));
    for (int j = 0; j + 1 < options.micro_steps; j++) order.push_back(&*plans->accumulate);
    order.push_back(&plans->step);
  }
  // Returns the calls and bytes of a step, by axis and op.
  std::map<std::string, std::pair<int64_t, int64_t>> Collectives() const {
    std::map<std::string, std::pair<int64_t, int64_t>> sums;
    auto add = [&](const LocalProgram& program, int times) {
      for (const CommLine& line : CommPlan(program, times)) {
        auto& [calls, bytes] = sums[std::string(Name(line.op)) + " " + line.axis_name];
        calls += line.times;
        bytes += line.times * line.bytes;
      }
    };
    if (step->accumulate()) add(*step->accumulate(), step->options().micro_steps - 1);
    add(step->step(), 1);
    return sums;
  }
};

// Checks that the trace has every call of the plans once for each run of its plan, with its op, module and FLOPs.
// Shards are even here, so a chunk has no padding.
inline void CheckCalls(const Tracks& tracks, const PlannedStep& planned, int64_t steps) {
  std::vector<TraceSlice> calls = CallsOf(tracks);
  size_t next = 0;
  double flops = 0, planned_flops = 0;
  for (int64_t step = 0; step < steps; step++)
    for (const Plan* plan : planned.order)
      for (size_t at = 0; at < plan->steps.size(); next++) {
        ASSERT_LT(next, calls.size());
        const nlohmann::json& args = calls[next].args;
        ASSERT_EQ(size_t(args.at("call")), at);
        double of_call = 0;
        for (size_t end = at + size_t(args.at("calls")); at < end; at++) {
          const Node& node = *plan->steps[at].node;
          EXPECT_EQ(args.at("op"), Name(node.op));
          EXPECT_EQ(args.at("phase"), Name(node.phase));
          of_call += ProductFlops(node);
          if (args.at("calls") > 1) continue;
          EXPECT_EQ(args.at("scope"), node.scope ? *node.scope : "");
          EXPECT_EQ(args.at("line"), ToString(node.loc));
          EXPECT_TRUE(std::string(args.at("shapes")).ends_with("]"));
        }
        EXPECT_GE(int64_t(args.at("bytes")), 0);
        EXPECT_EQ(args.value("flops", 0.0), of_call) << calls[next].name;
        flops += args.value("flops", 0.0);
        planned_flops += of_call;
      }
  EXPECT_EQ(next, calls.size());
  EXPECT_EQ(flops, planned_flops);
  EXPECT_GT(flops, 0);
}

inline void CheckCollectives(const Tracks& tracks, const PlannedStep& planned, int64_t steps) {
  std::map<std::string, std::pair<int64_t, int64_t>> got;
  for (const TraceSlice& slice : CollectivesOf(tracks)) {
    auto& [calls, bytes] = got[slice.name];
    calls++;
    bytes += int64_t(slice.args.at("bytes"));
    EXPECT_EQ(Nanoseconds(slice.args.at("waiting us")) + Nanoseconds(slice.args.at("moving us")),
              slice.end - slice.begin);
  }
  auto want = planned.Collectives();
  for (auto& [name, sum] : want) sum = {sum.first * steps, sum.second * steps};
  EXPECT_EQ(got, want);
}

// Checks, on one host, that a rank waits in a collective until the last rank of its group has begun it.
inline void CheckWaiting(const std::map<int, Tracks>& processes, const MeshShape& mesh) {
  std::map<int, std::vector<TraceSlice>> collectives;
  for (const auto& [pid, tracks] : processes) collectives[pid - 1] = CollectivesOf(tracks);
  for (const auto& [rank, mine] : collectives)
    for (size_t i = 0; i < mine.size(); i++) {
      int64_t last = 0;
      size_t axis = size_t(mesh.Axis(std::string(mine[i].args.at("axis"))));
      EXPECT_EQ(int(mine[i].args.at("ranks")), mesh.sizes[axis]);
      for (const auto& [other, theirs] : collectives) {
        Coords a = mesh.CoordsOf(rank), b = mesh.CoordsOf(other);
        a[axis] = b[axis];
        if (a == b) last = std::max(last, theirs.at(i).begin);
      }
      int64_t waited = std::clamp(last, mine[i].begin, mine[i].end) - mine[i].begin;
      EXPECT_EQ(Nanoseconds(mine[i].args.at("waiting us")), waited) << mine[i].name;
    }
}

inline void CheckTrace(const Config& config, int64_t first, int64_t last) {
  std::map<int, Tracks> processes = ReadTrace(config.profile.path);
  MeshShape mesh = MeshOf(config);
  ASSERT_EQ(int(processes.size()), mesh.num_ranks());
  for (const auto& [pid, tracks] : processes) {
    PlannedStep planned(config, pid - 1);
    std::set<std::string> axes;
    for (const auto& [name, sum] : planned.Collectives()) axes.insert(name.substr(name.find(' ')));
    EXPECT_EQ(tracks.size(), 2 + axes.size());
    for (const auto& [name, track] : tracks) CheckNesting(track);
    CheckTimes(tracks, first, last);
    CheckCalls(tracks, planned, last - first + 1);
    CheckCollectives(tracks, planned, last - first + 1);
  }
  CheckWaiting(processes, mesh);
}

// The meshes of these tests divide the sizes. Tokens are random, so ranks share no files except rank 0's.
inline absl::StatusOr<Config> ProfiledConfig(const std::vector<std::string>& words) {
  absl::StatusOr<Config> config = ParseConfig(
      "model: {family: gpt2, layers: 2, heads: 2, dim: 8, context: 8}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 5, global_batch: 4}\n",
      "a.yaml", words);
  if (!config.ok()) return config;
  if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
  if (absl::Status s = ResolveVocab(*config, 256); !s.ok()) return s;
  return config;
}

inline absl::Status TrainRank(const Config& config, Context& context, GroupFactory& groups, StopGate* stop = nullptr) {
  absl::StatusOr<Dataset> data = Dataset::Load(config);
  if (!data.ok()) return data.status();
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  DeviceMesh mesh(context, groups, MeshOf(config));
  mesh.set_overlap(config.parallel.overlap, int(config.parallel.chunks));
  return Trainer(config, *data, context, mesh, DeviceKind::kCpu, {.stop = stop}).Run();
}

inline std::vector<nlohmann::json> EventsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

// Returns the losses of a log with all digits.
inline std::vector<double> LossesOf(const std::string& path) {
  std::vector<double> losses;
  for (const nlohmann::json& event : EventsOf(path))
    if (event["event"] == "step") losses.push_back(event["loss"]);
  return losses;
}

}  // namespace weft::testing_
