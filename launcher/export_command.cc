// weft export: writes the weights of a checkpoint for Hugging Face's transformers.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/command.h"
#include "weft/core/host/message.h"
#include "weft/core/host/notice.h"
#include "weft/train/checkpoint/whole.h"
#include "weft/train/huggingface/hf_export.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft export CHECKPOINT OUT [dtype=f32|bf16|f16]

Writes the weights of CHECKPOINT, a folder such as checkpoints/step-000100 or one that holds some, of which the newest
whole one is taken, as a folder OUT with model.safetensors and config.json. In transformers the family's class
(GPT2LMHeadModel, LlamaForCausalLM, ...) opens it with from_pretrained(OUT), and weft train with model.init=OUT. A
published tokenizer comes with them as tokenizer.json or tokenizer.model, and so does a sentencepiece model that weft
prepare learnt, for AutoTokenizer.from_pretrained(OUT); transformers has no tokenizer for bytes or chars.

  weft export checkpoints/step-000200 exported
  weft export checkpoints exported dtype=bf16

Exit code: 0 done, 2 bad usage or checkpoint, 1 failed while writing.
)";

struct Request {
  std::string from, to;
  DType dtype = DType::kF32;
};

std::vector<Option> OptionsOf(Request& request) {
  static constexpr const char* kNames[] = {"f32", "bf16", "f16"};
  static constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  EnumRef dtype{kNames, [&request] { return int(std::find(kTypes, std::end(kTypes), request.dtype) - kTypes); },
                [&request](int i) { request.dtype = kTypes[i]; }};
  return {{{.key = "dtype", .help = "type of the weights"}, dtype}};
}

absl::StatusOr<Request> RequestOf(const Words& words) {
  auto bad = [](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("weft export: {}\nweft export --help says how to use it", what));
  };
  Request request;
  Words rest = words;
  if (absl::Status s = TakeOptions(OptionsOf(request), rest).status(); !s.ok()) return s;
  for (const std::string& word : rest) {
    if (word.starts_with('-') || SetsKey(word)) {
      return bad(fmt::format("expected CHECKPOINT, OUT and dtype=..., got {:?}", word));
    } else if (request.from.empty() || request.to.empty()) {
      (request.from.empty() ? request.from : request.to) = word;
    } else {
      return bad(fmt::format("expected CHECKPOINT and OUT, got {:?} as well", word));
    }
  }
  if (request.to.empty()) return bad(request.from.empty() ? "CHECKPOINT and OUT are missing" : "OUT is missing");
  while (request.to.size() > 1 && request.to.ends_with('/')) request.to.pop_back();
  return request;
}

int Fault(const absl::Status& status) {
  PrintStderr("{}\n", std::string(status.message()));
  return absl::IsUnavailable(status) ? 1 : 2;
}

}  // namespace

std::vector<Completion> ExportCompletions() {
  Request request;
  return CompletionsOf(OptionsOf(request));
}

int ExportCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  absl::StatusOr<Request> request = RequestOf(words);
  if (!request.ok()) return Fault(request.status());
  absl::StatusOr<NamedCheckpoint> from = OpenNamed(request->from, Ranks());
  if (!from.ok()) return Fault(from.status());
  for (const std::string& note : from->notes) PrintStderr("{}\n", note);
  absl::StatusOr<HfExport> done = ExportHf(from->checkpoint, request->to, request->dtype);
  if (!done.ok()) return Fault(done.status());
  for (const std::string& note : done->notes) PrintNote("{}", note);
  PrintStdout("{}: {} tensors in {}, {:.1f} MiB{}, from {}\n", request->to, done->tensors, Name(request->dtype),
              double(done->bytes) / (1 << 20), done->tokenizer.empty() ? "" : ", " + done->tokenizer,
              from->checkpoint.folder());
  return 0;
}

}  // namespace weft
