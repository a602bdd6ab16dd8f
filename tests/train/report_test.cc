// Reports: what a log's lines say of a run, in bounded memory; curves that lose no spike; pages that a log cannot
// break.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>

#include "launcher/report/axis.h"
#include "launcher/report/chart.h"
#include "launcher/report/comparison.h"
#include "launcher/report/html_report.h"
#include "launcher/report/log_line.h"
#include "launcher/report/run_summary.h"
#include "launcher/report/smoothing.h"
#include "train/temp_folder.h"

namespace weft {
namespace {

using testing_::TempFolder;

const double kNan = std::nan("");

std::string Start(int64_t steps, std::optional<int64_t> resumed = {}) {
  StartRecord r{.version = "0", .config = "train: {steps: 6} # <script>\n", .mesh = {{"dp", "tp"}, {1, 1}}};
  r.parameters = 1234, r.steps = steps, r.tokens_per_step = 100, r.resumed_step = resumed;
  return JsonLine(r) + "\n";
}
std::string Step(int64_t step, double loss) {
  StepRecord r{.step = step, .loss = loss, .grad_norm = 1, .lr = 1e-3, .ms = 500, .tokens_per_s = 200};
  return JsonLine(r) + "\n";
}
std::string Eval(int64_t step, double loss) {
  return JsonLine(EvalRecord{.step = step, .val_loss = loss, .tokens = 10, .bytes = 10, .ms = 250}) + "\n";
}
std::string End(int64_t step) { return JsonLine(EndRecord{.step = step, .seconds = 9}) + "\n"; }
std::string Stop(int64_t step) { return JsonLine(StopRecord{.step = step, .reason = "SIGUSR1"}) + "\n"; }

absl::StatusOr<RunHistory> Read(const std::string& log) {
  TempFolder folder;
  return ReadRunHistory(folder.Write("a.jsonl", log));
}
RunHistory Good(const std::string& log) {
  absl::StatusOr<RunHistory> run = Read(log);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : RunHistory();
}
std::string Value(const RunHistory& run, const std::string& name) {
  for (const SummaryRow& row : SummaryOf(run))
    if (row.name == name) return row.value;
  return "";
}

// Whatever the number of steps, every value is in the bucket of its step, and there are few buckets.
TEST(Series, KeepsLowestHighestAndMeanOfEachRange) {
  std::mt19937 random(1);
  for (int64_t steps : {1, 2, 1023, 1024, 1025, 5000, 70000}) {
    Series series;
    std::vector<double> values;
    for (int64_t step = 0; step < steps; step++) {
      values.push_back(step % 7 == 3 ? kNan : double(random()) / 1e9);
      series.Add(step, values.back());
    }
    const auto& buckets = series.buckets();
    ASSERT_LE(buckets.size(), Series::kMostBuckets);
    ASSERT_GT(2 * buckets.size() + 1, std::min<size_t>(size_t(steps), Series::kMostBuckets));
    int64_t width = 1;
    while (width * int64_t(buckets.size()) < steps) width *= 2;
    for (size_t i = 0; i < buckets.size(); i++) {
      Series::Bucket b;
      for (int64_t s = int64_t(i) * width; s < std::min(steps, int64_t(i + 1) * width); s++)
        b.Add(double(s), values[size_t(s)]);
      EXPECT_EQ(buckets[i].count, b.count);
      EXPECT_EQ(buckets[i].missing, b.missing);
      EXPECT_EQ(buckets[i].low, b.low);
      EXPECT_EQ(buckets[i].high, b.high);
      EXPECT_NEAR(buckets[i].sum, b.sum, 1e-9 * std::abs(b.sum));  // the sums are in another order
      EXPECT_EQ(buckets[i].step_sum, b.step_sum);
    }
  }
}

TEST(Series, TakesTheLargestStep) {
  Series series;
  series.Add(1'000'000'000, 2);
  series.Add(1, 3);
  EXPECT_LE(series.buckets().size(), Series::kMostBuckets);
  EXPECT_EQ(series.Whole().high, 3);
}

// Ticks are round, within the axis, and about as many as asked for.
TEST(Axis, HasRoundTicks) {
  for (auto [low, high] : {std::pair{0.0, 1.0}, {-3.0, 17.0}, {1.0, 1e6}, {2.4137, 2.4139}, {0.0, 6e-4}}) {
    Axis axis(low, high);
    std::vector<double> ticks = axis.Ticks(8);
    EXPECT_GE(ticks.size(), 2u) << low << " " << high;
    EXPECT_LE(ticks.size(), 9u);
    for (double t : ticks) EXPECT_TRUE(axis.At(t) >= 0 && axis.At(t) <= 1) << t;
  }
  EXPECT_EQ(Axis(0, 10).Ticks(5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(Axis(3, 700, true).Ticks(5), (std::vector<double>{5, 10, 20, 50, 100, 200, 500}));
  EXPECT_EQ(Axis(1, 1e9, true).Ticks(5).size(), 10u);
  EXPECT_DOUBLE_EQ(Axis(1, 100, true).At(10), 0.5);
  for (double value : {-2.0, 0.0, 5.0}) EXPECT_DOUBLE_EQ(Axis(value, value).At(value), 0.5);
  EXPECT_EQ(TickText(0.30000000000000004), "0.3");
  EXPECT_EQ(TickText(2000), "2000");
  EXPECT_EQ(TickText(12500), "12.5K");
  EXPECT_EQ(TickText(3e6), "3M");
}

TEST(LogLine, ReadsBackWhatJsonLineWrote) {
  StartRecord start{
      .version = "1", .config = "a: \"b\"\n", .ranks = 4, .mesh = {{"dp", "tp"}, {2, 2}}, .parameters = 5};
  start.steps = 6, start.tokens_per_step = 7, start.train_tokens = 8, start.val_tokens = 9, start.resumed_step = 3;
  start.data_bytes = 11, start.kernels = "k", start.device = "cpu", start.unix_time = 1'700'000'000;
  StepRecord step{.step = 3, .loss = 1.0 / 3, .grad_norm = kNan, .lr = 1e-3, .ms = 2, .tokens_per_s = 5}, f16 = step;
  f16.mfu = 0.4, f16.peak_bytes = 12, f16.loss_scale = 8, f16.skipped = 1;
  EvalRecord eval{.step = 3, .val_loss = 2.5, .tokens = 4, .bytes = 8, .ms = 1}, no_bytes{.step = 3};
  EndRecord end{.step = 3, .seconds = 1.5, .loss = 2}, none{.step = 3};
  StopRecord stop{.step = 3, .reason = "SIGTERM"};
  SaveRecord save{.step = 3, .folder = "runs/a b/step-000003", .seconds = 0.25}, measured = save;
  measured.bytes = 1'000'000, measured.stall = 0.125;
  ProfileRecord profile{.first_step = 2, .step = 3, .path = "p.json", .step_ms = 0.1, .kernels = 1.0 / 3};
  StartupRecord startup, no_phase;
  for (size_t phase = 0; phase < startup.seconds.size(); phase++) startup.seconds[phase] = double(phase) / 3;
  for (const LogRecord& record : std::vector<LogRecord>{start, step, f16, eval, no_bytes, end, none, stop, save,
                                                        measured, profile, startup, no_phase}) {
    std::string line = std::visit([](const auto& r) { return JsonLine(r); }, record);
    absl::StatusOr<std::optional<LogRecord>> read = ParseLogLine(line, "a:1");
    ASSERT_TRUE(read.ok() && *read) << read.status();
    EXPECT_EQ((*read)->index(), record.index());
    EXPECT_EQ(std::visit([](const auto& r) { return JsonLine(r); }, **read), line);
  }
  EXPECT_EQ(*ParseLogLine("{\"event\":\"later\",\"x\":1}", "a:1"), std::nullopt);
}

TEST(LogLine, SaysWhatIsWrong) {
  auto error = [](const char* line) { return std::string(ParseLogLine(line, "a:7").status().message()); };
  for (auto [line, text] :
       {std::pair{"[1]", "a:7: expected a JSON object, got [1]"},
        {"{\"a\":1}", "a:7: expected the member event, got none"},
        {"{\"event\":3}", "a:7: event: expected a string, got 3"},
        {"{\"event\":\"step\"}", "a:7: step: expected an integer, got \"none\""},
        {"{\"event\":\"step\",\"step\":-1}", "a:7: step: expected an integer >= 0, got -1"},
        {"{\"event\":\"step\",\"step\":1.5}", "a:7: step: expected an integer, got 1.5"},
        {"{\"event\":\"step\",\"step\":1,\"loss\":\"x\"}", "a:7: loss: expected a number, got \"x\""},
        {"{\"event\":\"end\",\"step\":1,\"step\":2}", "the key \"step\" is there twice"}})
    EXPECT_NE(error(line).find(text), std::string::npos) << error(line);
}

TEST(RunHistory, HoldsARunFromStartToEnd) {
  RunHistory run = Good(Start(3) + Step(1, 4) + Step(2, 3) + Eval(2, 2.5) + Step(3, 2) + Eval(3, 2.75) + End(3));
  EXPECT_EQ(run.last->step, 3);
  EXPECT_EQ(run.best_eval->step, 2);
  EXPECT_EQ(run.last_eval->step, 3);
  EXPECT_EQ(run.tokens, 300);
  EXPECT_EQ(run.seconds, 9);
  EXPECT_EQ(run.loss.Whole().count, 3);
  EXPECT_EQ(Value(run, "state"), "done: 3 steps");
  EXPECT_EQ(Value(run, "best validation loss"), "2.5000 nats per token, 3.6067 bits per byte, after step 2");
  EXPECT_EQ(Value(run, "tokens per second"), "200 on average");
  EXPECT_EQ(Value(run, "resumed"), "");
}

// The times are those between the phases that are there, and the latest start counts.
TEST(RunHistory, ShowsWhereTheStartWent) {
  StartupRecord r;
  r.seconds[size_t(StartPhase::kLoaded)] = 0.25, r.seconds[size_t(StartPhase::kMet)] = 1;
  r.seconds[size_t(StartPhase::kStepDone)] = 3.5;
  std::string log = Start(3) + Step(1, 4) + JsonLine(r) + "\n";
  EXPECT_EQ(Value(Good(log), "start"),
            "3.50s to the end of the first step: program 0.25s, ranks 0.75s, first step 2.50s");
  EXPECT_EQ(Value(Good(log + Start(3, 1)), "start"), "");
}

// The latest start's word on how it ended counts, and a stop before the first step is one.
TEST(RunHistory, TellsAStopUntilTheRunGoesOn) {
  EXPECT_EQ(Value(Good(Start(3) + Step(1, 4) + Stop(1)), "state"), "stopped by SIGUSR1 after step 1 of 3");
  EXPECT_EQ(Value(Good(Start(3) + Stop(0)), "state"), "stopped by SIGUSR1 after step 0 of 3");
  std::string log = Start(3) + Step(1, 4) + Stop(1) + Start(3, 1) + Step(2, 4);
  EXPECT_EQ(Value(Good(log), "state"), "no end is logged: killed, failed or running after step 2 of 3");
  EXPECT_EQ(Value(Good(log + Step(3, 2) + End(3)), "state"), "done: 3 steps");
}

// Steps after a checkpoint from which a later start continued do not count, but it took its time.
TEST(RunHistory, OfAStepThatWasRunTwiceTheLatestCounts) {
  std::string log = Start(6) + Step(1, 10) + Step(2, 9) + Step(3, 800) + Eval(3, 0.1) + Step(4, kNan);
  log += Start(6, 2) + Step(3, 8) + Step(4, 7) + Step(5, 900) + Start(6, 4) + Step(5, 6) + Eval(5, 6.5) + Step(6, 5);
  RunHistory run = Good(log + End(6));
  Series::Bucket loss = run.loss.Whole();
  EXPECT_EQ(loss.count, 6);
  EXPECT_EQ(loss.sum, 10 + 9 + 8 + 7 + 6 + 5);
  EXPECT_EQ(loss.missing, 0);
  EXPECT_EQ(run.best_eval->val_loss, 6.5);
  EXPECT_EQ(run.resumed, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(run.tokens, 600);
  EXPECT_DOUBLE_EQ(run.seconds, 4 * 0.5 + 0.25 + 3 * 0.5 + 9);
  EXPECT_EQ(Value(run, "resumed"), "after step 2, 4");
  run = Good(log + Start(6, 1));  // killed before its first step
  EXPECT_EQ(run.last->step, 1);
  EXPECT_EQ(Value(run, "state"), "no end is logged: killed, failed or running after step 1 of 6");
}

// Cut anywhere, the last line is passed over, or whole without its newline; so is one that a start follows.
TEST(RunHistory, ACutLineIsPassedOver) {
  std::string head = Start(3) + Step(1, 4), line = Step(2, 3);
  for (size_t size = 1; size < line.size(); size++) {
    std::string cut = head + line.substr(0, size);
    bool whole = size == line.size() - 1;
    EXPECT_EQ(Good(cut).last->step, whole ? 2 : 1) << size;
    EXPECT_EQ(Good(cut).cut_lines, whole ? 0 : 1) << size;
    RunHistory run = Good(cut + "\n" + Start(3, 1) + Step(2, 2));
    EXPECT_EQ(run.loss.Whole().sum, 6) << size;
    if (whole) continue;
    std::string error(Read(cut + "\n" + Step(3, 1)).status().message());
    EXPECT_NE(error.find("a.jsonl:3: expected"), std::string::npos) << error;
  }
}

TEST(RunHistory, ALossThatIsNotFiniteIsNoPoint) {
  RunHistory run = Good(Start(3) + Step(1, 4) + Step(2, kNan));
  EXPECT_EQ(run.loss.Whole().missing, 1);
  EXPECT_EQ(Value(run, "state"), "failed: the loss or the gradient norm of step 2 is not finite");
  EXPECT_NE(HtmlReport(run, "a", "").find("4 to 4, 1 not finite"), std::string::npos);
}

TEST(RunHistory, RefusesWhatIsNoLog) {
  for (auto [log, text] : {std::pair{std::string(), "a.jsonl: expected a log with a start event, got none"},
                           {Step(1, 4), "a.jsonl:1: expected the start event first, got another"},
                           {std::string("model: {}\n"), "a.jsonl:1: expected the log of a run"},
                           {std::string("a\nb\n"), "a.jsonl:1: expected the log of a run"},
                           {std::string(3 << 20, 'x'), "a.jsonl:1: expected a JSON object, got a line of more than"}})
    EXPECT_NE(std::string(Read(log).status().message()).find(text), std::string::npos) << Read(log).status();
  TempFolder folder;
  std::string message(ReadRunHistory(folder.Path()).status().message());
  EXPECT_NE(message.find("expected a file of JSON lines, got a folder"), std::string::npos) << message;
  message = std::string(ReadRunHistory(folder.Path("none")).status().message());
  EXPECT_NE(message.find("got nothing of that name"), std::string::npos) << message;
}

// The band of a spike of one step in 50000 reaches the top of its chart; the page stays small.
TEST(HtmlReport, OfALongRunIsSmallAndLosesNoSpike) {
  RunHistory run;
  run.start.steps = 50000;
  for (int64_t step = 1; step <= 50000; step++) {
    double loss = step == 31234 ? 9 : 4 + std::sin(double(step));
    run.last = StepRecord{.step = step, .loss = loss};
    for (Series* series : {&run.loss, &run.grad_norm, &run.lr, &run.tokens_per_s}) series->Add(step, loss);
  }
  std::string page = HtmlReport(run, "a", "");
  EXPECT_LT(page.size(), 300u << 10);
  EXPECT_NE(page.find("training</b> 3 to 9"), std::string::npos);
  std::string svg = Svg({"t", "unit", {{"c", &run.loss}}});
  std::string band = svg.substr(svg.find("<polygon points=\""));
  EXPECT_TRUE(std::regex_search(band.substr(0, band.find('>')), std::regex("[0-9.]+,34\\.0 "))) << "kTop is 34";
}

TEST(HtmlReport, EscapesWhatALogHolds) {
  RunHistory run = Good(Start(1) + Step(1, 4));
  run.start.kernels = run.start.device = run.start.version = "<img src=x onerror='a()'>\"&";
  std::string page = HtmlReport(run, "</title><b>\"&'", "</pre><script>a & b</script>");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("</title><b>"), std::string::npos);
  EXPECT_NE(page.find("<h1>&lt;/title&gt;&lt;b&gt;&quot;&amp;&#39;</h1>"), std::string::npos);
  EXPECT_NE(page.find("<pre>&lt;/pre&gt;&lt;script&gt;a &amp; b&lt;/script&gt;</pre>"), std::string::npos);
  EXPECT_EQ(page.find("http"), page.find("http-equiv")) << "nothing is loaded from elsewhere";
  EXPECT_EQ(page.find("http", page.find("http-equiv") + 1), std::string::npos);
}

// Every element is closed, in order.
void ExpectWellFormed(const std::string& page) {
  std::vector<std::string> open;
  std::regex tag("<(/?)([a-z0-9]+)[^>]*?(/?)>");
  for (std::sregex_iterator it(page.begin(), page.end(), tag), end; it != end; ++it) {
    if ((*it)[3].length() || (*it)[2] == "meta") continue;
    if ((*it)[1].length() == 0) {
      open.push_back((*it)[2]);
    } else {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*it)[2]);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) count++;
  return count;
}

TEST(HtmlReport, IsWellFormed) {
  for (const std::string& log : {Start(1), Start(3) + Step(1, 40) + Eval(1, 3) + Step(2, kNan) + Step(3, 1) + End(3)})
    ExpectWellFormed(HtmlReport(Good(log), "a", "b: c\n"));
}

// The first and the last value stay, a constant curve stays, and the sum of differences shrinks.
TEST(Smoothed, IsTheMeanOfAWindow) {
  EXPECT_TRUE(Smoothed({}).empty());
  for (int n : {1, 2, 19, 20, 100, 1024}) {
    auto size = size_t(n);
    std::vector<Series::Bucket> constant(size), noisy(size);
    for (int i = 0; i < n; i++) {
      constant[size_t(i)].Add(i, 3);
      noisy[size_t(i)].Add(i, i % 2 ? 1 : -1);
    }
    for (const Series::Bucket& b : Smoothed(constant)) EXPECT_DOUBLE_EQ(b.mean(), 3);
    std::vector<Series::Bucket> smooth = Smoothed(noisy);
    ASSERT_EQ(smooth.size(), noisy.size());
    EXPECT_EQ(smooth.front().mean(), noisy.front().mean());
    EXPECT_EQ(smooth.back().mean(), noisy.back().mean());
    for (size_t i = 0; i < smooth.size(); i++) {
      EXPECT_EQ(smooth[i].step(), noisy[i].step());
      bool inside = n >= 100 && i > 10 && i + 10 < smooth.size();
      EXPECT_LE(std::abs(smooth[i].mean()), inside ? 0.2 : 1);
    }
  }
}

// The curve of validation is drawn last, and each training curve has a pale line under its smooth one.
TEST(Chart, DrawsSmoothOverPaleAndValidationOnTop) {
  RunHistory run = Good(Start(3) + Step(1, 4) + Eval(1, 3.5) + Step(2, 3) + Eval(2, 2.5) + Step(3, 2) + End(3));
  Curve validation{.name = "v", .series = &run.val_loss, .color = 1, .is_validation = true};
  std::string svg = Svg({"Loss", "nats per token", {validation, {"t", &run.loss}}});
  size_t training = svg.find("<g class=\"c0\">"), raw = svg.find("class=\"raw\""),
         above = svg.find("<g class=\"c1 validation\">");
  ASSERT_TRUE(training != svg.npos && raw != svg.npos && above != svg.npos) << svg;
  EXPECT_LT(training, raw);
  EXPECT_LT(raw, svg.find("<polyline points", raw));
  EXPECT_LT(svg.find("<polyline points", raw), above);
  EXPECT_NE(svg.find(">nats per token</text>"), svg.npos);
  EXPECT_NE(svg.find(">step</text>"), svg.npos);
}

ReportedRun Reported(const std::string& name, const std::string& log, const std::string& config) {
  return {.name = name, .log = name + ".jsonl", .history = Good(log), .config = config};
}

TEST(Comparison, OverlaysRunsAndNamesTheKeysThatDiffer) {
  std::string log = Start(2) + Step(1, 4) + Eval(1, 3) + Step(2, 3) + Eval(2, 2) + End(2);
  const std::vector<ReportedRun> runs{
      Reported("a", log, "optimizer:\n  lr: 0.1\n  name: adamw\ndata: {train: [x, y]}\n"),
      Reported("<b>", Start(2) + Step(1, 9),
               "optimizer:\n  lr: 0.2\n  name: adamw\nthreads: 2\ndata: {train: [x, y]}\n"),
      Reported("c", log, "optimizer:\n  lr: 0.1\n  name: adamw\ndata: {train: [x]}\n")};
  absl::StatusOr<std::string> page = HtmlComparison(runs);
  ASSERT_TRUE(page.ok()) << page.status();
  ExpectWellFormed(*page);
  EXPECT_EQ(page->find("<b>b"), page->npos) << "names are escaped";
  EXPECT_NE(page->find("<b class=\"c0\">a</b> &middot; <b class=\"c1\">&lt;b&gt;</b> &middot; <b class=\"c2\">c</b>"),
            page->npos);
  for (const char* color : {"c0", "c1", "c2"})
    EXPECT_EQ(Count(*page, fmt::format("<g class=\"{}\">", color)), 4u) << color;
  EXPECT_EQ(Count(*page, "validation\">\n<polyline"), 2u) << "b has no validation";
  EXPECT_NE(page->find("width=device-width"), page->npos);
  EXPECT_NE(page->find("done: 2 steps"), page->npos);
  absl::StatusOr<std::vector<DifferentKey>> keys = DifferentKeys(runs);
  ASSERT_TRUE(keys.ok()) << keys.status();
  std::vector<std::string> names;
  for (const DifferentKey& key : *keys) names.push_back(key.key);
  EXPECT_EQ(names, (std::vector<std::string>{"optimizer.lr", "data.train", "threads"}));
  EXPECT_EQ((*keys)[0].values, (std::vector<std::string>{"0.1", "0.2", "0.1"}));
  EXPECT_EQ((*keys)[1].values, (std::vector<std::string>{"[x, y]", "[x, y]", "[x]"}));
  EXPECT_EQ((*keys)[2].values, (std::vector<std::string>{"(not set)", "2", "(not set)"}));
  for (const char* cell : {"<th>optimizer.lr</th><td>0.1</td><td>0.2</td><td>0.1</td>", "<td>(not set)</td>"})
    EXPECT_NE(page->find(cell), page->npos) << cell;
}

TEST(Comparison, SaysThatConfigsAreTheSameOrLossesAreNot) {
  std::string log = Start(1) + Step(1, 4);
  absl::StatusOr<std::string> same =
      HtmlComparison(std::vector{Reported("a", log, "threads: 1\n"), Reported("b", log, "threads: 1\n")});
  ASSERT_TRUE(same.ok());
  EXPECT_NE(same->find("The configs are the same."), same->npos);
  std::string masked = "train: {objective: masked}\n";
  for (const std::string& other : {std::string("threads: 1\n"), std::string("train: {objective: next}\n")}) {
    absl::Status status = HtmlComparison(std::vector{Reported("a", log, masked), Reported("b", log, other)}).status();
    EXPECT_EQ(status.message(),
              "b.jsonl: expected a run with train.objective masked, as a.jsonl has it, got next: their losses are of "
              "different kinds; draw each run by itself");
  }
  absl::Status bad = HtmlComparison(std::vector{Reported("a", log, "a: ["), Reported("b", log, "a: 1\n")}).status();
  EXPECT_TRUE(std::string(bad.message()).starts_with("the config of a.jsonl:")) << bad;
  absl::StatusOr<std::string> tokens = HtmlComparison(
      std::vector{Reported("a", log, "data: {tokenizer: bytes}\n"), Reported("b", log, "data: {tokenizer: chars}\n")});
  EXPECT_NE(tokens->find("different tokenizers"), tokens->npos);
}

}  // namespace
}  // namespace weft
