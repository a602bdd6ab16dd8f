// TraceText: formats slices on the tracks of a process as events of Chrome's trace event format (JSON), for
// ui.perfetto.dev and chrome://tracing.
//
//   TraceText text(0);
//   text.NameProcess("rank 0");
//   text.AddTrack(1, "kernels", slices);
//   file << kTraceStart << text.events() << kTraceEnd << "}\n";
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Slices of a track are disjoint or nested. A nested slice must come after the one that contains it.
struct Slice {
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds since the start of the trace
  std::string args = "{}";     // details to show, as a JSON object
};

inline constexpr const char* kTraceStart = "{\"traceEvents\":[";
inline constexpr const char* kTraceEnd = "\n],\"displayTimeUnit\":\"ns\"";  // more members and "}" follow

std::string JsonText(const std::string& text);  // quoted and escaped

class TraceText {
 public:
  explicit TraceText(int process) : process_(process) {}

  void NameProcess(const std::string& name);
  // Tracks are shown in the order of their numbers, which must be from 1 to 9.
  void AddTrack(int number, const std::string& name, const std::vector<Slice>& slices);
  // Returns the events, separated by commas.
  const std::string& events() const { return events_; }

 private:
  void Describe(const char* what, int track, const std::string& args);
  void Add(const std::string& event);
  // Readers take process 0 and thread 0 for the system's idle ones, and merge threads with equal numbers.
  int process_id() const { return process_ + 1; }
  int thread_id(int track) const { return process_id() * 10 + track; }

  int process_;
  std::string events_;
};

}  // namespace weft
