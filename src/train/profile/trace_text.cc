#include "weft/train/profile/trace_text.h"

#include <nlohmann/json.hpp>

#include "fmt/format.h"

namespace weft {
namespace {

// The format counts in microseconds.
std::string Microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

std::string JsonText(const std::string& text) { return nlohmann::json(text).dump(); }

void TraceText::Add(const std::string& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += event;
}

void TraceText::Describe(const char* what, int track, const std::string& args) {
  Add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{}}})", what, process_id(), thread_id(track),
                  args));
}

void TraceText::NameProcess(const std::string& name) {
  Describe("process_name", 0, fmt::format(R"({{"name":{}}})", JsonText(name)));
  Describe("process_sort_index", 0, fmt::format(R"({{"sort_index":{}}})", process_));
}

void TraceText::AddTrack(int number, const std::string& name, const std::vector<Slice>& slices) {
  Describe("thread_name", number, fmt::format(R"({{"name":{}}})", JsonText(name)));
  Describe("thread_sort_index", number, fmt::format(R"({{"sort_index":{}}})", number));
  for (const Slice& slice : slices)
    Add(fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
                    JsonText(slice.name), JsonText(name), process_id(), thread_id(number), Microseconds(slice.begin),
                    Microseconds(slice.end - slice.begin), slice.args));
}

}  // namespace weft
