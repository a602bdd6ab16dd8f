// What a user types and what a terminal gets: the words of weft generate, and text in whole characters.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "fmt/ranges.h"
#include "train/temp_folder.h"
#include "weft/core/host/utf8.h"
#include "weft/train/infer/generate.h"
#include "weft/train/infer/stop_filter.h"
#include "weft/train/infer/text_stream.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

TEST(GenerateWords, AreTakenAndTheRestIsLeft) {
  Words words{"a.yaml",          "prompt=a=b c", "tokens=5", "seed=3",     "mesh.tp=2", "tokens=7",
              "temperature=0.5", "greedy=true",  "top_k=4",  "top_p=0.25", "device=cpu"};
  absl::StatusOr<GenerateOptions> o = TakeGenerateOptions(words);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(words, (Words{"a.yaml", "mesh.tp=2", "device=cpu"}));
  EXPECT_EQ(o->prompt, "a=b c");
  EXPECT_EQ(o->tokens, 7);
  EXPECT_EQ(o->sampler.temperature, 0.5);
  EXPECT_EQ(o->sampler.top_k, 4);
  EXPECT_EQ(o->sampler.top_p, 0.25);
  EXPECT_TRUE(o->sampler.greedy);
  EXPECT_EQ(o->sampler.seed, 3u);
}

TEST(GenerateWords, BadOnesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"temperature=-1", "temperature: expected a number >= 0, got \"-1\""},
      {"temperature=nan", "temperature: expected a number >= 0"},
      {"temperature=inf", "temperature: expected a number >= 0"},
      {"temperature=warm", "got \"warm\""},
      {"top_p=0", "top_p: expected a number > 0 and <= 1, got \"0\""},
      {"top_p=1.5", "top_p: expected a number > 0 and <= 1, got \"1.5\""},
      {"top_p=", "top_p: expected a number > 0 and <= 1, got nothing"},
      {"top_k=-1", "top_k: expected an integer >= 0 and <= 1000000000, got \"-1\""},
      {"top_k=2.5", "top_k: expected an integer"},
      {"tokens=0", "tokens: expected an integer >= 1 and <= 1000000000, got \"0\""},
      {"tokens=99999999999999999999", "tokens: expected an integer"},
      {"seed=-1", "seed: expected an integer >= 0"},
      {"greedy=yes", "greedy: expected true or false, got \"yes\""},
      {"temprature=1", "temprature: unknown argument; did you mean temperature?"},
      {"topk=3", "topk: unknown argument; did you mean top_k?"},
      {"samples=0", "samples: expected an integer >= 1 and <= 1000000, got \"0\""},
      {"num_return_sequences=3", "did you mean samples?"},
      {"stop=", "stop: expected a text, got nothing"},
      {"stop=a\\q", "stop: expected n, r, t or \\ after a \\, got \"a\\q\""},
      {"stop=a\\", "stop: expected n, r, t or \\ after a \\, got \"a\\\""},
      {"prompt=FILE:/nowhere/a", "prompt: /nowhere/a: cannot be opened (No such file or directory)"},
      {"prompt=FILE:/", "prompt: /: expected a file, got a folder"},
      {"prompt=FILE:/dev/zero", "prompt: /dev/zero: expected a file, got a device"},
  };
  for (auto [word, text] : cases) {
    Words words{"a.yaml", word};
    absl::Status status = TakeGenerateOptions(words).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << word;
    EXPECT_NE(status.message().find(std::string("command line: ")), std::string::npos) << status;
    EXPECT_NE(status.message().find(text), std::string::npos) << status;
  }
  for (const char* word :
       {"temperature=0", "threads=1", "model.dim=4", "mesh={dp: 1}", "a.yaml", "data.tokenizer=bytes"}) {
    Words words{word};
    EXPECT_TRUE(TakeGenerateOptions(words).ok()) << word;
  }
}

