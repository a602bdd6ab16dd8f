// weft report: draws the logs of runs as a page for a browser, or their charts as a picture.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "launcher/command.h"
#include "launcher/report/chart_style.h"
#include "launcher/report/comparison.h"
#include "launcher/report/html_report.h"
#include "launcher/report/page.h"
#include "launcher/report/picture.h"
#include "launcher/report/scaling.h"
#include "weft/core/host/message.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config.h"
#include "weft/train/config/run_name.h"
#include "weft/train/io/durable.h"
#include "weft/train/io/mapped_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp = R"(usage: weft report RUN... [OUT.html] [out=FILE] [chart=all]

Draws a run, or several over each other, as one HTML page. RUN is a file of JSON lines that log.jsonl named, the folder of
a run, or the name of a run in runs/. The page of one run has how it ended, its loss, rate, gradient norm and learning
rate, and its config; of several (at most 8) their curves in one chart each, what came of them, and the keys in which
their configs differ. The page loads nothing and runs no script. It is written to out=FILE, or to the last argument
if that ends in .html. By default it is report.html in the run's folder, or next to its log, and compare.html next to the
first of several runs.
A run in progress can be drawn too. For files of weft bench --json, on 1, 2 and 4 ranks for example, the page shows the
rate per rank over the number of ranks.
out=FILE.svg writes the charts as a picture instead, and chart=loss, tokens_per_s, grad_norm, lr or mfu only one of them.

  weft report runs/quickstart
  weft report quickstart quickstart-2
  weft report quickstart out=loss.svg chart=loss
  weft report runs/a.jsonl runs/b.jsonl page.html

Exit code: 0 done, 2 bad usage or log, 1 failed while writing.
)";

struct Request {
  std::vector<std::string> logs, names;  // one per run
  std::string out, chart = "all";

  bool is_picture() const { return out.ends_with(".svg"); }
};

std::vector<Option> OptionsOf(Request& request) {
  std::vector<std::string> charts(std::begin(kChartNames), std::end(kChartNames));
  charts.insert(charts.begin(), "all");
  return {{{.key = "out", .help = "the file of the page or picture"}, &request.out},
          {{.key = "chart", .help = "the chart of a picture", .choices = std::move(charts)}, &request.chart}};
}

// Returns whether a page, or a file that begins with `expected`, would destroy something at this path: an existing file
// that is neither empty nor begins so. A folder is safe, because a page cannot be written there.
bool HoldsSomethingElse(const std::string& path, std::string_view expected) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fs::exists(path, error) && !fs::is_directory(path, error);
  std::string begin(expected.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return !begin.empty() && begin != expected;
}

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("weft report: {}\nweft report --help says how to use it", what));
}

// A run as given by an argument: the folder of a run, the name of a run in runs/, or a log.
struct Named {
  fs::path folder, log;  // the folder is empty if the argument is a log
  std::string name;
};
Named NamedBy(const std::string& word) {
  std::error_code ignored;
  fs::path path(word), of_name = fs::path(RunFolder(word));
  if (!fs::exists(path, ignored) && IsRunName(word) && fs::is_directory(of_name, ignored)) path = of_name;
  if (fs::is_directory(path, ignored)) {
    fs::path folder = path.has_filename() ? path : path.parent_path();  // removes the "/" of "runs/a/"
    return {path, path / "log.jsonl", folder.filename().string()};
  }
  bool of_run = path.filename() == "log.jsonl" && path.has_parent_path();
  return {"", path, of_run ? path.parent_path().filename().string() : path.stem().string()};
}

std::string PageOf(const std::vector<Named>& runs) {
  const Named& first = runs[0];
  if (runs.size() == 1)
    return (first.folder.empty() ? fs::path(first.log).replace_extension(".html") : first.folder / "report.html")
        .string();
  fs::path place =
      first.folder.empty() ? first.log.parent_path() : fs::path(first.folder / "").parent_path().parent_path();
  return (place / "compare.html").string();
}

