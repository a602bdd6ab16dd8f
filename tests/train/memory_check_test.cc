// Too little memory: found out before the run, or by the allocation that fails, with the same message.
#include "weft/train/preflight/memory_check.h"

#include <gtest/gtest.h>

#include <set>

#include "parallel/limited_runtime.h"
#include "train/temp_folder.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft {
namespace {

using testing_::TempFolder;

constexpr size_t kGiB = size_t(1) << 30;

RankMemory Rank(const std::string& place, int64_t moments, size_t free) {
  RankMemory rank{place, {}, {free, 8 * kGiB}};
  rank.need.moments = moments;
  return rank;
}

TEST(CheckMemory, AddsUpTheRanksOfAPlace) {
  int64_t half = kGiB / 2;
  // The least that a rank of the place saw free counts; other places do not.
  EXPECT_TRUE(CheckMemory(std::vector{Rank("a", half, kGiB), Rank("b", half, kGiB), Rank("a", half, 2 * kGiB)}).ok());
  EXPECT_FALSE(CheckMemory(std::vector{Rank("a", half, kGiB - 1), Rank("a", half, 2 * kGiB)}).ok());
  EXPECT_FALSE(CheckMemory(std::vector{Rank("a", half, kGiB), Rank("a", half + 1, kGiB)}).ok());
  EXPECT_TRUE(CheckMemory(std::vector{RankMemory{"a", Rank("a", half, 0).need, {}}}).ok()) << "nobody knows";
}

TEST(CheckMemory, NamesTheKeysOfWhatARunCouldDoWithout) {
  MemoryNeed plain, copies;
  copies.copies = 1;
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    for (bool regather : {true, false})
      for (bool combines : {false, true}) {
        ModelScope::Options model{.precision = {.compute = DType::kBF16}, .fsdp = fsdp, .regather = regather};
        bool gathered = fsdp == Fsdp::kFull && !regather, joined = combines && fsdp != Fsdp::kFull;
        auto names = [&](const MemoryNeed& need, const char* key) {
          return KeysForLess(need, model, combines).find(key) != std::string::npos;
        };
        EXPECT_EQ(names(plain, "parallel.regather=always"), gathered);
        EXPECT_EQ(names(copies, "parallel.regather=always"), gathered);
        EXPECT_FALSE(names(plain, "precision.copies=never"));
        EXPECT_EQ(names(copies, "precision.copies=never"), gathered);
        EXPECT_FALSE(names(plain, "kernels.combine=false"));
        EXPECT_EQ(names(copies, "kernels.combine=false"), joined);
        model.precision.compute = DType::kF32;  // nothing is cast
        EXPECT_EQ(names(plain, "kernels.combine=false"), joined);
      }
}

TEST(CheckMemory, SaysWhatAsksForHowMuchWhereAndWhatToDo) {
  RankMemory rank = Rank("the CPU of host b", 3 * kGiB, 2 * kGiB);
  rank.need.activations = kGiB;
  absl::Status status = CheckMemory(std::vector{Rank("a", 1, kGiB), rank, rank});
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(),
            "weft: out of memory on the CPU of host b: 8.0 GiB asked for (2 ranks: moments 6.0 GiB, activations 2.0 "
            "GiB), 2.0 GiB free of 8.0 GiB; a smaller train.micro_batch needs less for activations, "
            "parallel.fsdp=gradients or full over more mesh.dp ranks less for the rest, and weft plan tells how much");
}

TEST(CheckMemory, TakesADeviceToHaveLess) {
  const Memory device{6 * kGiB, 8 * kGiB};
  auto bounded = [&](size_t most) {
    Memory memory = Bounded(device, most);
    return std::pair(memory.free, memory.total);
  };
  for (size_t most : {size_t(0), 8 * kGiB, 9 * kGiB}) EXPECT_EQ(bounded(most), std::pair(6 * kGiB, 8 * kGiB)) << most;
  EXPECT_EQ(bounded(3 * kGiB), std::pair(kGiB, 3 * kGiB)) << "what others hold counts";
  EXPECT_EQ(bounded(kGiB), std::pair(size_t(0), kGiB));
  EXPECT_EQ(Bounded({}, kGiB).total, 0u) << "nobody knows";
  Config config;
  EXPECT_EQ(DeviceBytes(config), 0u);
  config.device_memory = 79.5;
  EXPECT_EQ(DeviceBytes(config), 79 * kGiB + kGiB / 2);
}

