// weft report: a run's log as a page for a browser.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "launcher/command.h"
#include "launcher/report/html_report.h"
#include "weft/core/host/message.h"
#include "weft/train/config/config.h"
#include "weft/train/io/durable.h"
#include "weft/train/io/mapped_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp = R"(usage: weft report LOG|FOLDER [OUT]

Draws the run of LOG, a file of JSON lines that log.jsonl named, or of FOLDER, a run's own, as one HTML page: how it
ended, its loss, rate, gradient norm and learning rate, and its config. The page loads nothing and runs no script. OUT is
LOG with .html for its extension, or FOLDER/report.html, unless given; a run that goes on can be drawn too.

  weft report runs/quickstart
  weft report runs/quickstart/log.jsonl page.html

Exit code: 0 done, 2 bad usage or log, 1 failed while writing.
)";

struct Request {
  std::string log, out;
};

// A file that is no page of ours, another run's log, say: `weft report runs/*.jsonl` names it as OUT.
bool HoldsSomethingElse(const std::string& path) {
  constexpr std::string_view kBegin = "<!DOCTYPE html>";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fs::exists(path, error) && !fs::is_directory(path, error);
  std::string begin(kBegin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return !begin.empty() && begin != kBegin;
}

absl::StatusOr<Request> RequestOf(const Words& words) {
  auto bad = [](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("weft report: {}\nweft report --help says how to use it", what));
  };
  for (const std::string& word : words)
    if (word.starts_with('-')) return bad(fmt::format("expected LOG and OUT, got the flag {:?}", word));
  if (words.empty()) return bad("LOG is missing; expected a file that log.jsonl named, such as runs/quickstart.jsonl");
  if (words.size() > 2) return bad(fmt::format("expected LOG and OUT, got {:?} as well", words[2]));
  std::error_code ignored;
  bool of_run = fs::is_directory(words[0], ignored);
  fs::path log = of_run ? fs::path(words[0]) / "log.jsonl" : fs::path(words[0]);
  fs::path page = of_run ? fs::path(words[0]) / "report.html" : fs::path(log).replace_extension(".html");
  Request request{.log = log.string(), .out = words.size() > 1 ? words[1] : page.string()};
  for (const std::string& input : {request.log, SavedConfigPath(request.log)}) {
    std::error_code error;
    if (input == request.out || fs::equivalent(input, request.out, error))
      return bad(fmt::format("OUT would overwrite {}; give another file", input));
  }
  if (HoldsSomethingElse(request.out))
    return bad(fmt::format("OUT would overwrite {}, which is there and is no page; give another file, or remove it",
                           request.out));
  return request;
}

// As it was saved beside the log, or, where only the log was kept, as its latest start says.
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

// Written aside, so that a browser never meets half a page.
absl::Status WritePage(const std::string& path, const std::string& text) {
  std::string aside = path + ".unfinished";
  absl::Status status = WriteFile(aside, text);
  if (status.ok()) status = PutInPlace(aside, path);
  std::error_code ignored;
  if (!status.ok()) fs::remove(aside, ignored);
  return status;
}

int Fault(const absl::Status& status) {
  PrintStderr("{}\n", std::string(status.message()));
  return absl::IsUnavailable(status) ? 1 : 2;
}

}  // namespace

int ReportCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  absl::StatusOr<Request> request = RequestOf(words);
  if (!request.ok()) return Fault(request.status());
  absl::StatusOr<RunHistory> run = ReadRunHistory(request->log);
  if (!run.ok()) return Fault(run.status());
  absl::StatusOr<std::string> config = ConfigOf(request->log, *run);
  if (!config.ok()) return Fault(config.status());
  if (absl::Status s = WritePage(request->out, HtmlReport(*run, request->log, *config)); !s.ok()) return Fault(s);
  PrintStdout("{}: the run of {}\n", request->out, request->log);
  return 0;
}

}  // namespace weft
