// Checkpoints on disk: every changed bit is found and named, a run that dies leaves nothing half done, and a disk that
// takes no more says so.
#include "weft/train/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "share.h"
#include "support/checkpoint_testing.h"
#include "weft/core/host/path_lock.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/safetensors.h"
#include "weft/train/checkpoint/shared_folder.h"
#include "weft/train/checkpoint/whole.h"
#include "weft/train/data/data_files.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

using namespace testing_;
namespace fs = std::filesystem;

absl::Status Whole(const std::string& folder) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  return checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
}

class Files : public CheckpointTest {
 protected:
  void Save(const Words& words = {}) { ASSERT_TRUE(Train(Mesh(2, 2) + SaveTo("c") + words).ok()); }
  std::string step_ = folder_.Path("c/step-000006");
};

TEST_F(Files, AreSafetensorsThatHoldEveryElementOnce) {
  Save({"parallel.fsdp=full"});
  std::map<std::string, int64_t> held;
  for (const auto& file : fs::directory_iterator(step_)) {
    if (file.path().extension() != ".safetensors") continue;
    absl::StatusOr<Safetensors> tensors = Safetensors::Open(file.path().string());
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    for (const auto& [name, t] : tensors->tensors()) held[name] += NumElements(t.shape);
  }
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(step_);
  ASSERT_TRUE(checkpoint.ok());
  for (const auto& [name, t] : checkpoint->manifest().tensors) EXPECT_EQ(held[name], NumElements(t.shape)) << name;
  EXPECT_EQ(held.size(), checkpoint->manifest().tensors.size());
}

TEST_F(Files, EveryChangedBitAndEveryCutIsFoundAndNamed) {
  Save({"parallel.fsdp=full"});
  EXPECT_TRUE(Whole(step_).ok());
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(step_)) files.push_back(file.path().string());
  ASSERT_EQ(files.size(), 7u);
  std::mt19937_64 random(7);
  for (int i = 0; i < 2250 / test::Share(); i++) {  // 2000 flips and cuts, and 250 that are longer
    const std::string& path = files[random() % files.size()];
    std::string before = ReadFile(path), after = before;
    size_t at = random() % before.size();
    if (i % 9 == 0)
      after += char(random());
    else if (i % 4 == 0)
      after.resize(at);
    else
      after[at] = char(after[at] ^ 1 << random() % 8);
    std::ofstream(path, std::ios::binary) << after;
    absl::Status status = Whole(step_);
    EXPECT_FALSE(status.ok()) << path << " at " << at;
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
    std::ofstream(path, std::ios::binary) << before;
  }
  EXPECT_TRUE(Whole(step_).ok());
}

// Whoever makes a manifest whose checksum is right does not get out of the folder or the files.
TEST_F(Files, AManifestThatDoesNotHoldTogetherIsRefused) {
  Save();
  std::string path = step_ + "/manifest.json", good = ReadFile(path);
  auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good.substr(0, good.rfind(",\n\"crc32c\""));
    size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path, std::ios::binary) << text << fmt::format(",\n\"crc32c\": \"{:08x}\"}}\n", Crc32c(text));
    absl::Status status = Whole(step_);
    EXPECT_FALSE(status.ok()) << to;
    EXPECT_NE(status.message().find(step_), std::string::npos) << status;
  };
  for (const char* name : {"../config.yaml", "/etc/passwd", "..", ".", "", "manifest.json", "sub/x", "absent"})
    refused("\"rank-00000.safetensors\"", fmt::format("\"{}\"", name));
  refused("\"dtype\": \"f32\"", "\"dtype\": \"f31\"");
  refused("\"dtype\": \"f32\"", "\"dtype\": \"f64\"");
  refused("\"offset\": ", "\"offset\": 9");
  refused("\"offset\": ", "\"offset\": -");
  refused("\"offset\": ", "\"offset\": 1.5e");
  refused("\"file\": 0", "\"file\": 77");
  refused("\"begin\": [", "\"begin\": [1,");
  refused("\"shape\": [", "\"shape\": [4294967296, 4294967296,");
  refused("\"shape\": [", "\"shape\": [[[[[[[[[[[[");
  refused("\"header_bytes\": ", "\"header_bytes\": 99999999999999999999");
  refused("\"weft_checkpoint\": 1", "\"weft_checkpoint\": 2");
  refused("\"step\":", "\"step\": 1, \"step\":");
  refused("{", "[");
  std::ofstream(path, std::ios::binary) << good;
  EXPECT_TRUE(Whole(step_).ok());
  fs::rename(step_ + "/config.yaml", folder_.Path("elsewhere"));
  fs::create_symlink(folder_.Path("elsewhere"), step_ + "/config.yaml");
  EXPECT_NE(Whole(step_).message().find("config.yaml: expected a file, got a link"), std::string::npos);
}