absl::Status CheckOut(const Request& request) {
  for (const std::string& log : request.logs)
    for (const std::string& input : {log, SavedConfigPath(log)}) {
      std::error_code error;
      if (input == request.out || fs::equivalent(input, request.out, error))
        return Bad(fmt::format("OUT would overwrite {}; give another file", input));
    }
  for (const char* other : {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"})
    if (request.out.ends_with(other))
      return Bad(fmt::format("expected out=FILE.html or out=FILE.svg, got {}", request.out));
  if (HoldsSomethingElse(request.out, request.is_picture() ? kPictureBegin : "<!DOCTYPE html>"))
    return Bad(fmt::format("OUT would overwrite {}, which is there and is no {}; give another file, or remove it",
                           request.out, request.is_picture() ? "picture" : "page"));
  if (request.chart != "all" && !request.is_picture())
    return Bad(fmt::format("expected out=FILE.svg with chart={}, got {}", request.chart, request.out));
  return absl::OkStatus();
}

// Refuses an argument that looks like no path and names nothing. Others are read later.
absl::Status CheckName(const std::string& word) {
  if (std::error_code ignored; fs::exists(word, ignored) || fs::exists(RunFolder(word), ignored))
    return absl::OkStatus();
  if (SetsKey(word)) return Bad(fmt::format("expected RUN, out=FILE or chart=NAME, got {:?}", word));
  if (!IsRunName(word) || word.ends_with(".jsonl")) return absl::OkStatus();
  std::vector<std::string> runs;
  std::error_code none;
  for (fs::directory_iterator it(kRunsFolder, none), end; !none && it != end; it.increment(none))
    runs.push_back(it->path().filename().string());
  return Bad(fmt::format("expected the name of a run in {}/, its folder or its log, got {:?}{}", kRunsFolder, word,
                         DidYouMean(word, runs)));
}

absl::Status CheckRuns(const std::vector<std::string>& logs) {
  if (logs.empty())
    return Bad("RUN is missing; expected the folder of a run or a file that log.jsonl named, such as runs/quickstart");
  if (logs.size() > size_t(kCurveColors))
    return Bad(fmt::format("expected at most {} runs, which have a colour each, got {}", kCurveColors, logs.size()));
  for (size_t i = 0; i < logs.size(); i++)
    for (size_t j = 0; j < i; j++) {
      std::error_code error;
      if (logs[i] == logs[j] || fs::equivalent(logs[i], logs[j], error))
        return Bad(fmt::format("expected runs that differ, got {} twice", logs[i]));
    }
  return absl::OkStatus();
}

absl::StatusOr<Request> RequestOf(Words words) {
  Request request;
  if (absl::Status s = TakeOptions(OptionsOf(request), words).status(); !s.ok()) return s;
  for (const std::string& word : words)
    if (word.starts_with('-')) return Bad(fmt::format("expected RUN and OUT, got the flag {:?}", word));
  if (request.out.empty() && words.size() > 1 && words.back().ends_with(".html")) {
    request.out = words.back();
    words.pop_back();
  }
  std::vector<Named> runs;
  for (const std::string& word : words) {
    if (absl::Status s = CheckName(word); !s.ok()) return s;
    runs.push_back(NamedBy(word));
    request.logs.push_back(runs.back().log.string());
    request.names.push_back(runs.back().name);
  }
  if (absl::Status s = CheckRuns(request.logs); !s.ok()) return s;
  std::set<std::string> names(request.names.begin(), request.names.end());
  if (names.size() < runs.size() || runs.size() == 1) request.names = request.logs;
  if (request.out.empty()) request.out = PageOf(runs);
  if (absl::Status s = CheckOut(request); !s.ok()) return s;
  return request;
}

// Returns the config that was saved next to the log. If only the log was kept, returns the config of its latest start.
absl::StatusOr<std::string> ConfigOf(const std::string& log, const RunHistory& run) {
  std::string path = SavedConfigPath(log);
  std::error_code error;
  if (!fs::exists(path, error)) return run.start.config;
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  std::span<const std::byte> bytes = (*file)->bytes();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (absl::Status s = (*file)->Fault(); !s.ok()) return s;
  return text;
}

// Writes to another file and renames it, so that a browser never reads half a page.
absl::Status WritePage(const std::string& path, const std::string& text) {
  std::string aside = path + ".unfinished";
  absl::Status status = WriteFile(aside, text);
  if (status.ok()) status = PutInPlace(aside, path);
  std::error_code ignored;
  if (!status.ok()) fs::remove(aside, ignored);
  return status;
}

absl::StatusOr<ReportedRun> ReadRun(const std::string& name, const std::string& log) {
  absl::StatusOr<RunHistory> history = ReadRunHistory(log);
  if (!history.ok()) return history.status();
  absl::StatusOr<std::string> config = ConfigOf(log, *history);
  if (!config.ok()) return config.status();
  return ReportedRun{.name = name, .log = log, .history = *std::move(history), .config = *std::move(config)};
}

absl::StatusOr<std::string> PictureOf(const std::vector<ReportedRun>& runs, const std::string& chart) {
  if (absl::Status s = CheckComparable(runs); !s.ok()) return s;
  std::vector<Chart> charts = runs.size() == 1 ? ChartsOf(runs[0].history) : ChartsOf(runs);
  for (size_t i = 0; i < std::size(kChartNames); i++)
    if (chart == kChartNames[i]) charts = {charts[i]};
  std::string picture = Picture(std::move(charts));
  if (picture.empty())
    return absl::InvalidArgumentError(fmt::format("{}: expected values for chart={}, got none", runs[0].log, chart));
  return picture;
}

absl::StatusOr<std::string> TextOf(const Request& request) {
  if (IsBenchFile(request.logs[0])) {
    if (request.chart != "all")
      return Bad(fmt::format("expected no chart= for measurements, whose pictures have all charts, got chart={}",
                             request.chart));
    absl::StatusOr<Scaling> scaling = ReadScaling(request.logs);
    if (!scaling.ok()) return scaling.status();
    if (request.is_picture()) return PictureOf(*scaling);
    return HtmlScaling(*scaling, fmt::format("{}", fmt::join(request.names, ", ")));
  }
  std::vector<ReportedRun> runs;
  for (size_t i = 0; i < request.logs.size(); i++) {
    absl::StatusOr<ReportedRun> run = ReadRun(request.names[i], request.logs[i]);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  if (request.is_picture()) return PictureOf(runs, request.chart);
  if (runs.size() > 1) return HtmlComparison(runs);
  return HtmlReport(runs[0].history, runs[0].name, runs[0].config);
}

int Fault(const absl::Status& status) {
  PrintStderr("{}\n", std::string(status.message()));
  return absl::IsUnavailable(status) ? 1 : 2;
}

}  // namespace

std::vector<Completion> ReportCompletions() {
  Request request;
  return CompletionsOf(OptionsOf(request));
}

int ReportCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  absl::StatusOr<Request> request = RequestOf(words);
  if (!request.ok()) return Fault(request.status());
  absl::StatusOr<std::string> page = TextOf(*request);
  if (!page.ok()) return Fault(page.status());
  if (absl::Status s = WritePage(request->out, *page); !s.ok()) return Fault(s);
  PrintStdout("{}: the {}{} of {}\n", request->out, IsBenchFile(request->logs[0]) ? "measurement" : "run",
              request->logs.size() == 1 ? "" : "s", fmt::join(request->logs, ", "));
  return 0;
}

}  // namespace weft
