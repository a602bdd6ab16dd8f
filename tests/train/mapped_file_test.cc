// Mapped files that cannot be read: a byte that the disk does not give is noted, with its file, and ends no process.
#include "weft/train/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "fmt/ranges.h"
#include "support/checkpoint_testing.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/whole.h"
#include "weft/train/huggingface/hf_export.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/io/json_object.h"
#include "weft/train/io/text_reader.h"

namespace weft {
namespace {

using namespace testing_;

const auto kPage = size_t(::sysconf(_SC_PAGESIZE));

// WEFT_FAULT until the end of the scope.
struct Under {
  explicit Under(const std::string& fault) { ::setenv("WEFT_FAULT", fault.c_str(), 1); }
  ~Under() { ::unsetenv("WEFT_FAULT"); }
};

std::shared_ptr<const MappedFile> Map(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}
int64_t NonZero(const MappedFile& file) {
  return std::count_if(file.bytes().begin(), file.bytes().end(), [](std::byte b) { return b != std::byte(0); });
}
std::string FaultOf(const MappedFile& file) { return std::string(file.Fault().message()); }

TEST(MappedFile, NotesWhatTheDiskDoesNotGive) {
  TempFolder folder;
  for (size_t pages : {1, 2, 3, 8, 9}) {
    std::string path = folder.Write("a", std::string(pages * kPage - 5, 'x'));
    std::shared_ptr<const MappedFile> good = Map(path), bad;
    {
      Under fault("map:eio:1+");
      bad = Map(path);
    }
    EXPECT_TRUE(bad->Fault().ok());  // nothing was touched
    EXPECT_LT(NonZero(*bad), int64_t(pages * kPage - 5));
    EXPECT_EQ(FaultOf(*bad), fmt::format("{}: byte {} cannot be read (Input/output error); the disk may be failing: "
                                         "copy the file from elsewhere",
                                         path, pages / 2 * kPage));
    EXPECT_TRUE(absl::IsDataLoss(bad->Fault()));
    EXPECT_EQ(NonZero(*good), int64_t(pages * kPage - 5));
    EXPECT_TRUE(good->Fault().ok());
  }
}

TEST(MappedFile, NotesThatAFileWasCutShort) {
  TempFolder folder;
  std::string path = folder.Write("a", std::string(4 * kPage, 'x'));
  std::shared_ptr<const MappedFile> file = Map(path);
  EXPECT_EQ(file->bytes()[0], std::byte('x'));
  ASSERT_EQ(::truncate(path.c_str(), off_t(kPage)), 0);
  EXPECT_TRUE(file->Fault().ok());
  EXPECT_LE(NonZero(*file), int64_t(kPage));
  EXPECT_EQ(FaultOf(*file), fmt::format("{}: it was cut short while it was read, from {} bytes to {}; copy or make it "
                                        "again",
                                        path, 4 * kPage, kPage));
}

TEST(MappedFile, ManyThreadsMayMeetTheSameFault) {
  TempFolder folder;
  std::string path = folder.Write("a", std::string(64 * kPage, 'x'));
  for (int round = 0; round < 20; round++) {
    std::vector<std::shared_ptr<const MappedFile>> good, bad;
    for (int i = 0; i < 8; i++) {
      good.push_back(Map(path));
      Under fault("map:eio:1+");
      bad.push_back(Map(path));
    }
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; t++)
      threads.emplace_back([&] {
        for (size_t i = 0; i < bad.size(); i++) {
          EXPECT_LE(NonZero(*bad[i]), int64_t(32 * kPage));
          EXPECT_EQ(NonZero(*good[i]), int64_t(64 * kPage));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& file : bad) EXPECT_FALSE(file->ok());
    for (const auto& file : good) EXPECT_TRUE(file->ok());
  }
}

// A node of the list is used again, and does not remember.
TEST(MappedFile, AreForgottenWhenTheyAreUnmapped) {
  TempFolder folder;
  std::string path = folder.Write("a", std::string(2 * kPage, 'x'));
  for (int i = 0; i < 1000; i++) {
    std::shared_ptr<const MappedFile> file;
    {
      Under fault(i % 2 ? "map:eio:1+" : "none:eio");
      file = Map(path);
    }
    EXPECT_EQ(NonZero(*file) == int64_t(2 * kPage), i % 2 == 0);
    EXPECT_EQ(file->ok(), i % 2 == 0);
  }
}

// A SIGBUS that is none of theirs does what it did.
TEST(MappedFileDeathTest, LeavesOtherFaultsAlone) {
  TempFolder folder;
  std::string path = folder.Write("a", std::string(2 * kPage, 'x'));
  std::shared_ptr<const MappedFile> file = Map(path);
  EXPECT_DEATH(
      {
        int fd = ::open(path.c_str(), O_RDONLY);
        auto* past = static_cast<volatile char*>(::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, off_t(4 * kPage)));
        std::exit(*past);
      },
      "");
  EXPECT_DEATH(
      {
        ::kill(::getpid(), SIGBUS);
        ::pause();
      },
      "");
}

// A path that is no file on disk is refused before it is opened, and a file that is too large before it is read.
TEST(InputFile, IsAFileOnDisk) {
  TempFolder folder;
  std::string fifo = folder.Path("fifo"), big = folder.Write("big.json", "{");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink(fifo, folder.Path("link"));
  ASSERT_EQ(::truncate(big.c_str(), 1 << 30), 0);
  auto says = [](const absl::Status& status, const std::string& want) {
    EXPECT_NE(std::string(status.message()).find(want), std::string::npos) << status << "\nexpected " << want;
  };
  for (auto [path, kind] : {std::pair<std::string, const char*>{fifo, "a FIFO"},
                            {folder.Path("link"), "a FIFO"},
                            {folder.Path(), "a folder"},
                            {"/dev/zero", "a device"},
                            {"/dev/null", "a device"}}) {
    std::string want = fmt::format("{}: expected a file, got {}; give a file on disk", path, kind);
    says(InputFile::Open(path).status(), want);
    says(MappedFile::Open(path).status(), want);
    says(BlockReader::Open(path).status(), want);
    says(ReadJsonObject(path).status(), want);
  }
  says(ReadJsonObject(big).status(), "big.json: expected at most 100000000 bytes, got 1073741824; is it another kind");
  says(InputFile::Open(folder.Path("absent")).status(), "absent: cannot be opened (No such file or directory)");
  Under fault("read:eio");
  says(TextReader({folder.Write("t.txt", "text")}).Next().status(),
       "t.txt: cannot be read to its end (Input/output error)");
}

// Whoever reads a mapped file says which one could not be read.
class Readers : public CheckpointTest {
 protected:
  // The law: whatever file is the n-th to be mapped, the answer names the fault; without one there is no error.
  template <class Read>
  void ExpectNamed(int least, const Read& read) {
    int nth = 1;
    for (bool hit = true; hit; nth++) {
      std::string answer;
      {
        Under fault(fmt::format("map:eio:{}", nth));
        answer = read();
      }
      hit = answer != "ok";
      EXPECT_TRUE(!hit || answer.find("cannot be read (Input/output error)") != answer.npos) << nth << ": " << answer;
    }
    EXPECT_GT(nth - 2, least - 1);
    EXPECT_EQ(read(), "ok");
  }
  static std::string Text(const absl::Status& status) { return status.ok() ? "ok" : std::string(status.message()); }
};

TEST_F(Readers, OfCheckpointsTakeAnOlderOne) {
  ASSERT_TRUE(Train(Mesh(1, 2) + SaveTo("c") + Words{"train.steps=3", "checkpoint.every=1"}).ok());
  int older = 0;
  ExpectNamed(4, [&] {  // the manifest, the config, two shards
    NewestWhole newest = FindNewestWhole(folder_.Path("c"), Ranks());
    EXPECT_TRUE(newest.checkpoint) << fmt::format("{}", fmt::join(newest.broken, "\n"));
    if (!newest.checkpoint) return std::string("none");
    EXPECT_EQ(newest.checkpoint->manifest().step, newest.broken.empty() ? 3 : 2);
    older += newest.broken.empty() ? 0 : 1;
    return newest.broken.empty() ? "ok" : newest.broken[0];
  });
  EXPECT_GE(older, 4);
  Under fault("map:eio:3");
  EXPECT_TRUE(Train(Mesh(1, 1) + SaveTo("c") + Words{"train.steps=4", "checkpoint.resume=auto"}).ok());
}

TEST_F(Readers, OfTokenShardsNameThem) {
  std::string shards = WriteShards(folder_, "s", Letters(3000));
  ExpectNamed(1, [&] { return Text(Dataset::Load(MakeConfig(shards, {"model.vocab=256"})).status()); });
  // After the start, in the middle of a run.
  absl::StatusOr<Dataset> data = Dataset::Load(MakeConfig(shards, {"model.vocab=256"}));
  ASSERT_TRUE(data.ok()) << data.status();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.Path("s")))
    std::filesystem::resize_file(entry, 0);
  try {
    TrainBatch(*data, 0, 0, 12);
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("it was cut short while it was read"), std::string::npos) << e.what();
  }
}

TEST_F(Readers, OfPublishedWeightsNameThem) {
  ASSERT_TRUE(Train(Mesh(1, 1) + SaveTo("c") + Words{"train.steps=1"}).ok());
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(StepFolder(folder_.Path("c"), 1));
  ASSERT_TRUE(checkpoint.ok() && ExportHf(*checkpoint, folder_.Path("hf"), DType::kF32).ok());
  Config config = *Load(Words{"model.init=" + folder_.Path("hf")});
  ExpectNamed(2, [&] {  // the weights, config.json
    absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
    if (!weights.ok()) return Text(weights.status());
    try {
      weights->Hash();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("ok");
  });
  ExpectNamed(2, [&] {
    absl::StatusOr<Checkpoint> saved = Checkpoint::Open(StepFolder(folder_.Path("c"), 1));
    if (!saved.ok()) return Text(saved.status());
    std::filesystem::remove_all(folder_.Path("out"));
    try {
      return Text(ExportHf(*saved, folder_.Path("out"), DType::kF32).status());
    } catch (const Error& e) {
      return std::string(e.what());
    }
  });
}

}  // namespace
}  // namespace weft