TEST_F(Files, KeepLeavesTheNewest) {
  Save({"checkpoint.every=1", "checkpoint.keep=2"});
  EXPECT_EQ(StepsIn(folder_.Path("c")), (std::vector<int64_t>{6, 5}));
  Save({"checkpoint.every=2"});
  EXPECT_EQ(StepsIn(folder_.Path("c")), (std::vector<int64_t>{6, 5, 4, 2}));
  Save({"train.steps=3", "checkpoint.keep=1"});  // what other runs have left is not its own
  EXPECT_EQ(StepsIn(folder_.Path("c")), (std::vector<int64_t>{6, 5, 4, 3, 2}));
  Save({"train.steps=4", "checkpoint.keep=2", "checkpoint.resume=" + folder_.Path("c/step-000003/")});  // here it is
  EXPECT_EQ(StepsIn(folder_.Path("c")), (std::vector<int64_t>{6, 5, 4, 3}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.Path("c")), {}), 4);
}

TEST_F(Files, AreNoTextOfAFolderThatHoldsThem) {
  Save();
  std::ofstream(folder_.Path("c/notes.txt")) << "some text";
  absl::StatusOr<DataFiles> files = FindDataFiles({folder_.Path("c")});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->paths, std::vector<std::string>{folder_.Path("c/notes.txt")});
}

TEST_F(Files, TwoRunsDoNotShareAFolder) {
  std::string folder = folder_.Path("c");
  PathLock first;
  Save();
  ASSERT_TRUE(first.Take(folder).ok());
  absl::Status second = Train(SaveTo("c"));
  EXPECT_EQ(second.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(second.message().find("checkpoint.dir: expected a folder that no other run writes to, got " + folder),
            std::string::npos)
      << second;
}

// What each rank makes of its path of the folder: the one answer of all.
absl::Status Shared(const std::vector<std::string>& dirs) {
  std::vector<absl::Status> statuses(dirs.size());
  RunRanks(int(dirs.size()), [&](Context& context, GroupFactory& groups) {
    auto r = size_t(context.rank());
    DeviceMesh mesh(context, groups, {{"x"}, {int(dirs.size())}});
    Ranks ranks = RanksOf(mesh.World());
    ranks.host = fmt::format("h{}", r);
    statuses[r] = MakeSharedFolder(dirs[r], ranks);
  });
  for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
  return statuses[0];
}

// Ranks of other hosts may find another folder under the same path, or the same one under another path.
TEST_F(Files, AFolderThatRanksDoNotShareIsRefusedAndNotMade) {
  std::string here = folder_.Path("a/b/c"), link = folder_.Path("link"), there = folder_.Path("there");
  fs::create_directories(there);
  fs::create_directory_symlink(folder_.Path("a"), link);
  auto refused = [&](const std::vector<std::string>& dirs, const std::string& why) {
    absl::Status status = Shared(dirs);
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  };
  refused({here, here, there},
          "what rank 0 (host h0) wrote to " + here + ", rank 2 (host h2) does not find in " + there);
  refused({here, folder_.Path("absent"), there}, "rank 1 (host h1) does not find in " + folder_.Path("absent"));
  refused({folder_.Write("file", "x") + "/c", here, here}, "file/c: cannot be made (Not a directory)");
  EXPECT_FALSE(fs::exists(folder_.Path("a")));
  EXPECT_FALSE(fs::exists(folder_.Path("absent")));
  EXPECT_TRUE(fs::is_empty(there));
  EXPECT_EQ(Shared({here, link + "/b/c", here}), absl::OkStatus());
  EXPECT_TRUE(fs::is_empty(here));
  refused({there, here}, "rank 1 (host h1)");
  EXPECT_TRUE(fs::exists(there));  // it was there before
}

// Broken ones of higher steps must not be what checkpoint.keep leaves: wherever the run ends, the newest whole one is
// its latest, and a run after it continues from there.
TEST_F(Files, KeepLeavesAWholeOneBesideBrokenOnes) {
  for (int64_t keep : {1, 2})
    for (int pieces = 1; pieces <= 6; pieces++) {
      fs::remove_all(folder_.Path("c"));
      Save({"checkpoint.every=2"});
      for (int64_t step : {4, 6}) std::ofstream(StepFolder(folder_.Path("c"), step) + "/manifest.json") << "{}";
      Words words = Mesh(2, 2) + SaveTo("c") + Words{"checkpoint.resume=auto", "checkpoint.every=1", "train.steps=8"};
      words.push_back(fmt::format("checkpoint.keep={}", keep));
      ASSERT_TRUE(Train(words, pieces).ok());
      NewestWhole newest = FindNewestWhole(folder_.Path("c"), Ranks());
      ASSERT_TRUE(newest.checkpoint) << keep << " " << pieces;
      EXPECT_EQ(newest.checkpoint->manifest().step, 2 + pieces) << keep;
    }
}

TEST_F(Files, AutoPassesOverWhatIsBroken) {
  Save({"checkpoint.every=2"});
  auto whole = Losses(Mesh(2, 2));
  fs::create_directories(folder_.Path("c/.tmp-step-9"));
  folder_.Write("c/.tmp-probe-12", "of a run that was killed");
  fs::create_directories(folder_.Path("c/step-000008"));
  std::string shard = step_ + "/rank-00001.safetensors", bytes = ReadFile(shard);
  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(shard, std::ios::binary) << bytes;
  testing::internal::CaptureStdout();
  auto rest = Losses(Mesh(2, 2) + SaveTo("c") + Words{"checkpoint.resume=auto"});
  std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[6], whole[6]);
  EXPECT_NE(printed.find("broken, passed over: " + folder_.Path("c/step-000008/manifest.json")), printed.npos)
      << printed;
  EXPECT_NE(printed.find("broken, passed over: " + shard + ": tensor"), printed.npos) << printed;
  EXPECT_TRUE(Whole(step_).ok());  // replaced by the run
  EXPECT_FALSE(fs::exists(folder_.Path("c/.tmp-step-9")));
  EXPECT_FALSE(fs::exists(folder_.Path("c/.tmp-probe-12")));
  for (int64_t step : StepsIn(folder_.Path("c")))
    std::ofstream(StepFolder(folder_.Path("c"), step) + "/manifest.json") << "{}";
  absl::Status status = Train(SaveTo("c") + Words{"checkpoint.resume=auto"});
  EXPECT_NE(status.message().find("got only broken ones"), std::string::npos) << status;
}

