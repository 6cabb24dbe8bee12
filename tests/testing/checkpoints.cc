#include "tests/testing/checkpoints.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "skerry/base/hash.h"
#include "skerry/base/simd.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

template <typename T>
void Append(Bytes& out, T value) {
  ByteWriter(out).Raw(std::as_bytes(std::span(&value, 1)));
}

uint16_t ToBf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

// Good enough for made-up weights: no rounding, flushes what is too small.
uint16_t ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127 + 15;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (exponent <= 0) return sign;
  return static_cast<uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FF));
}

uint64_t ElementsOf(const std::vector<uint64_t>& shape) {
  uint64_t elements = 1;
  for (const uint64_t axis : shape) elements *= axis;
  return elements;
}

// A double in [0, 1).
double Uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

template <typename T>
size_t NudgeUnits(Bytes& bytes, bool is_bool, double density, Random& random) {
  size_t changed = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    if (density < 1 && Uniform(random) >= density) continue;
    const T old_bits = LoadLe<T>(bytes.data() + i * sizeof(T));
    T bits = old_bits;
    const uint64_t die = random();
    if (is_bool) {
      bits = static_cast<T>(old_bits ^ 1);
    } else if (die % 100 < 90) {
      bits = static_cast<T>(old_bits + (die >> 32 & 1 ? 1 : -1));
    } else if (die % 100 < 97) {
      bits = static_cast<T>(old_bits + (die >> 32 & 0xFFF) - 0x800);
    } else {
      bits = static_cast<T>(random());
    }
    if (bits == old_bits) bits = static_cast<T>(old_bits ^ 1);
    StoreLe(bytes.data() + i * sizeof(T), bits);
    ++changed;
  }
  return changed;
}

// Memory where there is enough of it and TMPDIR does not say otherwise: these tests sync a thousand times, and what
// survives a power cut is not their subject.
Path ScratchRoot() {
  const Path memory = "/dev/shm";
  std::error_code error;
  const auto space = std::filesystem::space(memory, error);
  if (::getenv("TMPDIR") == nullptr && !error && space.available >= uint64_t{1} << 30) return memory;
  return std::filesystem::temp_directory_path();
}

}  // namespace

TempDir::TempDir() {
  std::string pattern = (ScratchRoot() / "skerry-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory at " + pattern);
  path_ = pattern;
}
TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteText(const Path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string ReadText(const Path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string MarkOf(std::string_view content) {
  return fmt::format("{} bytes {}", content.size(), Sha256::Of(content).Short());
}

std::map<std::string, std::string> FilesOf(const Path& directory) {
  std::map<std::string, std::string> files;
  auto entries = std::filesystem::recursive_directory_iterator(directory);
  for (; entries != std::filesystem::recursive_directory_iterator(); ++entries) {
    if (entries->path().filename().string().starts_with(".")) {
      if (entries->is_directory()) entries.disable_recursion_pending();
      continue;
    }
    if (entries->is_regular_file()) {
      files[std::filesystem::relative(entries->path(), directory).generic_string()] = MarkOf(ReadText(entries->path()));
    }
  }
  return files;
}

std::vector<std::string> NamesIn(const Path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Bytes RandomBytes(size_t size, Random& random) {
  Bytes bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

TestTensor RandomTensor(std::string name, DType dtype, std::vector<uint64_t> shape, Random& random) {
  TestTensor tensor{std::move(name), dtype, std::move(shape), {}};
  const uint64_t elements = ElementsOf(tensor.shape);
  std::normal_distribution<float> weight(0, 0.02f);
  switch (dtype) {
    case DType::kBool:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, static_cast<uint8_t>(random() & 1));
      break;
    case DType::kF16:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, ToF16(weight(random)));
      break;
    case DType::kBF16:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, ToBf16(weight(random)));
      break;
    case DType::kF32:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, weight(random));
      break;
    case DType::kF64:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, static_cast<double>(weight(random)));
      break;
    case DType::kU32:
    case DType::kI32:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, static_cast<int32_t>(random() % 2001) - 1000);
      break;
    case DType::kU64:
    case DType::kI64:
      for (uint64_t i = 0; i < elements; ++i) Append(tensor.bytes, static_cast<int64_t>(random() % 2001) - 1000);
      break;
    default: tensor.bytes = RandomBytes(elements * static_cast<uint64_t>(DTypeBits(dtype)) / 8, random);
  }
  return tensor;
}

size_t Nudge(TestTensor& tensor, double density, Random& random) {
  const bool is_bool = tensor.dtype == DType::kBool;
  switch (tensor.unit()) {
    case 1: return NudgeUnits<uint8_t>(tensor.bytes, is_bool, density, random);
    case 2: return NudgeUnits<uint16_t>(tensor.bytes, is_bool, density, random);
    case 4: return NudgeUnits<uint32_t>(tensor.bytes, is_bool, density, random);
    default: return NudgeUnits<uint64_t>(tensor.bytes, is_bool, density, random);
  }
}

