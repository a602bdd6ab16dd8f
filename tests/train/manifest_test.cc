// A manifest is taken if its boxes fill their tensors, and only then, and in a time that follows its size.
#include "weft/train/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "share.h"

namespace weft {
namespace {

// What ParseManifest says to these boxes, whose bytes follow each other in one file.
absl::Status Read(const Shape& shape, const std::vector<Box>& boxes) {
  Manifest m{.version = "1", .files = {{.name = "a"}}};
  SavedTensor& tensor = m.tensors["t"] = {.dtype = DType::kU8, .shape = shape, .sharding = "", .boxes = {}};
  for (const Box& box : boxes) {
    tensor.boxes.push_back({.box = box, .offset = m.files[0].bytes});
    m.files[0].bytes += uint64_t(Volume(box));
  }
  std::string text = ToText(m);
  return ParseManifest(std::as_bytes(std::span(text.data(), text.size())), "manifest.json").status();
}

// Each dim cut at random places, and the cells that this makes in any order.
std::vector<Box> RandomGrid(const Shape& shape, std::mt19937_64& random) {
  std::vector<Box> cells{{{}, {}}};
  for (int64_t extent : shape) {
    std::vector<Box> next;
    int64_t begin = 0;
    while (begin < extent) {
      int64_t end = begin + 1 + int64_t(random() % uint64_t(extent - begin));
      for (Box cell : cells) {
        cell.begin.push_back(begin);
        cell.end.push_back(end);
        next.push_back(cell);
      }
      begin = end;
    }
    cells = next;
  }
  std::shuffle(cells.begin(), cells.end(), random);
  return cells;
}

TEST(Manifest, TakesGridsAndNothingThatIsNoGrid) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 500; i++) {
    Shape shape(random() % 5, 0);
    for (int64_t& extent : shape) extent = 1 + int64_t(random() % 7);
    std::vector<Box> grid = RandomGrid(shape, random), boxes = grid;
    EXPECT_EQ(Read(shape, grid), absl::OkStatus()) << ToString(shape);
    Box& one = boxes[random() % boxes.size()];
    boxes.push_back(one);
    EXPECT_NE(Read(shape, boxes), absl::OkStatus()) << "one twice, of " << ToString(shape);
    boxes = grid;
    boxes.pop_back();
    EXPECT_NE(Read(shape, boxes), absl::OkStatus()) << "one less, of " << ToString(shape);
    if (shape.empty()) continue;
    // One edge of one box elsewhere: a hole or an overlap.
    boxes = grid;
    Box& moved = boxes[random() % boxes.size()];
    size_t d = random() % shape.size();
    int64_t& edge = random() % 2 == 0 ? moved.begin[d] : moved.end[d];
    edge += random() % 2 == 0 ? 1 : -1;
    EXPECT_NE(Read(shape, boxes), absl::OkStatus()) << "an edge moved, of " << ToString(shape);
  }
}

// As many elements as there should be, and yet a hole and an overlap.
TEST(Manifest, CountsNoElementTwice) {
  EXPECT_EQ(Read({2, 2}, {{{0, 0}, {1, 2}}, {{1, 0}, {2, 2}}}), absl::OkStatus());
  EXPECT_NE(Read({2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {1, 2}}}), absl::OkStatus());
  EXPECT_NE(Read({2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {2, 1}}}), absl::OkStatus());
  EXPECT_NE(Read({2, 2}, {}), absl::OkStatus());
}

// Boxes that all meet in the longest dim, more than any run has ranks: in pairs 2e10, which is minutes at least.
TEST(Manifest, OfManyBoxesIsReadInTheTimeOfItsText) {
  const int64_t kRows = test::Share() > 1 ? 20'000 : 200'000;
  std::vector<Box> rows;
  for (int64_t r = 0; r < kRows; r++) rows.push_back({{r, 0}, {r + 1, kRows + 1}});
  EXPECT_EQ(Read({kRows, kRows + 1}, rows), absl::OkStatus());
  rows[size_t(kRows / 2)] = rows[size_t(kRows / 2 - 1)];
  EXPECT_NE(Read({kRows, kRows + 1}, rows), absl::OkStatus());
}

}  // namespace
}  // namespace weft
