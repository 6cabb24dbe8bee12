#include "skerry/tensors/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>

#include "skerry/base/mapped_file.h"
#include "skerry/tensors/layout.h"

namespace skerry {
namespace {

using nlohmann::json;

// Receives the parser's events. The grammar is small enough to follow with a position:
//   { "__metadata__": {text: text}, NAME: {"dtype": text, "shape": [int], "data_offsets": [int, int]} }
class HeaderHandler : public json::json_sax_t {
 public:
  std::vector<TensorEntry> tensors;
  std::string error;

  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { return Refuse(fmt::format("the negative number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return Refuse(fmt::format("the number {}, which is no unsigned 64-bit integer,", text));
  }
  bool binary(binary_t&) override { return Refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::kShape) {
      if (entry_.shape.size() == kMaxRank) return Stop(fmt::format("shape has more than {} axes", kMaxRank));
      entry_.shape.push_back(value);
      return true;
    }
    if (where_ == Where::kOffsets) {
      offsets_.push_back(value);
      return offsets_.size() <= 2 || Stop("data_offsets has more than 2 numbers");
    }
    return Refuse(fmt::format("the number {}", value));
  }

  bool string(string_t& value) override {
    if (where_ == Where::kMetadata) return true;
    if (where_ != Where::kTensor || field_ != "dtype") return Refuse(fmt::format("the text '{}'", value));
    const auto dtype = DTypeFromName(value);
    if (!dtype) return Stop(fmt::format("unknown dtype '{}'", value));
    entry_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    switch (where_) {
      case Where::kStart: where_ = Where::kTop; return true;
      case Where::kTop: where_ = in_metadata_ ? Where::kMetadata : Where::kTensor; return true;
      default: return Refuse("an object");
    }
  }

  bool key(string_t& name) override {
    if (where_ == Where::kTop) {
      if (name.size() > kMaxTensorNameBytes) {
        return Stop(fmt::format("a name of {} bytes is longer than {}", name.size(), kMaxTensorNameBytes));
      }
      in_metadata_ = name == "__metadata__";
      entry_ = TensorEntry{.name = name, .dtype = DType::kU8, .shape = {}};
      if (!names_.insert(name).second) return Stop("the name stands twice in the header");
      fields_.clear();
      offsets_.clear();
    }
    if (where_ == Where::kMetadata || where_ == Where::kTensor) {
      if (!fields_.insert(name).second) return Stop(fmt::format("the key '{}' stands twice", name));
    }
    if (where_ == Where::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      return Stop(fmt::format("unknown key '{}'", name));
    }
    field_ = name;
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTop) {
      where_ = Where::kEnd;
      return true;
    }
    if (where_ == Where::kTensor && !FinishTensor()) return false;
    where_ = Where::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (where_ == Where::kTensor && field_ == "shape") {
      where_ = Where::kShape;
      return true;
    }
    if (where_ == Where::kTensor && field_ == "data_offsets") {
      where_ = Where::kOffsets;
      return true;
    }
    return Refuse("an array");
  }
  bool end_array() override {
    where_ = Where::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& e) override {
    if (error.empty()) error = fmt::format("not valid JSON at byte {}: {}", position, e.what());
    return false;
  }

 private:
  enum class Where { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Stop(const std::string& what) {
    error = entry_.name.empty() ? what : fmt::format("tensor '{}': {}", entry_.name, what);
    return false;
  }
  bool Refuse(const std::string& what) {
    return Stop(fmt::format("{} stands where {} was expected", what,
                            where_ == Where::kStart      ? "an object"
                            : where_ == Where::kMetadata ? "a text"
                            : where_ == Where::kTop      ? "an object"
                            : where_ == Where::kTensor   ? fmt::format("the value of '{}'", field_)
                                                         : "an unsigned integer"));
  }

