#include "weft/train/checkpoint/manifest.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "weft/core/base/error.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// The most that a run can add: a billion steps of a billion sequences.
constexpr int64_t kMostSequences = int64_t(1e18);

std::string Seal(std::string_view body) { return fmt::format(",\n\"crc32c\": \"{:08x}\"}}\n", Crc32c(body)); }

Json ToJson(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

Json ToJson(const SavedTensor& t) {
  Json boxes = Json::array();
  for (const SavedBox& b : t.boxes)
    boxes.push_back({{"file", b.file},
                     {"begin", ToJson(b.box.begin)},
                     {"end", ToJson(b.box.end)},
                     {"offset", b.offset},
                     {"crc32c", b.crc}});
  return {{"dtype", Name(t.dtype)}, {"shape", ToJson(t.shape)}, {"sharding", t.sharding}, {"boxes", boxes}};
}

// Thrown while reading the JSON; ParseManifest catches it.
struct Fault {
  std::string what;
};

const Json& At(const Json& object, const char* key) {
  if (!object.is_object()) throw Fault{fmt::format("expected an object, got {}", Shown(object))};
  auto found = object.find(key);
  if (found == object.end()) throw Fault{fmt::format("expected a key \"{}\", got {}", key, Shown(object))};
  return *found;
}

int64_t NumberOf(const Json& value, const char* what, int64_t most = kMost) {
  bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t(most);
  if (!fits) throw Fault{fmt::format("expected {} as a whole number up to {}, got {}", what, most, Shown(value))};
  return value.get<int64_t>();
}
int64_t NumberAt(const Json& object, const char* key, int64_t most = kMost) {
  return NumberOf(At(object, key), key, most);
}
uint32_t CrcAt(const Json& object, const char* key) {
  return uint32_t(NumberAt(object, key, std::numeric_limits<uint32_t>::max()));
}

std::string TextAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_string()) throw Fault{fmt::format("expected {} as a string, got {}", key, Shown(value))};
  return value.get<std::string>();
}

bool BoolAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_boolean()) throw Fault{fmt::format("expected {} as true or false, got {}", key, Shown(value))};
  return value.get<bool>();
}

const Json& ObjectAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_object()) throw Fault{fmt::format("expected {} as an object, got {}", key, Shown(value))};
  return value;
}

const Json& ListAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_array()) throw Fault{fmt::format("expected {} as a list, got {}", key, Shown(value))};
  return value;
}

Shape ShapeAt(const Json& object, const char* key) {
  const Json& list = ListAt(object, key);
  if (list.size() > size_t(kMaxRank))
    throw Fault{fmt::format("expected {} of at most {} dims, got {}", key, kMaxRank, list.size())};
  Shape shape;
  for (const Json& extent : list) shape.push_back(NumberOf(extent, key));
  return shape;
}

std::vector<int64_t> CountsAt(const Json& object, const char* key) {
  std::vector<int64_t> counts;
  for (const Json& count : ListAt(object, key)) counts.push_back(NumberOf(count, key, kMostSequences));
  return counts;
}

SavedFile FileOf(const Json& json) {
  SavedFile file{.name = TextAt(json, "name")};
  bool plain = !file.name.empty() && file.name.front() != '.' && file.name.find('/') == file.name.npos &&
               file.name.find('\0') == file.name.npos && file.name != kManifestFile;
  if (!plain) throw Fault{fmt::format("expected the name of a file in this folder, got {}", Shown(file.name))};
  file.bytes = uint64_t(NumberAt(json, "bytes"));
  file.header_bytes = uint64_t(NumberAt(json, "header_bytes", int64_t(file.bytes)));
  file.header_crc = CrcAt(json, "header_crc32c");
  return file;
}

