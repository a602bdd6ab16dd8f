#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "reference/pages.h"
#include "reference/sources.h"
#include "weft/train/infer/choice_scores.h"
#include "weft/train/log/metrics.h"
#include "weft/train/log/step_columns.h"

namespace weft::reference {
namespace {

struct Event {
  const char *name, *when;                                        // a sentence
  std::string line;                                               // as it is logged, with every member
  std::vector<std::pair<const char*, const char*>> members = {};  // their meanings; "event" apart
};

StartRecord WholeStart() {
  StartRecord start{.version = "0", .config = "c", .mesh = {{"replicate", "dp", "tp"}, {1, 1, 1}}, .resumed_step = 1};
  start.kernels = "k";
  return start;
}

StartupRecord WholeStartup() {
  StartupRecord startup;
  startup.seconds.fill(1);
  return startup;
}

const std::vector<Event>& Events() {
  static const std::vector<Event> events = {
      {"start",
       "Written when the log is opened.",
       JsonLine(WholeStart()),
       {{"version", "version of Weft"},
        {"ranks", "number of ranks"},
        {"replicate", "size of this axis of the mesh"},
        {"dp", "size of this axis of the mesh"},
        {"tp", "size of this axis of the mesh"},
        {"parameters", "number of parameters"},
        {"steps", "`train.steps`"},
        {"tokens_per_step", "tokens of the global batch"},
        {"train_tokens", "tokens of the training data; 0 for random tokens"},
        {"val_tokens", "tokens of the validation data"},
        {"data_bytes", "bytes of tokens that each rank holds in memory; 0 if tokens stay in their files"},
        {"device", "`cpu` or `cuda`"},
        {"unix_time", "seconds since 1970"},
        {"config", "the merged config, as YAML"},
        {"resumed_step", "the run continues after this step; absent for a new run"},
        {"kernels", "which kernels were chosen, and why not others; absent if there was no choice"}}},
      {"step",
       "Written after each step.",
       JsonLine(StepRecord{.step = 1, .mfu = 0.5, .peak_bytes = 1, .loss_scale = 2, .skipped = 1}),
       {{"step", "number of the step, from 1"},
        {"loss", "training loss in nats per token, over the global batch"},
        {"grad_norm", "norm of the gradient before clipping"},
        {"lr", "learning rate of the step"},
        {"ms", "duration of the step in milliseconds, without checkpoints that it waited for"},
        {"tokens_per_s", "tokens per second of all ranks"},
        {"mfu", "share of the device's peak FLOP/s; null if the peak is not known"},
        {"peak_bytes", "peak memory of the rank that uses most; null if it is not known"},
        {"loss_scale", "loss scale of the step; only with `precision.compute: f16`"},
        {"skipped", "updates skipped so far; only with `precision.compute: f16`"}}},
      {"startup",
       "Written after the first step of a start: when each phase of the start ended on rank 0, in seconds since its "
       "process "
       "began.",
       JsonLine(WholeStartup()),
       {{"loaded", "the program, its libraries and OpenBLAS were loaded"},
        {"met", "the ranks had met"},
        {"data_read", "the config and the data were read, and all ranks had the same"},
        {"device_open", "the device was open"},
        {"mesh_made", "the groups of the mesh were made"},
        {"graph_made", "the step was traced, differentiated and partitioned"},
        {"planned",
         "the checkpoint to resume from was found, programs to be compiled were planned, and memory was checked"},
        {"weights_set", "initial weights or the checkpoint were in place"},
        {"ready", "the executables were made and the log was open"},
        {"step_done", "the first step had ended, and before it an evaluation that an earlier start left out"}}},
      {"eval",
       "Written after each evaluation; `weft eval --json` prints it too.",
       JsonLine(EvalRecord{.step = 1, .val_loss = 1, .tokens = 1, .bytes = 1, .ms = 1}),
       {{"step", "the last step before it"},
        {"val_loss", "validation loss in nats per token"},
        {"bits_per_byte", "the same in bits per byte of text; null if the bytes are not known"},
        {"tokens", "number of targets"},
        {"bytes", "bytes of text of the targets; null if they are not known"},
        {"ms", "duration in milliseconds"}}},
      {"save",
       "Written after a checkpoint is complete.",
       JsonLine(SaveRecord{.step = 1, .folder = "f", .seconds = 1, .bytes = 1, .stall = 1}),
       {{"step", "the step whose state was saved"},
        {"folder", "the checkpoint"},
        {"seconds", "duration of the save, most of it concurrent with training"},
        {"bytes", "bytes of the files of all ranks"},
        {"gb_per_s", "`bytes` over `seconds`, in 10^9 bytes per second"},
        {"stall_seconds", "how long training waited, on the rank that waited longest"}}},
      {"note",
       "Written for each note that the run prints on stderr; earlier notes follow `start`.",
       JsonLine(NoteRecord{"n"}),
       {{"text", "the note"}}},
      {"profile",
       "Written after the steps of `profile.steps`.",
       JsonLine(ProfileRecord{.first_step = 1, .step = 2, .path = "p"}),
       {{"first_step", "the first profiled step"},
        {"step", "the last profiled step"},
        {"path", "file of the trace"},
        {"step_ms", "milliseconds of a step, mean over steps and ranks"},
        {"kernels", "share of that time in kernels"},
        {"collectives", "share of that time in collectives, while no kernel ran"},
        {"waiting", "the part of that share in which collectives waited for other ranks"},
        {"hidden",
         "the rest of the time of collectives, which kernels or earlier collectives hide, as a share of the same time"},
        {"neither", "the rest of that time"}}},
      {"stop",
       "Written last, if a signal stopped the run.",
       JsonLine(StopRecord{.step = 1, .reason = "SIGTERM"}),
       {{"step", "the last completed step"}, {"reason", "name of the signal"}}},
      {"end",
       "Written last, if the run completed.",
       JsonLine(EndRecord{.step = 1, .seconds = 1, .loss = 1, .val_loss = 1}),
       {{"step", "the last step"},
        {"seconds", "duration of the run"},
        {"loss", "loss of the last step; null if no step ran"},
        {"val_loss", "the last validation loss; null if there was no evaluation"}}},
      {"choices",
       "`weft eval choices=FILE --json` prints it; no log has it.",
       JsonLine(ChoiceRecord{.acc = 1, .acc_norm = 1, .items = 1, .endings = 2, .tokens = 2, .ms = 1}),
       {{"acc", "share of items whose label has the largest log-likelihood"},
        {"acc_norm", "the same by log-likelihood per byte"},
        {"items", "number of items"},
        {"endings", "number of endings"},
        {"tokens", "tokens of the endings"},
        {"ms", "duration in milliseconds"}}},
  };
  return events;
}

std::string SectionOf(const Event& event) {
  nlohmann::ordered_json line = nlohmann::ordered_json::parse(event.line);
  std::map<std::string, const char*> meanings(event.members.begin(), event.members.end());
  std::vector<std::string> described{"event"}, logged;
  for (const auto& [name, meaning] : meanings) described.push_back(name);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : line.items()) {
    logged.push_back(name);
    auto meaning = meanings.find(name);
    if (meaning != meanings.end()) rows.push_back({Code(name), value.type_name(), meaning->second});
  }
  ExpectSame(fmt::format("members of the event {}", event.name), described, logged);
  return fmt::format("\n## {}\n\n{}\n\n{}", event.name, event.when, Table({"member", "type", "meaning"}, rows));
}

// Events in the sources: those of metrics.cc, and those in literal JSON.
std::vector<std::string> EventsInSources(const std::string& root) {
  std::vector<std::string> found = Found(Files(root, {"src"}, {".cc"}), R"rx(\bObject(?: line)?\("([a-z]+)"\))rx");
  for (const std::string& name : Found(Files(root, {"src", "launcher"}, {".cc"}), R"rx("event":"([a-z]+)")rx"))
    found.push_back(name);
  return found;
}

}  // namespace

std::string EventsPage(const Places& places) {
  std::string text = Heading("Log events",
                             "`log.jsonl` names a file that gets one JSON object per line.\n"
                             "Its member `event` has one of these names.\n"
                             "Floating point numbers read back exactly, and unknown or non-finite values are null.");
  std::vector<std::string> names, columns;
  for (const Event& event : Events()) {
    names.emplace_back(event.name);
    text += SectionOf(event);
  }
  ExpectSame("events", names, EventsInSources(places.root));
  for (const StepColumn& column : kStepColumns) columns.push_back(Code(column.name));
  text += fmt::format("\n## Tables\n\n`log.csv` names a file that gets a table of the steps with these columns: {}.\n",
                      fmt::join(columns, ", "));
  std::vector<std::string> tags;
  for (const std::string& tag :
       Found(Files(places.root, {"src/train/log/event_log.cc"}, {".cc"}), R"rx(\{"([a-z_/]+)",)rx"))
    tags.push_back(Code(tag));
  return text + fmt::format("`log.tensorboard` names a folder whose event files have these tags: {}.\n",
                            fmt::join(tags, ", "));
}

}  // namespace weft::reference
