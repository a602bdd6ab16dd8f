#include "launcher/report/log_line.h"

#include <algorithm>
#include <limits>
#include <span>

#include "fmt/format.h"
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Reads the members of a line by type. Keeps the error of the first member with the wrong type.
class Members {
 public:
  Members(const Json& object, const std::string& place) : object_(object), place_(place) {}

  std::string Text(const char* key) {
    const Json* value = Find(key, "a string", &Json::is_string);
    return value ? value->get<std::string>() : "";
  }
  std::optional<int64_t> Integer(const char* key) {
    const Json* value = Find(key, "an integer", &Json::is_number_integer);
    return value ? std::optional(value->get<int64_t>()) : std::nullopt;
  }
  std::optional<double> Number(const char* key) {
    const Json* value = Find(key, "a number", &Json::is_number);
    return value ? std::optional(value->get<double>()) : std::nullopt;
  }
  double NumberOrNan(const char* key) { return Number(key).value_or(std::numeric_limits<double>::quiet_NaN()); }
  int64_t Count(const char* key) {
    int64_t count = Integer(key).value_or(0);
    if (count < 0) Bad(key, "an integer >= 0", object_[key]);
    return count;
  }
  int64_t Step() {
    if (!object_.contains("step")) Bad("step", "an integer", "none");
    return Count("step");
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* key, const char* expected, bool (Json::*is)() const) {
    auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return nullptr;
    if (((*found).*is)()) return &*found;
    Bad(key, expected, *found);
    return nullptr;
  }
  void Bad(const char* key, const char* expected, const Json& got) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(fmt::format("{}: {}: expected {}, got {}; give a file that log.jsonl wrote",
                                                     place_, key, expected, Shown(got)));
  }

  const Json& object_;
  const std::string& place_;
  absl::Status status_;
};

LogRecord ReadStart(Members& m) {
  StartRecord r{.version = m.Text("version"), .config = m.Text("config")};
  r.ranks = m.Count("ranks");
  for (const MeshAxis& axis : kMeshAxes) {
    std::string name(axis.name());
    int64_t size = m.Count(name.c_str());
    if (size == 0 && !axis.in_every_mesh) continue;
    r.mesh.names.push_back(name);
    r.mesh.sizes.push_back(int(std::min<int64_t>(size, std::numeric_limits<int>::max())));
  }
  r.parameters = m.Count("parameters");
  r.steps = m.Count("steps");
  r.tokens_per_step = m.Count("tokens_per_step");
  r.train_tokens = m.Count("train_tokens");
  r.val_tokens = m.Count("val_tokens");
  r.data_bytes = m.Count("data_bytes");
  r.resumed_step = m.Integer("resumed_step");
  r.kernels = m.Text("kernels");
  r.device = m.Text("device");
  r.unix_time = m.Count("unix_time");
  return r;
}

LogRecord ReadStep(Members& m) {
  StepRecord r{.step = m.Step(), .loss = m.NumberOrNan("loss"), .grad_norm = m.NumberOrNan("grad_norm")};
  r.lr = m.NumberOrNan("lr");
  r.ms = m.Number("ms").value_or(0);
  r.tokens_per_s = m.NumberOrNan("tokens_per_s");
  r.mfu = m.Number("mfu");
  r.peak_bytes = m.Integer("peak_bytes");
  r.loss_scale = m.Number("loss_scale");
  r.skipped = m.Count("skipped");
  return r;
}

LogRecord ReadEval(Members& m) {
  EvalRecord r{.step = m.Step(), .val_loss = m.NumberOrNan("val_loss"), .tokens = m.Count("tokens")};
  r.bytes = m.Integer("bytes");
  r.ms = m.Number("ms").value_or(0);
  return r;
}

LogRecord ReadEnd(Members& m) {
  EndRecord r{.step = m.Step(), .seconds = m.Number("seconds").value_or(0)};
  r.loss = m.Number("loss");
  r.val_loss = m.Number("val_loss");
  return r;
}

LogRecord ReadStop(Members& m) { return StopRecord{.step = m.Step(), .reason = m.Text("reason")}; }

LogRecord ReadSave(Members& m) {
  SaveRecord r{.step = m.Step(), .folder = m.Text("folder"), .seconds = m.Number("seconds").value_or(0)};
  r.bytes = m.Integer("bytes");
  r.stall = m.Number("stall_seconds");
  return r;
}

LogRecord ReadProfile(Members& m) {
  ProfileRecord r{.first_step = m.Count("first_step"), .step = m.Step(), .path = m.Text("path")};
  r.step_ms = m.NumberOrNan("step_ms");
  r.kernels = m.NumberOrNan("kernels");
  r.collectives = m.NumberOrNan("collectives");
  r.waiting = m.NumberOrNan("waiting");
  r.neither = m.NumberOrNan("neither");
  return r;
}

LogRecord ReadStartup(Members& m) {
  StartupRecord r;
  for (size_t phase = 0; phase < r.seconds.size(); phase++) r.seconds[phase] = m.Number(kStartPhases[phase].name);
  return r;
}

struct EventRow {
  const char* name;
  LogRecord (*read)(Members&);
};
constexpr EventRow kEvents[] = {{"start", ReadStart},     {"step", ReadStep},      {"eval", ReadEval},
                                {"end", ReadEnd},         {"stop", ReadStop},      {"save", ReadSave},
                                {"profile", ReadProfile}, {"startup", ReadStartup}};

}  // namespace

absl::StatusOr<std::optional<LogRecord>> ParseLogLine(std::string_view line, const std::string& place) {
  absl::StatusOr<Json> object = ParseJsonObject(std::as_bytes(std::span(line.data(), line.size())), place);
  if (!object.ok()) return object.status();
  Members members(*object, place);
  std::string name = members.Text("event");
  if (members.status().ok() && name.empty())
    return absl::InvalidArgumentError(place +
                                      ": expected the member event, got none; give a file that log.jsonl wrote");
  std::optional<LogRecord> record;
  for (const EventRow& event : kEvents)
    if (name == event.name) record = event.read(members);
  if (!members.status().ok()) return members.status();
  return record;
}

}  // namespace weft