SavedBox BoxOf(const Json& json, const SavedTensor& tensor, const std::vector<SavedFile>& files) {
  SavedBox saved{.box = {ShapeAt(json, "begin"), ShapeAt(json, "end")}, .crc = CrcAt(json, "crc32c")};
  saved.file = size_t(NumberAt(json, "file"));
  if (saved.file >= files.size())
    throw Fault{fmt::format("expected a file below {}, got {}", files.size(), saved.file)};
  size_t rank = tensor.shape.size();
  bool inside = saved.box.begin.size() == rank && saved.box.end.size() == rank;
  for (size_t d = 0; inside && d < rank; d++)
    inside = saved.box.begin[d] < saved.box.end[d] && saved.box.end[d] <= tensor.shape[d];
  if (!inside) throw Fault{fmt::format("expected a box inside {}, got {}", ToString(tensor.shape), Shown(json))};
  const SavedFile& file = files[saved.file];
  auto bytes = uint64_t(Volume(saved.box)) * SizeOf(tensor.dtype);
  saved.offset = uint64_t(NumberAt(json, "offset"));
  bool fits = saved.offset >= file.header_bytes && saved.offset <= file.bytes && bytes <= file.bytes - saved.offset;
  if (!fits)
    throw Fault{fmt::format("expected {} bytes within the {} of {}, got offset {}", bytes, file.bytes, file.name,
                            saved.offset)};
  return saved;
}

// Returns the number of different box begins along a dim. Throws unless each box reaches from one of them to the next.
size_t CutsAlong(size_t d, const SavedTensor& tensor) {
  std::vector<int64_t> cuts;
  for (const SavedBox& b : tensor.boxes) cuts.push_back(b.box.begin[d]);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.empty() || cuts[0] != 0) throw Fault{fmt::format("expected boxes from 0 on in dim {}, got a hole there", d)};
  for (const SavedBox& b : tensor.boxes) {
    auto next = std::upper_bound(cuts.begin(), cuts.end(), b.box.begin[d]);
    int64_t end = next == cuts.end() ? tensor.shape[d] : *next;
    if (b.box.end[d] == end) continue;
    throw Fault{fmt::format("expected a box from {} to {} in dim {}, as the others are cut there, got one to {}",
                            b.box.begin[d], end, d, b.box.end[d])};
  }
  return cuts.size();
}

// Checks that every element is in exactly one box. A sharding cuts each dim in the same places for all others, so the
// boxes must be the cells of a grid: as many as it has cells, and all different. Comparing all pairs for overlaps would
// take hours if there are many boxes.
void CheckFilled(const SavedTensor& tensor) {
  size_t count = tensor.boxes.size(), cells = 1;
  for (size_t d = 0; d < tensor.shape.size() && cells <= count; d++) cells *= CutsAlong(d, tensor);
  std::vector<const Shape*> begins;
  for (const SavedBox& b : tensor.boxes) begins.push_back(&b.box.begin);
  auto less = [](const Shape* a, const Shape* b) { return *a < *b; };
  auto same = [](const Shape* a, const Shape* b) { return *a == *b; };
  std::sort(begins.begin(), begins.end(), less);
  if (std::adjacent_find(begins.begin(), begins.end(), same) != begins.end()) throw Fault{"two of its boxes overlap"};
  if (cells != count) throw Fault{fmt::format("expected boxes that fill it, got {} and a hole", count)};
}