// Data is read first: what it takes is gone from what is free, and is asked for all the same. So the answer does not
// depend on the order, however much data each rank has.
TEST(CheckMemory, CountsDataThatRanksHoldAlready) {
  for (int64_t data : {int64_t(0), int64_t(1) << 20, int64_t(kGiB)})
    for (int64_t moments : {int64_t(kGiB / 2), int64_t(kGiB / 2) + 1}) {
      std::vector<RankMemory> ranks(2, Rank("a", moments, kGiB));
      for (RankMemory& rank : ranks) rank.need.data = data;
      EXPECT_EQ(CheckMemory(ranks).ok(), moments <= int64_t(kGiB / 2)) << data << " " << moments;
    }
  RankMemory rank = Rank("the CPU of host b", 2 * kGiB, kGiB);
  rank.need.data = 3 * kGiB;
  EXPECT_EQ(std::string(CheckMemory(std::vector{rank}).message()).substr(0, 120),
            "weft: out of memory on the CPU of host b: 5.0 GiB asked for (moments 2.0 GiB, data 3.0 GiB), 4.0 GiB free "
            "of 8.0 GiB; a ");
}

struct Ended {
  absl::Status status;
  std::string error;  // that was thrown
  int allocations = 0;
};

// What rank 0 of a run on two ranks says, when each rank has that much memory.
Ended TrainWith(size_t free, size_t limit, const std::vector<std::string>& words = {}) {
  Config config = ParseConfig(
                      "model: {family: gpt2, layers: 1, heads: 2, dim: 8, vocab: 32, context: 8}\n"
                      "data: {synthetic: true}\nmesh: {dp: 2}\n"
                      "train: {steps: 1, global_batch: 8, micro_batch: 2}\n",
                      "x.yaml", words)
                      .value();
  WEFT_CHECK(Resolve(config, 2).ok() && ResolveVocab(config, 32).ok(), "a config that can be trained");
  Dataset data = Dataset::Load(config).value();
  std::vector<Ended> ended(2);
  RunRanks(2, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    auto runtime = std::make_unique<testing_::LimitedRuntime>(free, limit);
    const testing_::LimitedRuntime& memory = *runtime;
    context.AddDevice(std::move(runtime));
    DeviceMesh mesh(context, groups, MeshOf(config));
    Ended& mine = ended[size_t(context.rank())];
    try {
      mine.status = Trainer(config, data, context, mesh).Run();
    } catch (const Error& e) {
      mine.error = e.what();
    }
    mine.allocations = memory.allocations();
  });
  EXPECT_EQ(ended[0].status, ended[1].status);
  return ended[0];
}

// The KiB that the error says were asked for.
size_t Asked(const absl::Status& status) {
  std::string text(status.message());
  return size_t(std::stod(text.substr(text.rfind(": ", text.find(" KiB asked for")) + 2)));
}

TEST(Trainer, EndsBeforeItAllocatesWhereMemoryIsTooSmall) {
  size_t enough = kGiB;
  EXPECT_TRUE(TrainWith(enough, enough).status.ok());
  for (const char* executor : {"executor=compiled", "executor=interpret", "executor=eager"}) {
    Ended ended = TrainWith(1024, enough, {executor});
    EXPECT_TRUE(absl::IsResourceExhausted(ended.status)) << executor;
    EXPECT_EQ(ended.allocations, 0) << executor;
    EXPECT_NE(ended.status.message().find("(2 ranks: parameters "), std::string::npos) << ended.status;
  }
  // The activations of a plan count: memory for the State only is too little.
  size_t state = (Asked(TrainWith(1024, enough, {"executor=eager"}).status) + 1) * 1024;
  EXPECT_FALSE(TrainWith(state, enough).status.ok());
  EXPECT_TRUE(TrainWith(state, enough, {"executor=eager"}).status.ok());
}

// A run on text is refused with the memory of its tokens among the numbers.
TEST(Trainer, CountsTheTokensThatItHolds) {
  TempFolder folder;
  std::string text = folder.Write("a.txt", std::string(100'000, 'x'));
  Ended ended = TrainWith(1024, kGiB, {"data.synthetic=false", "data.train=" + text, "data.tokenizer=chars"});
  EXPECT_TRUE(absl::IsResourceExhausted(ended.status)) << ended.status;
  EXPECT_NE(ended.status.message().find("data 781.2 KiB)"), std::string::npos) << ended.status;
  EXPECT_EQ(ended.allocations, 0);
}

TEST(Trainer, AnAllocationThatFailsNamesItsCategory) {
  std::set<std::string> categories;
  for (size_t limit = 0; limit < 200 << 10; limit += 512) {
    std::string error = TrainWith(kGiB, limit).error;
    if (error.empty()) break;
    EXPECT_TRUE(error.starts_with("out of memory on the CPU of host ")) << error;
    EXPECT_NE(error.find("1.0 GiB free of 1.0 TiB; a smaller train.micro_batch"), error.npos) << error;
    size_t from = error.find('(') + 1;
    categories.insert(error.substr(from, error.find(')') - from));
  }
  for (const char* category : {"parameters", "moments", "accumulators", "slots", "initial values", "activations"})
    EXPECT_TRUE(categories.contains(category)) << category;
}

}  // namespace
}  // namespace weft