// A save stays: old ones that cannot be removed are reported once, and the run continues and removes what it
// can.
TEST_F(Files, AnOldOneThatCannotBeRemovedIsANote) {
  // The first save removes what a killed run has left, what is in its own way, and the checkpoint whose name it takes;
  // the second what is in its way, again one of its name, and the first.
  for (int fails = 1; fails <= 6; fails++) {
    fs::remove_all(folder_.Path("c"));
    fs::create_directories(folder_.Path("c/.tmp-step-9"));
    fs::create_directories(folder_.Path("c/step-000001"));
    ::setenv("WEFT_FAULT", fmt::format("remove:eacces:{}", fails).c_str(), 1);
    testing::internal::CaptureStderr();
    absl::Status status = Train(Mesh(2, 1) + SaveTo("c") + Words{"checkpoint.every=1", "checkpoint.keep=1"});
    std::string said = testing::internal::GetCapturedStderr();
    ::unsetenv("WEFT_FAULT");
    EXPECT_TRUE(status.ok()) << fails << ": " << status;
    if (fails == 2 || fails == 4) {  // what is in its own way costs a save, and the next one is made
      std::string line = fmt::format("weft: the checkpoint of step {} cannot be saved", fails / 2);
      EXPECT_NE(said.find(line), said.npos) << fails << ": " << said;
      EXPECT_EQ(StepsIn(folder_.Path("c"))[0], 6) << fails;
      continue;
    }
    EXPECT_EQ(StepsIn(folder_.Path("c")), std::vector<int64_t>{6}) << fails;
    size_t note = said.find("\nnote: " + folder_.Path("c/.tmp-step-"));
    ASSERT_NE(note, said.npos) << fails << ": " << said;
    size_t reason = said.find("cannot be removed (Permission denied)", note);
    EXPECT_NE(reason, said.npos) << said;
    EXPECT_EQ(said.find("cannot be removed", reason + 1), said.npos) << "reported twice: " << said;
  }
}