SavedTensor TensorOf(const Json& json, const std::vector<SavedFile>& files) {
  SavedTensor tensor{.shape = ShapeAt(json, "shape"), .sharding = TextAt(json, "sharding")};
  std::optional<DType> dtype = DTypeFromName(TextAt(json, "dtype"));
  if (!dtype) throw Fault{fmt::format("expected a dtype such as f32, got {}", Shown(At(json, "dtype")))};
  tensor.dtype = *dtype;
  int64_t bytes = int64_t(SizeOf(*dtype));
  for (int64_t extent : tensor.shape)
    if (extent == 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      throw Fault{fmt::format("expected a shape of 1 to 2^63 bytes, got {}", ToString(tensor.shape))};
  for (const Json& box : ListAt(json, "boxes")) tensor.boxes.push_back(BoxOf(box, tensor, files));
  CheckFilled(tensor);
  return tensor;
}

// Checks that the boxes follow the header without holes or overlaps up to the end of the file.
void CheckFiles(const Manifest& manifest) {
  struct Piece {
    uint64_t begin, end;
  };
  std::vector<std::vector<Piece>> pieces(manifest.files.size());
  for (const auto& [name, tensor] : manifest.tensors)
    for (const SavedBox& b : tensor.boxes)
      pieces[b.file].push_back({b.offset, b.offset + uint64_t(Volume(b.box)) * SizeOf(tensor.dtype)});
  for (size_t i = 0; i < pieces.size(); i++) {
    std::sort(pieces[i].begin(), pieces[i].end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    uint64_t end = manifest.files[i].header_bytes;
    for (const Piece& piece : pieces[i]) {
      if (piece.begin != end) break;
      end = piece.end;
    }
    if (end != manifest.files[i].bytes)
      throw Fault{fmt::format("expected the boxes of {} to fill its {} bytes, got a hole or an overlap at {}",
                              manifest.files[i].name, manifest.files[i].bytes, end)};
  }
}

Manifest ManifestOf(const Json& json) {
  if (int64_t format = NumberAt(json, "weft_checkpoint"); format != kFormat)
    throw Fault{fmt::format("expected format {}, got {}; use the version of weft that wrote it", kFormat, format)};
  Manifest m{.version = TextAt(json, "version"), .step = NumberAt(json, "step"), .seed = NumberAt(json, "seed")};
  m.sequences = NumberAt(ObjectAt(json, "data"), "sequences", kMostSequences);
  if (const Json& data = ObjectAt(json, "data"); data.contains("of_source")) m.of_source = CountsAt(data, "of_source");
  if (json.contains("eval_due")) m.eval_due = BoolAt(json, "eval_due");
  for (const auto& axis : ObjectAt(json, "mesh").items())
    m.mesh.emplace_back(axis.key(), int(NumberOf(axis.value(), "mesh", std::numeric_limits<int>::max())));
  for (const Json& file : ListAt(json, "files")) m.files.push_back(FileOf(file));
  for (const auto& [name, tensor] : ObjectAt(json, "tensors").items()) try {
      m.tensors[name] = TensorOf(tensor, m.files);
    } catch (const Fault& fault) {
      throw Fault{fmt::format("tensor {}: {}", Shown(name), fault.what)};
    }
  CheckFiles(m);
  return m;
}

}  // namespace

std::string ToText(const Manifest& m) {
  Json files = Json::array(), tensors = Json::object(), mesh = Json::object();
  for (const SavedFile& f : m.files)
    files.push_back(
        {{"name", f.name}, {"bytes", f.bytes}, {"header_bytes", f.header_bytes}, {"header_crc32c", f.header_crc}});
  for (const auto& [name, tensor] : m.tensors) tensors[name] = ToJson(tensor);
  for (const auto& [axis, size] : m.mesh) mesh[axis] = size;
  Json json = {{"weft_checkpoint", kFormat},           {"version", m.version}, {"step", m.step}, {"seed", m.seed},
               {"data", {{"sequences", m.sequences}}}, {"mesh", mesh},         {"files", files}, {"tensors", tensors}};
  if (!m.of_source.empty()) json["data"]["of_source"] = m.of_source;
  if (m.eval_due) json["eval_due"] = true;
  std::string body = json.dump(1);
  body.pop_back();  // the closing brace, which Seal appends again
  return Sealed(std::move(body));
}

std::string Sealed(std::string body) { return body + Seal(body); }

absl::StatusOr<Manifest> ParseManifest(std::span<const std::byte> text, const std::string& path) {
  auto bad = [&](const std::string& what) { return absl::DataLossError(fmt::format("{}: {}", path, what)); };
  std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
  const size_t seal = Seal("").size();
  if (all.size() < seal || all.substr(all.size() - seal) != Seal(all.substr(0, all.size() - seal)))
    return bad("its checksum is not that of its bytes: it was changed or cut short");
  absl::StatusOr<Json> json = ParseJsonObject(text, path);
  if (!json.ok()) return json.status();
  try {
    return ManifestOf(*json);
  } catch (const Fault& fault) {
    return bad(fault.what);
  }
}

}  // namespace weft