TestTensor& TestModel::operator[](std::string_view name) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("the model has no tensor " + std::string(name));
}

size_t TestModel::Nudge(double density, Random& random) {
  size_t changed = 0;
  for (TestTensor& tensor : tensors) changed += skerry::Nudge(tensor, density, random);
  return changed;
}

TestModel SmallModel(Random& random) {
  return {.tensors = {RandomTensor("model.embed.weight", DType::kBF16, {64, 96}, random),
                      RandomTensor("model.layers.0.mlp.weight", DType::kBF16, {48, 101}, random),
                      RandomTensor("model.layers.0.gate.bias", DType::kF32, {37}, random),
                      RandomTensor("model.layers.0.experts.weight", DType::kF8E4M3, {31, 33}, random),
                      RandomTensor("model.layers.0.experts.scale", DType::kF32, {}, random),
                      RandomTensor("model.position_ids", DType::kI64, {1, 50}, random),
                      RandomTensor("model.mask", DType::kBool, {13}, random),
                      RandomTensor("model.nothing", DType::kF32, {2, 0}, random)},
          .side_files = {{"config.json", R"({"hidden_size":96})"}, {"tokenizer.json", R"({"vocab":{}})"}}};
}

std::string HeaderFor(std::span<const TestTensor> tensors, const CheckpointForm& form) {
  std::string json = "{";
  if (form.metadata) json += fmt::format(R"("__metadata__":{},)", *form.metadata);
  uint64_t at = 0;
  for (const TestTensor& tensor : tensors) {
    std::string shape;
    for (const uint64_t axis : tensor.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", axis);
    json += fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)", tensor.name,
                        DTypeName(tensor.dtype), shape, at, at + tensor.bytes.size());
    at += tensor.bytes.size();
  }
  if (json.back() == ',') json.pop_back();
  json += "}";
  while (json.size() % form.header_multiple != 0) json += ' ';
  return json;
}

Bytes SafetensorsBytes(std::string_view header, ByteSpan data) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.Int<uint64_t>(header.size());
  writer.Raw(AsBytes(header));
  writer.Raw(data);
  return bytes;
}

Bytes DataOf(std::span<const TestTensor> tensors) {
  Bytes data;
  for (const TestTensor& tensor : tensors) data.insert(data.end(), tensor.bytes.begin(), tensor.bytes.end());
  return data;
}

void WriteSafetensors(const Path& path, std::span<const TestTensor> tensors, const CheckpointForm& form) {
  WriteText(path, AsText(SafetensorsBytes(HeaderFor(tensors, form), DataOf(tensors))));
}

void WriteCheckpoint(const TestModel& model, const Path& directory, const CheckpointForm& form) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  std::vector<TestTensor> tensors = model.tensors;
  if (form.reversed) std::reverse(tensors.begin(), tensors.end());
  if (form.shards == 1) {
    WriteSafetensors(directory / "model.safetensors", tensors, form);
  } else {
    std::string map;
    for (size_t shard = 0; shard < form.shards; ++shard) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, form.shards);
      std::vector<TestTensor> part;
      for (size_t i = shard; i < tensors.size(); i += form.shards) {
        map += fmt::format("{}\n    \"{}\": \"{}\"", map.empty() ? "" : ",", tensors[i].name, name);
        part.push_back(tensors[i]);
      }
      WriteSafetensors(directory / name, part, form);
    }
    WriteText(directory / "model.safetensors.index.json",
              fmt::format("{{\n  \"metadata\": {},\n  \"weight_map\": {{{}\n  }}\n}}\n", form.index_metadata, map));
  }
  for (const auto& [path, content] : model.side_files) WriteText(directory / path, content);
}

ModelSource::ModelSource(const TestModel& model, const CheckpointForm& form) : tensors_(model.tensors) {
  if (form.reversed) std::reverse(tensors_.begin(), tensors_.end());
  layout_ = Must(Layout::FromHeaders({{"model.safetensors", HeaderFor(tensors_, form)}}));
  std::sort(tensors_.begin(), tensors_.end(), [](const TestTensor& a, const TestTensor& b) { return a.name < b.name; });
}

Result<ByteSpan> ModelSource::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes&) const {
  const Bytes& bytes = tensors_[ordinal].bytes;
  if (offset > bytes.size() || length > bytes.size() - offset) return Fail(Code::kInvalid, "out of bounds");
  return ByteSpan(bytes).subspan(offset, length);
}

std::vector<std::string> SimdNames() { return {"scalar", "ssse3", "sse4", "avx2", "avx3", "best"}; }

WithSimd::WithSimd(std::string_view name) { Must(SetSimd(name)); }
WithSimd::~WithSimd() { Must(SetSimd("best")); }

}  // namespace skerry