TEST(GenerateWords, PromptsAreCollected) {
  testing_::TempFolder folder;
  std::string file = folder.Write("prompts", "one\n\n \ntwo\r\nthree");
  Words words{"prompt=a", "--prompt", "", "prompts=" + file, "samples=4"};
  absl::StatusOr<GenerateOptions> o = TakeGenerateOptions(words);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->prompts, (PathList{"a", "", "one", "two", "three"}));
  EXPECT_EQ(o->texts(), 20);
  std::vector<GenerateOptions> each = o->EachPrompt();
  ASSERT_EQ(each.size(), 5u);
  EXPECT_EQ(each[3].prompt, "two");
  EXPECT_EQ(each[3].samples, 4);
  words = {"prompts=" + file + ".none"};
  std::string error(TakeGenerateOptions(words).status().message());
  EXPECT_TRUE(error.starts_with("command line: prompts: ") && error.find("cannot be opened") != error.npos) << error;
  EXPECT_EQ(GenerateOptions{.prompt = "a"}.EachPrompt().size(), 1u);
}

TEST(GenerateWords, StopsAreCollectedWithTheirEscapes) {
  Words words{"stop=\\n\\n", "--stop", "a\\\\n", "stop=\n\\t\\r"};
  absl::StatusOr<GenerateOptions> o = TakeGenerateOptions(words);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->stops, (PathList{"\n\n", "a\\n", "\n\t\r"}));
  words = {"repl=true", "samples=2"};
  EXPECT_EQ(TakeGenerateOptions(words).status().message(),
            "command line: samples: expected 1 with repl=true, which writes one text, got 2");
  EXPECT_TRUE(AsksForRepl({"a.yaml", "--repl", "device=cpu"}));
  EXPECT_FALSE(AsksForRepl({"a.yaml", "repl=false", "repl"}));
}

TEST(GenerateWords, APromptMayBeAFile) {
  testing_::TempFolder folder;
  Words words{"prompt=FILE:" + folder.Write("a.txt", "two\nlines\n")};
  EXPECT_EQ(TakeGenerateOptions(words)->prompt, "two\nlines\n");
  words = {"prompt=FILE:" + folder.Write("b.txt", "")};
  EXPECT_NE(TakeGenerateOptions(words).status().message().find("the file is empty"), std::string::npos);
  std::string large = folder.Write("c.txt", "");
  std::filesystem::resize_file(large, 64'000'001);
  words = {"prompt=FILE:" + large};
  EXPECT_NE(TakeGenerateOptions(words).status().message().find("expected at most 64000000 bytes, got 64000001"),
            std::string::npos);
}

// The text up to the stop string that ends first, or the longest of those that end there.
std::string UpToStop(const std::string& text, const PathList& stops) {
  size_t first = text.npos, longest = 0;
  for (const std::string& stop : stops) {
    size_t at = text.find(stop), end = at == text.npos ? text.npos : at + stop.size();
    if (end > first || end == text.npos) continue;
    longest = end < first ? stop.size() : std::max(longest, stop.size());
    first = end;
  }
  return first == text.npos ? text : text.substr(0, first - longest);
}
// How many bytes at the end of a text without a stop string may still become one.
size_t Undecided(const std::string& text, const PathList& stops) {
  for (size_t size = text.size(); size > 0; size--)
    for (const std::string& stop : stops)
      if (stop.starts_with(text.substr(text.size() - size))) return size;
  return 0;
}

void ExpectStopped(const std::vector<std::string>& pieces, const PathList& stops) {
  StopFilter filter(stops);
  std::string text, shown;
  for (const std::string& piece : pieces) {
    text += piece;
    shown += filter.Add(piece);
    std::string want = UpToStop(text, stops);
    bool stopped = want != text;
    EXPECT_EQ(filter.stopped(), stopped);
    EXPECT_EQ(shown, stopped ? want : text.substr(0, text.size() - Undecided(text, stops)));
  }
  shown += filter.End();
  EXPECT_EQ(shown, UpToStop(text, stops)) << fmt::format("{:?} {}", text, stops);
}

