#include "weft/train/tokenizer/sentencepiece_library.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

namespace weft {
namespace {

namespace spm = ::sentencepiece;

class Model : public SentencePieceModel {
 public:
  spm::util::Status Load(std::string_view bytes) { return processor_.LoadFromSerializedProto(bytes); }

  std::vector<Piece> Pieces() const override {
    std::vector<Piece> pieces;
    for (int id = 0; id < processor_.GetPieceSize(); id++)
      pieces.push_back({processor_.IsByte(id)      ? kByte
                        : processor_.IsControl(id) ? kControl
                        : processor_.IsUnknown(id) ? kUnknown
                                                   : kText,
                        processor_.IdToPiece(id)});
    return pieces;
  }

  void Encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    std::vector<int> ids = processor_.EncodeAsIds(text);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }

  int BeginOfText() const override { return processor_.bos_id(); }
  int EndOfText() const override { return processor_.eos_id(); }

 private:
  spm::SentencePieceProcessor processor_;
};

class Sentences : public spm::SentenceIterator {
 public:
  explicit Sentences(const NextSentence& next) : next_(next) { Sentences::Next(); }
  bool done() const override { return done_; }
  void Next() override { done_ = !next_(sentence_); }
  const std::string& value() const override { return sentence_; }
  spm::util::Status status() const override { return {}; }

 private:
  const NextSentence& next_;
  std::string sentence_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<SentencePieceModel> SentencePieceModel::Open(std::string_view bytes, std::string& fault) {
  auto model = std::make_unique<Model>();
  spm::util::Status status = model->Load(bytes);
  if (status.ok()) return model;
  fault = std::string("expected a sentencepiece model, got another file (") + status.error_message() + ")";
  return nullptr;
}

std::string LearnSentencePieces(const SentencePieceOptions& options, const NextSentence& next, std::string& fault) {
  std::unordered_map<std::string, std::string> words = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocab)},
      {"hard_vocab_limit", "false"},
      {"max_sentence_length", std::to_string(options.longest_sentence)},
      {"num_threads", std::to_string(options.threads)},
      // The options from here to allow_whitespace_only_pieces make decoding return exactly the encoded text.
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},  // the indentation of code
      {"minloglevel", "3"},                      // errors are returned in the status
  };
  Sentences sentences(next);
  std::string model;
  spm::util::Status status = spm::SentencePieceTrainer::Train(words, &sentences, &model);
  if (!status.ok()) fault = status.error_message();
  return status.ok() ? model : "";
}

}  // namespace weft