  bool FinishTensor() {
    for (const char* needed : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(needed) == 0) return Stop(fmt::format("has no '{}'", needed));
    }
    if (offsets_.size() != 2) return Stop(fmt::format("data_offsets has {} numbers, not 2", offsets_.size()));
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.begin > entry_.end) {
      return Stop(fmt::format("data_offsets begin at {} but end at {}", entry_.begin, entry_.end));
    }
    uint64_t bits = static_cast<uint64_t>(DTypeBits(entry_.dtype));
    for (const uint64_t axis : entry_.shape) {
      if (__builtin_mul_overflow(bits, axis, &bits)) {
        // A zero further on would make the tensor empty, but no sane writer does this.
        return Stop("the size of its shape overflows 64 bits");
      }
    }
    if (bits % 8 != 0) {
      return Stop(fmt::format("{} elements of {} bits do not fill whole bytes", bits / DTypeBits(entry_.dtype),
                              DTypeBits(entry_.dtype)));
    }
    if (entry_.end - entry_.begin != bits / 8) {
      return Stop(fmt::format("dtype {} and shape need {} bytes, but data_offsets hold {}", DTypeName(entry_.dtype),
                              bits / 8, entry_.end - entry_.begin));
    }
    tensors.push_back(std::move(entry_));
    entry_ = {};
    return true;
  }

  Where where_ = Where::kStart;
  bool in_metadata_ = false;
  std::string field_;
  TensorEntry entry_{};
  std::vector<uint64_t> offsets_;
  std::set<std::string> fields_;
  std::unordered_set<std::string> names_;
};

// What a file that is no safetensors file looks like to a person.
std::optional<std::string_view> GuessKind(std::string_view start) {
  if (start.starts_with("version https://git-lfs")) return "a Git LFS pointer (run `git lfs pull`)";
  if (start.starts_with("<?xml") || start.starts_with("<Error")) return "an XML error body";
  if (start.starts_with("<!DOCTYPE") || start.starts_with("<!doctype") || start.starts_with("<html")) {
    return "an HTML page";
  }
  if (start.starts_with("PK\x03\x04")) return "a zip archive (a PyTorch .bin or .pt file?)";
  if (start.starts_with("GGUF")) return "a GGUF file";
  return std::nullopt;
}

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text) {
  if (text.empty() || text.front() != '{') return Fail(Code::kCorrupt, "the header does not begin with '{{'");
  // The parser would take a NUL byte for the end of its input and not look at what follows.
  if (text.find('\0') != std::string_view::npos) return Fail(Code::kCorrupt, "the header holds a NUL byte");
  HeaderHandler handler;
  if (!json::sax_parse(text.begin(), text.end(), &handler)) return Fail(Code::kCorrupt, "{}", handler.error);

  SafetensorsHeader header;
  header.tensors = std::move(handler.tensors);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != header.data_bytes) {
      return Fail(Code::kCorrupt, "tensor '{}': begins at byte {}, but the bytes before it end at {} ({})", tensor.name,
                  tensor.begin, header.data_bytes, tensor.begin < header.data_bytes ? "overlap" : "hole");
    }
    header.data_bytes = tensor.end;
  }
  return header;
}

Result<SafetensorsFile> ReadSafetensorsHeader(const FileReader& file) {
  const std::string name = file.path().string();
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan start, file.Read(0, std::min<uint64_t>(file.size(), 64), scratch));
  if (const auto kind = GuessKind(AsText(start))) {
    return Fail(Code::kCorrupt, "{} is no safetensors file: it looks like {}", name, *kind);
  }
  if (file.size() < 8) {
    return Fail(Code::kCorrupt, "{} has {} bytes, but a safetensors file has at least 8", name, file.size());
  }
  const auto length = LoadLe<uint64_t>(start.data());
  if (length > kMaxHeaderBytes) {
    return Fail(Code::kCorrupt, "{}: header length {} is over the limit of {}; is it a safetensors file?", name, length,
                kMaxHeaderBytes);
  }
  if (length > file.size() - 8) {
    return Fail(Code::kCorrupt, "{}: the header has {} bytes, but only {} follow: truncated?", name, length,
                file.size() - 8);
  }
  SafetensorsFile result;
  SKERRY_ASSIGN(const ByteSpan text, file.Read(8, length, scratch));
  result.json = ToString(text);
  SKERRY_TRY(file.Check());
  auto header = ParseSafetensorsHeader(result.json);
  if (!header) return Annotate(std::move(header).error(), name);
  result.header = *std::move(header);
  const uint64_t expected = 8 + length + result.header.data_bytes;
  if (file.size() != expected) {
    return Fail(Code::kCorrupt, "{} has {} bytes, but its header describes {}: {}", name, file.size(), expected,
                file.size() < expected ? "truncated" : "bytes after the last tensor");
  }
  return result;
}

std::string SafetensorsHeaderFor(std::span<const LayoutTensor> tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  for (const LayoutTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", DTypeName(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes}}};
    at += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace skerry
