// FakeRates: the lines of weft bench rates --json for a device that does not exist, with all that a plan of f32 or bf16
// may need but no batch of any plan.
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::testing_ {

struct FakeRates {
  double slower = 1;  // all times are so many times as long
  const char* device = "cpu";
  const char* device_name = "fake";
  double lost_share = -1;  // below 0: there is no line of overlap
  std::vector<int> ranks = {2, 3, 4, 6};
  int started = 6;  // ranks that ran while it was measured

  std::string Line(const std::string& kind, const std::string& name, const std::string& dtype,
                   const std::string& labels, const std::string& sizes, double ms, const std::string& more = "") const {
    return fmt::format(
        R"({{"kind":"{}","case":"{}","device":"{}","device_name":"{}","ranks":{},"dtype":"{}","labels":{{{}}},"sizes":{{{}}},)"
        R"("median_ms":{},"more":{{{}}}}})",
        kind, name, device, device_name, started, dtype, labels, sizes, ms * slower, more);
  }
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const char* dtype : {"f32", "bf16"}) {
      for (int n : {32, 1024})
        lines.push_back(Line("gemm", "", dtype, "", fmt::format(R"("m":{0},"n":{0},"k":{0})", n), 1e-7 * n * n));
      for (const char* op : {"sdpa", "sdpa_grad"})
        lines.push_back(Line("call", std::string(op) + dtype, dtype,
                             fmt::format(R"("class":"attention","op":"{}")", op),
                             R"("flops":1000000,"bytes":10000,"group_ranks":1)", 0.01));
    }
    for (int64_t bytes : {1000, 1'000'000'000})
      lines.push_back(Line("copy", "", "f32", "", fmt::format(R"("bytes":{})", bytes), 0.001 + 1e-7 * double(bytes)));
    for (int n : ranks)
      for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
        for (int64_t bytes : {1000, 1'000'000'000})
          for (const char* mode : {"eager", "graph"})
            lines.push_back(Line("collective", "", "f32", fmt::format(R"("op":"{}","mode":"{}")", op, mode),
                                 fmt::format(R"("bytes":{},"group_ranks":{})", bytes, n),
                                 0.01 * n + 4e-7 * double(bytes)));
    if (lost_share >= 0)
      lines.push_back(Line("overlap", "", "f32", "", "", 1, fmt::format(R"("lost_share":{})", lost_share)));
    return lines;
  }
};

// A file of lines, which is removed at the end.
class LinesFile {
 public:
  explicit LinesFile(const std::vector<std::string>& lines)
      : path_(std::filesystem::temp_directory_path() / fmt::format("rates{}_{}.jsonl", ::getpid(), count_++)) {
    std::ofstream out(path_);
    for (const std::string& line : lines) out << line << "\n";
  }
  ~LinesFile() { std::filesystem::remove(path_); }
  LinesFile(const LinesFile&) = delete;
  LinesFile& operator=(const LinesFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

}  // namespace weft::testing_