// In all pairs of pieces, byte by byte, and in random pieces, the same as a search in the whole text.
TEST(StopFilter, EndsATextAsASearchDoes) {
  std::mt19937 random(3);
  auto text_of = [&](size_t most, size_t letters) {
    std::string text;
    for (size_t n = random() % most; n > 0; n--) text += "ab\xc3\xa9\n"[random() % letters];
    return text;
  };
  int stopped = 0;
  for (int i = 0; i < 4000; i++) {
    size_t letters = 2 + random() % 4;
    std::string text = text_of(25, letters);
    PathList stops;
    for (size_t n = random() % 4; n > 0; n--) stops.push_back(text_of(6, letters) + "ab\xc3"[random() % 3]);
    stopped += UpToStop(text, stops) != text;
    for (size_t at = 0; at <= text.size(); at++) ExpectStopped({text.substr(0, at), text.substr(at)}, stops);
    std::vector<std::string> bytes, pieces;
    for (char byte : text) bytes.emplace_back(1, byte);
    ExpectStopped(bytes, stops);
    for (size_t at = 0, size; at < text.size(); at += size) {
      size = 1 + random() % 5;
      pieces.push_back(text.substr(at, size));
    }
    ExpectStopped(pieces, stops);
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 3500);
}

TEST(Prompt, IsSomethingThatTheModelCanRead) {
  Tokenizer bytes = Tokenizer::Bytes(), letters = Tokenizer::Chars({"abc"}), lines = Tokenizer::Chars({"abc\n"});
  auto tokens = [](const std::string& prompt, const Tokenizer& tokenizer) {
    GenerateOptions options;
    options.prompt = prompt;
    return PromptTokens(options, tokenizer, 4);
  };
  EXPECT_EQ(*tokens("", bytes), std::vector<int32_t>{'\n'});
  EXPECT_EQ(*tokens("", lines), std::vector<int32_t>{0});
  EXPECT_EQ(*tokens("", letters), std::vector<int32_t>{0});
  EXPECT_EQ(*tokens("cab", letters), (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(tokens("abca", letters)->size(), 4u);
  EXPECT_EQ(tokens("abcab", letters).status().message(),
            "command line: prompt: expected at most model.context = 4 tokens, got 5; give the last 4 of them");
  EXPECT_EQ(
      tokens("bad", letters).status().message(),
      "command line: prompt: the character \"d\" at offset 2 is not among the 3 that the tokenizer has; write it in "
      "characters that the model knows");
  EXPECT_NE(tokens("a\xff", letters).status().message().find("expected UTF-8 text, got the byte 0xff at offset 1"),
            std::string::npos);
}

std::string Streamed(const std::string& bytes, std::mt19937& random) {
  TextStream stream;
  std::string shown;
  for (size_t at = 0; at < bytes.size();) {
    size_t size = 1 + random() % 3;
    std::string piece = stream.Add(bytes.substr(at, size));
    EXPECT_EQ(InvalidUtf8(piece), piece.npos);
    shown += piece;
    at += size;
  }
  return shown + stream.End();
}

TEST(TextStream, GivesTheTextBackInWholeCharacters) {
  std::mt19937 random(1);
  std::string text = "a\u00e9\u20ac\U0001F600z\n", replaced = "\uFFFD";
  for (int i = 0; i < 50; i++) EXPECT_EQ(Streamed(text, random), text);
  EXPECT_EQ(Streamed("a\xffz", random), "a" + replaced + "z");
  EXPECT_EQ(Streamed("\xe2\x82", random), replaced + replaced);                 // the end of a text
  EXPECT_EQ(Streamed("\xe2\x82z", random), replaced + replaced + "z");          // another character comes
  EXPECT_EQ(Streamed("\xed\xa0\x80", random), replaced + replaced + replaced);  // a surrogate
}

// However bytes are cut into pieces, the same is shown.
TEST(TextStream, DoesNotDependOnThePieces) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; i++) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; n--)
      bytes += char("a\x80\xbf\xc3\xe2\x82\xac\xed\xa0\xf0\x9f\x98\xf4\xff"[random() % 14]);
    TextStream whole;
    std::string want = whole.Add(bytes);
    want += whole.End();
    EXPECT_EQ(Streamed(bytes, random), want);
    if (InvalidUtf8(bytes) == bytes.npos) {
      EXPECT_EQ(want, bytes);
    }
  }
}

}  // namespace
}  // namespace weft
