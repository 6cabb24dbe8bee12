// Models made up for tests: in memory, as checkpoint directories in many forms, and nudged the way an optimizer does
// it.
#ifndef SKERRY_TESTS_TESTING_CHECKPOINTS_H_
#define SKERRY_TESTS_TESTING_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/file.h"
#include "skerry/tensors/dtype.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// An empty directory that goes away with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const Path& path() const { return path_; }
  Path operator/(std::string_view name) const { return path_ / name; }

 private:
  Path path_;
};

void WriteText(const Path& path, std::string_view text);
std::string ReadText(const Path& path);
// What stands for a file's content where tests compare directories: its size and digest, which print well.
std::string MarkOf(std::string_view content);
// Relative path -> MarkOf the content of all files below a directory, hidden ones left out.
std::map<std::string, std::string> FilesOf(const Path& directory);

// The names of everything directly in a directory, hidden or not, sorted.
std::vector<std::string> NamesIn(const Path& directory);

struct TestTensor {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  Bytes bytes;

  size_t unit() const { return static_cast<size_t>(DTypeUnit(dtype)); }
  size_t units() const { return bytes.size() / unit(); }
};

// A tensor from numbers that are its units' bits: BitsTensor<uint16_t>("w", DType::kBF16, {4}, {0x3F80, …}).
template <typename T>
TestTensor BitsTensor(std::string name, DType dtype, std::vector<uint64_t> shape, std::vector<T> bits) {
  const auto bytes = std::as_bytes(std::span(bits));
  return {std::move(name), dtype, std::move(shape), Bytes(bytes.begin(), bytes.end())};
}

using Random = std::mt19937_64;

Bytes RandomBytes(size_t size, Random& random);
// Normally distributed around 0 with a deviation of 0.02 for floats, small numbers for integers, 0 and 1 for bool.
TestTensor RandomTensor(std::string name, DType dtype, std::vector<uint64_t> shape, Random& random);

// Changes each unit with probability `density`: mostly to a neighbouring bit pattern, now and then further or anywhere.
// Returns how many it changed.
size_t Nudge(TestTensor& tensor, double density, Random& random);

struct TestModel {
  std::vector<TestTensor> tensors;
  std::map<std::string, std::string> side_files;

  TestTensor& operator[](std::string_view name);
  size_t Nudge(double density, Random& random);
};

// A few tensors of different dtypes, some 50 KB, and a config.
TestModel SmallModel(Random& random);

struct CheckpointForm {
  size_t shards = 1;                                           // above 1 there is an index; tensors are dealt in turn
  std::optional<std::string> metadata = R"({"format":"pt"})";  // JSON
  size_t header_multiple = 8;                                  // the header is padded with spaces to a multiple of it
  bool reversed = false;                                       // tensors stand last to first
  std::string index_metadata = R"({"total_size":1})";          // JSON
};

// The header's JSON for tensors that lie one after another in this order.
std::string HeaderFor(std::span<const TestTensor> tensors, const CheckpointForm& form = {});
// A whole safetensors file: length, header, data.
Bytes SafetensorsBytes(std::string_view header, ByteSpan data);
Bytes DataOf(std::span<const TestTensor> tensors);

void WriteSafetensors(const Path& path, std::span<const TestTensor> tensors, const CheckpointForm& form = {});
// Writes shards, index and side files into a directory, which is made or emptied first.
void WriteCheckpoint(const TestModel& model, const Path& directory, const CheckpointForm& form = {});

// A trainer's memory.
class ModelSource : public TensorSource {
 public:
  explicit ModelSource(const TestModel& model, const CheckpointForm& form = {});

  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override { return {}; }
  const TestTensor& tensor(size_t ordinal) const { return tensors_[ordinal]; }

 private:
  std::vector<TestTensor> tensors_;  // in the layout's order
  Layout layout_;
};

// All instruction sets by the names that SetSimd takes.
std::vector<std::string> SimdNames();
// Sets one for the lifetime of the object, then the best again.
class WithSimd {
 public:
  explicit WithSimd(std::string_view name);
  ~WithSimd();
  WithSimd(const WithSimd&) = delete;
  WithSimd& operator=(const WithSimd&) = delete;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_CHECKPOINTS_H_
