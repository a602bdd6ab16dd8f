// The words of commands that are no keys: one set of rules for their forms, their values and their faults.
#include "weft/train/config/options.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Words = std::vector<std::string>;

struct Request {
  int64_t count = 3;
  double share = 0.5;
  bool loud = false, json = false;
  std::string name = "a", text = "t";
};

std::vector<Option> OptionsOf(Request& r) {
  return {{{.key = "count", .bounds = {.low = 1, .high = 9}}, &r.count},
          {{.key = "share", .bounds = {.low = 0, .high = 1, .low_open = true}}, &r.share},
          {{.key = "loud"}, &r.loud},
          {{.key = "json"}, &r.json, Option::kFlag},
          {{.key = "name", .choices = {"a", "file:"}}, &r.name},
          {{.key = "text"}, &r.text, Option::kVerbatim}};
}

// Each way to write an option sets it, wherever it stands; the other arguments stay in their order.
TEST(Options, AreTakenInEveryForm) {
  const std::vector<Words> forms = {{"count=7"}, {"--count=7"}, {"--count", "7"}, {"count=2", "count=7"}};
  const Words others = {"a.yaml", "mesh.dp=2", "--other", "x=count=2", "-", ""};
  for (const Words& form : forms)
    for (size_t at = 0; at <= others.size(); at++) {
      Words words = others;
      words.insert(words.begin() + long(at), form.begin(), form.end());
      Request r;
      absl::StatusOr<std::set<std::string>> given = TakeOptions(OptionsOf(r), words);
      ASSERT_TRUE(given.ok()) << given.status();
      EXPECT_EQ(r.count, 7);
      EXPECT_EQ(words, others);
      EXPECT_EQ(*given, std::set<std::string>{"count"});
    }
}

TEST(Options, SwitchesTakeNoWord) {
  Request r;
  Words words = {"--json", "--loud", "7"};
  ASSERT_TRUE(TakeOptions(OptionsOf(r), words).ok());
  EXPECT_TRUE(r.json && r.loud);
  EXPECT_EQ(words, Words{"7"});
  words = {"loud=false"};
  ASSERT_TRUE(TakeOptions(OptionsOf(r), words).ok());
  EXPECT_FALSE(r.loud);
}

// Keys of the config, arguments that are nearer to one, and paths stay.
TEST(Options, MisspelledOnesNameTheOption) {
  const std::pair<const char*, const char*> words[] = {{"cuont=3", "cuont: unknown argument; did you mean count?"},
                                                       {"--lod", "lod: unknown argument; did you mean --loud?"},
                                                       {"json=true", "json: unknown argument; did you mean --json?"}};
  for (auto [word, what] : words) {
    Request r;
    Words given{word};
    absl::Status status = TakeOptions(OptionsOf(r), given).status();
    EXPECT_EQ(status.message(), std::string("command line: ") + what) << word;
  }
  for (const char* word : {"device=cpu", "train.clip=1", "optimizer=adamw", "lrr=1", "cuont", "a/cuont=1", "-cuont"}) {
    Request r;
    Words given{word};
    EXPECT_TRUE(TakeOptions(OptionsOf(r), given).ok()) << word;
    EXPECT_EQ(given, Words{word});
  }
}

TEST(Options, TextsStayAsTheyAre) {
  for (const char* text : {"", "[a", "~/x", "a=b", "'", "\xff"}) {
    Request r;
    Words words = {std::string("text=") + text};
    ASSERT_TRUE(TakeOptions(OptionsOf(r), words).ok()) << text;
    EXPECT_EQ(r.text, text);
  }
}

TEST(Options, FaultsAreThoseOfKeys) {
  const std::pair<Words, const char*> cases[] = {
      {{"count=0"}, "command line: count: expected an integer >= 1 and <= 9, got \"0\""},
      {{"--count", "many"}, "command line: count: expected an integer >= 1 and <= 9, got \"many\""},
      {{"--count"}, "command line: --count: expected an integer >= 1 and <= 9 after it, got nothing"},
      {{"share=0"}, "command line: share: expected a number > 0 and <= 1, got \"0\""},
      {{"loud=yes"}, "command line: loud: expected true or false, got \"yes\"; did you mean \"true\"?"},
      {{"name=b:"}, "command line: name: expected one of a, file:PATH, got \"b:\""},
      {{"name=\xff"},
       "command line: name: expected UTF-8 text, got the byte 0xff at offset 0; rename the file if it is a "
       "path"},
  };
  for (const auto& [word, says] : cases) {
    Request r;
    Words words = word;
    EXPECT_EQ(TakeOptions(OptionsOf(r), words).status().message(), says);
  }
}

}  // namespace
}  // namespace weft
