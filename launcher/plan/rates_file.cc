#include "launcher/plan/rates_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;

absl::Status Expected(const std::string& path, int64_t line, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format(
      "rates: {}:{}: expected {}; weft bench rates config=FILE --json prints such lines", path, line, what));
}

template <class E, size_t kCount>
std::optional<E> Named(const std::string& name) {
  for (size_t i = 0; i < kCount; i++)
    if (name == Name(E(i))) return E(i);
  return std::nullopt;
}
std::optional<WorkClass> ClassNamed(const std::string& name) { return Named<WorkClass, 4>(name); }
std::optional<Op> OpNamed(const std::string& name) { return Named<Op, size_t(kNumOps)>(name); }

double Size(const Json& line, const char* key) { return line.at("sizes").at(key).get<double>(); }
std::string Label(const Json& line, const char* key) { return line.at("labels").at(key).get<std::string>(); }

// Each adds a line of one kind to the rates. Returns what is wrong with it, or "". Throws Json::exception where the
// line lacks a key.
std::string AddCall(const Json& line, double ms, Rates& rates) {
  std::optional<WorkClass> kind = ClassNamed(Label(line, "class"));
  std::optional<Op> op = OpNamed(Label(line, "op"));
  std::optional<DType> dtype = DTypeFromName(line.at("dtype").get<std::string>());
  if (!kind || !op || !dtype) return "a class of work, an op and a type of this version";
  rates.Add({.kind = *kind,
             .op = *op,
             .dtype = *dtype,
             .name = line.at("case").get<std::string>(),
             .flops = Size(line, "flops"),
             .bytes = Size(line, "bytes"),
             .ranks = int64_t(Size(line, "group_ranks"))},
            ms);
  return "";
}

std::string AddGemm(const Json& line, double ms, Rates& rates) {
  std::optional<DType> dtype = DTypeFromName(line.at("dtype").get<std::string>());
  if (!dtype) return "a type of this version";
  double m = Size(line, "m"), n = Size(line, "n"), k = Size(line, "k");
  rates.Add({.kind = WorkClass::kProduct,
             .op = Op::kEinsum,
             .dtype = *dtype,
             .name = fmt::format("gemm {} {} {} {}", m, n, k, Name(*dtype)),
             .flops = 2 * m * n * k,
             .bytes = (m * k + k * n + m * n) * double(SizeOf(*dtype))},
            ms);
  return "";
}

std::string AddCollective(const Json& line, double ms, Rates& rates) {
  std::optional<Op> op = OpNamed(Label(line, "op"));
  bool of_gpu = line.at("device") != Name(DeviceKind::kCpu);
  if (op && Label(line, "mode") == (of_gpu ? "graph" : "eager"))
    rates.AddTransfer({*op, Size(line, "bytes")}, int64_t(Size(line, "group_ranks")), ms);
  return "";  // some collectives of groups are no ops, such as a barrier
}

std::string SetLostShare(const Json& line, Rates& rates) {
  auto share = line.at("more").at("lost_share").get<double>();
  if (!(share >= 0 && share <= 1)) return "a lost_share from 0 to 1";
  rates.set_lost_share(share);
  return "";
}

std::string Add(const Json& line, Rates& rates) {
  const auto kind = line.at("kind").get<std::string>();
  bool used = kind == "call" || kind == "copy" || kind == "gemm" || kind == "collective" || kind == "overlap";
  if (!used) return "";
  auto ms = line.at("median_ms").get<double>();
  if (!(ms > 0 && std::isfinite(ms))) return "a median_ms above 0";
  if (kind == "call") return AddCall(line, ms, rates);
  if (kind == "gemm") return AddGemm(line, ms, rates);
  if (kind == "collective") return AddCollective(line, ms, rates);
  if (kind == "overlap") return SetLostShare(line, rates);
  rates.AddCopy(Size(line, "bytes"), ms);
  return "";
}

}  // namespace

absl::StatusOr<RatesFile> ReadRates(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    return absl::InvalidArgumentError(
        fmt::format("rates: {} cannot be read; weft bench rates config=FILE --json > {} makes it", path, path));
  RatesFile file{.path = path};
  int64_t number = 0;
  int64_t most = 0;
  std::optional<int64_t> of_kernels;
  for (std::string text; std::getline(in, text);) {
    number++;
    absl::StatusOr<Json> parsed =
        ParseJsonObject(std::as_bytes(std::span(text)), fmt::format("rates: {}:{}", path, number));
    if (!parsed.ok()) return parsed.status();
    const Json& line = *parsed;
    try {
      const auto device = line.at("device").get<std::string>(), name = line.at("device_name").get<std::string>();
      std::optional<DeviceKind> kind = Named<DeviceKind, 2>(device);
      if (!kind) return Expected(path, number, fmt::format("device cpu or cuda, got {:?}", device));
      if (number == 1) {
        file.device = *kind, file.device_name = name;
        file.rates.set_lost_share(*kind == DeviceKind::kCpu ? 1 : 0);
      }
      if (file.device != *kind || file.device_name != name)
        return Expected(path, number, fmt::format("the device of line 1, {}, got {}", file.device_name, name));
      const auto what = line.at("kind").get<std::string>();
      auto ranks = line.at("ranks").get<int64_t>();
      bool is_kernel = what == "call" || what == "gemm";
      most = std::max(most, ranks);
      if (is_kernel) of_kernels = std::min(of_kernels.value_or(ranks), ranks);
      if (std::string fault = Add(line, file.rates); !fault.empty()) return Expected(path, number, fault);
    } catch (const Json::exception& e) {
      return Expected(path, number, fmt::format("a line of weft bench, got one with an error: {}", FaultOf(e)));
    }
  }
  if (number == 0) return Expected(path, 1, "a JSON object, got an empty file");
  file.ranks = of_kernels.value_or(most);
  return file;
}

absl::Status CheckDevice(const RatesFile& file, DeviceKind device) {
  if (file.device == device) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("rates: expected rates of device {}, for which the step is planned, got those of {} in {}; plan with "
                  "device={}, or measure on the other device",
                  Name(device), file.device_name, file.path, Name(file.device)));
}

std::string LacksText(const RatesFile& file, const absl::Status& lacks) {
  return fmt::format(
      "{} has no measurement of {}; weft bench rates config=CONFIG --json, on this mesh, measures it, and its lines "
      "can be added to the file",
      file.path, std::string(lacks.message()));
}

std::string NoteOnRanks(const RatesFile& file, int64_t ranks) {
  if (file.device != DeviceKind::kCpu || ranks <= file.ranks) return "";
  return fmt::format(
      "rates: {} was measured by {} rank{}, and this step has {}; if more of them share a host's cores, it is "
      "slower than predicted: measure with ranks=N for as many as a host will have",
      file.path, file.ranks, file.ranks == 1 ? "" : "s", ranks);
}

}  // namespace weft