// A file system that exchanges no names, as NFS: what a run saves takes the place of an earlier run's all the same.
TEST_F(Files, ACheckpointIsReplacedWhereNamesAreNotExchanged) {
  Words words = Mesh(2, 1) + SaveTo("c") + Words{"checkpoint.every=3", "train.steps=6"};
  ASSERT_TRUE(Train(words).ok());
  for (int64_t step : {3, 6}) std::ofstream(StepFolder(folder_.Path("c"), step) + "/old") << "x";
  for (int nth : {1, 2}) {
    ::setenv("WEFT_FAULT", fmt::format("exchange:einval:{}", nth).c_str(), 1);
    absl::Status status = Train(words);
    ::unsetenv("WEFT_FAULT");
    ASSERT_TRUE(status.ok()) << status;
  }
  for (int64_t step : {3, 6}) {
    EXPECT_FALSE(fs::exists(StepFolder(folder_.Path("c"), step) + "/old"));
    EXPECT_TRUE(OpenWhole(StepFolder(folder_.Path("c"), step), Ranks()).ok());
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.Path("c")), {}), 2);
}

absl::Status MadeUnder(const std::string& fault, const std::string& folder) {
  ::setenv("WEFT_FAULT", fault.c_str(), 1);
  absl::Status status = MakeFolders(folder);
  ::unsetenv("WEFT_FAULT");
  return status;
}

// A folder is there after a power cut only if its name is on the disk, in a parent that is there itself.
TEST_F(Files, TheNamesOfNewFoldersAreBroughtToTheDisk) {
  std::string root = folder_.Path("new");
  fs::create_directories(root);
  int nth = 1;
  for (const char* parent : {"", "/a", "/a/b"}) {
    absl::Status status = MadeUnder(fmt::format("fsync_dir:eio:{}", nth++), root + "/a/b/c");
    EXPECT_EQ(status.message(), root + parent + ": cannot be brought to the disk (Input/output error)");
    fs::remove_all(root + "/a");
  }
  EXPECT_TRUE(MadeUnder("fsync_dir:eio:4", root + "/a/b/c").ok());
  EXPECT_TRUE(MadeUnder("fsync_dir:eio:1", root + "/a/b/c/").ok());  // it was there
}

// A disk that fails once, at each of its chances, costs one checkpoint and says so; one that fails twice in a row, or
// at the last, ends the run with the path and the reason. The folder is whole.
TEST_F(Files, AFailureIsSaidAndTheSecondEndsTheRun) {
  for (const char* point : {"mkdir", "create", "write", "fsync", "rename", "fsync_dir"})
    for (auto [action, reason] : {std::pair{"enospc", "No space left on device"}, {"erofs", "Read-only file system"}})
      for (auto [times, last, failed] : {std::tuple{":1", 6, 2}, {":1+", 1, 4}, {":1+", 1, 3}}) {
        std::string dir = folder_.Path("c"), what = fmt::format("{}:{}{} at {}", point, action, times, failed);
        fs::remove_all(dir);
        ASSERT_TRUE(Train(Mesh(2, 1) + SaveTo("c") + Words{"train.steps=1"}).ok());
        ::setenv("WEFT_FAULT", fmt::format("{}:{}{}", point, action, times).c_str(), 1);
        testing::internal::CaptureStderr();
        absl::Status status =
            Train(Mesh(2, 1) + SaveTo("c") +
                  Words{fmt::format("checkpoint.every={}", failed == 3 ? 0 : 2), "checkpoint.resume=auto",
                        fmt::format("train.steps={}", failed == 3 ? 3 : 6)});
        std::string said = testing::internal::GetCapturedStderr() + std::string(status.message());
        ::unsetenv("WEFT_FAULT");
        EXPECT_EQ(status.code(), last == 6 ? absl::StatusCode::kOk : absl::StatusCode::kAborted)
            << what << ": " << said;
        std::string line = fmt::format("weft: the checkpoint of step {} cannot be saved: {}", failed, dir);
        EXPECT_NE(said.find(line), said.npos) << what << ": " << said;
        EXPECT_EQ(said.find(line), said.rfind(line)) << what << ", reported twice: " << said;
        EXPECT_NE(said.find(reason, said.find(line)), said.npos) << what << ": " << said;
        EXPECT_EQ(StepsIn(dir), (last == 6 ? std::vector<int64_t>{6, 4, 1} : std::vector<int64_t>{1})) << what;
        for (int64_t step : StepsIn(dir)) EXPECT_TRUE(Whole(StepFolder(dir, step)).ok()) << what << " " << step;
      }
  std::string file = folder_.Write("file", "x");
  absl::Status status = Train({"checkpoint.dir=" + file + "/c"});
  EXPECT_NE(status.message().find("checkpoint.dir: " + file + "/c: cannot be made (Not a directory)"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace weft
