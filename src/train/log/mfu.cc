#include "weft/train/log/mfu.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kTera = 1e12;
struct Peak {
  const char* words;
  double tflops;
};
// From NVIDIA's data sheets, without sparsity. The first row whose words occur in the name, in this order, applies.
constexpr Peak kPeaks[] = {{"H200 NVL", 835.5}, {"H200", 989.5}, {"GH200", 989.5}, {"H100 PCIe", 756},
                           {"H100 NVL", 835.5}, {"H100", 989.5}, {"A100", 312},    {"B200", 2250}};

}  // namespace

std::optional<double> PeakFlops(const std::string& device_name) {
  std::string name = " " + device_name + " ";  // match whole words: "NVIDIA A100-SXM4-80GB" contains A100
  std::replace(name.begin(), name.end(), '-', ' ');
  auto has = [&](const std::string& words) { return name.find(" " + words + " ") != name.npos; };
  if (has("MIG")) return std::nullopt;  // a slice of a GPU
  for (const Peak& peak : kPeaks)
    if (has(peak.words)) return peak.tflops * kTera;
  return std::nullopt;
}

double FlopsPerToken(const Model& model, int64_t tokens) {
  int64_t parameters = 0;
  for (const Parameter* p : model.Parameters())
    if (!model.OnlyLooksUp(*p)) parameters += NumElements(p->shape());
  return 6 * double(parameters) + model.AttentionFlops(tokens);
}

Mfu::Mfu(const Model& model, int64_t tokens, DType compute, const std::string& device_name, int ranks) {
  std::optional<double> peak = PeakFlops(device_name);
  if (peak && (compute == DType::kBF16 || compute == DType::kF16))
    tokens_per_s_at_peak_ = *peak * ranks / FlopsPerToken(model, tokens);
}

std::optional<double> Mfu::At(double tokens_per_s) const {
  if (!tokens_per_s_at_peak_) return std::nullopt;
  return tokens_per_s / *tokens_per_s_at_peak_;
}

}  // namespace weft
