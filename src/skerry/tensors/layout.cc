#include "skerry/tensors/layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "skerry/base/text.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {
namespace {

constexpr size_t kMaxFiles = 100'000;

Digest TensorsDigestOf(const std::vector<LayoutTensor>& tensors) {
  Bytes out;
  ByteWriter writer(out);
  writer.Raw(AsBytes("skerry tensors 1\n"));
  for (const LayoutTensor& tensor : tensors) {
    writer.Int<uint32_t>(static_cast<uint32_t>(tensor.name.size()));
    writer.Raw(AsBytes(tensor.name));
    writer.Int<uint8_t>(static_cast<uint8_t>(tensor.dtype));
    writer.Int<uint32_t>(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t axis : tensor.shape) writer.Int<uint64_t>(axis);
  }
  return Sha256::Of(out);
}

}  // namespace

Result<Layout> Layout::FromHeaders(std::vector<std::pair<std::string, std::string>> headers) {
  std::sort(headers.begin(), headers.end());
  Layout layout;
  for (auto& [name, json] : headers) {
    SKERRY_TRY(CheckShardName(name));
    if (!layout.files_.empty() && layout.files_.back().name == name) {
      return Fail(Code::kCorrupt, "file '{}' stands twice in the layout", name);
    }
    auto header = ParseSafetensorsHeader(json);
    if (!header) return Annotate(std::move(header).error(), name);
    const uint64_t data_start = 8 + json.size();
    for (TensorEntry& entry : header->tensors) {
      layout.tensors_.push_back({.name = std::move(entry.name),
                                 .dtype = entry.dtype,
                                 .shape = std::move(entry.shape),
                                 .bytes = entry.end - entry.begin,
                                 .file = static_cast<uint32_t>(layout.files_.size()),
                                 .offset_in_file = data_start + entry.begin});
      layout.total_bytes_ += layout.tensors_.back().bytes;
      layout.total_units_ += layout.tensors_.back().units();
    }
    layout.files_.push_back({.name = std::move(name), .header = std::move(json), .data_bytes = header->data_bytes});
  }
  std::sort(layout.tensors_.begin(), layout.tensors_.end(),
            [](const LayoutTensor& a, const LayoutTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < layout.tensors_.size(); ++i) {
    const LayoutTensor &a = layout.tensors_[i - 1], &b = layout.tensors_[i];
    if (a.name == b.name) {
      return Fail(Code::kCorrupt, "tensor '{}' stands in both {} and {}", a.name, layout.files_[a.file].name,
                  layout.files_[b.file].name);
    }
  }
  std::vector<std::string> names;
  for (const LayoutFile& file : layout.files_) names.push_back(file.name);
  SKERRY_TRY(CheckNoFileIsAFolder(names));
  layout.digest_ = Sha256::Of(layout.Serialize());
  layout.tensors_digest_ = TensorsDigestOf(layout.tensors_);
  return layout;
}

Layout Layout::WithoutFiles(std::vector<LayoutTensor> tensors) {
  Layout layout;
  layout.tensors_ = std::move(tensors);
  for (const LayoutTensor& tensor : layout.tensors_) {
    layout.total_bytes_ += tensor.bytes;
    layout.total_units_ += tensor.units();
  }
  layout.tensors_digest_ = TensorsDigestOf(layout.tensors_);
  layout.digest_ = layout.tensors_digest_;
  return layout;
}

Layout Layout::Subset(std::span<const size_t> ordinals) const {
  std::vector<LayoutTensor> tensors;
  for (const size_t ordinal : ordinals) tensors.push_back(tensors_[ordinal]);
  return WithoutFiles(std::move(tensors));
}

Bytes Layout::Serialize() const {
  nlohmann::json files = nlohmann::json::array();
  for (const LayoutFile& file : files_) files.push_back({{"header", file.header}, {"name", file.name}});
  return ToBytes(AsBytes(nlohmann::json{{"files", std::move(files)}, {"format", 1}}.dump()));
}

Result<Layout> Layout::Parse(ByteSpan json) {
  const auto text = AsText(json);
  // Depth is bounded by the shape that is checked below; a deeper document is refused before it is built.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= 4; };
  const auto document = nlohmann::json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object()) return Fail(Code::kCorrupt, "the layout is not a JSON object");
  const auto format = document.find("format");
  if (format == document.end() || *format != 1) {
    return Fail(Code::kUnsupported, "layout format {} is not 1",
                format == document.end() ? std::string("(none)") : format->dump());
  }
  const auto files = document.find("files");
  if (files == document.end() || !files->is_array() || files->size() > kMaxFiles) {
    return Fail(Code::kCorrupt, "the layout has no list of at most {} files", kMaxFiles);
  }
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& file : *files) {
    if (!file.is_object() || file.size() != 2 || !file.contains("name") || !file.contains("header") ||
        !file["name"].is_string() || !file["header"].is_string()) {
      return Fail(Code::kCorrupt, "a file of the layout has not exactly a name and a header");
    }
    headers.emplace_back(file["name"].get<std::string>(), file["header"].get<std::string>());
  }
  SKERRY_ASSIGN(Layout layout, FromHeaders(std::move(headers)));
  if (layout.digest_ != Sha256::Of(json)) return Fail(Code::kCorrupt, "the layout is not in canonical form");
  return layout;
}

int64_t Layout::Find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const LayoutTensor& tensor, std::string_view n) { return tensor.name < n; });
  return at != tensors_.end() && at->name == name ? at - tensors_.begin() : -1;
}

std::string DescribeType(const LayoutTensor& tensor) {
  std::string text(DTypeName(tensor.dtype));
  text += " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.shape[i]);
  return text + "]";
}

std::string DescribeTensorDifferences(const Layout& base, const Layout& other, size_t limit) {
  std::vector<std::string> lines;
  const auto &a = base.tensors(), &b = other.tensors();
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (j == b.size() || (i < a.size() && a[i].name < b[j].name)) {
      lines.push_back(fmt::format("tensor '{}' ({}) is missing", a[i].name, DescribeType(a[i])));
      ++i;
    } else if (i == a.size() || b[j].name < a[i].name) {
      lines.push_back(fmt::format("tensor '{}' ({}) is new", b[j].name, DescribeType(b[j])));
      ++j;
    } else {
      if (a[i].dtype != b[j].dtype || a[i].shape != b[j].shape) {
        lines.push_back(fmt::format("tensor '{}' was {} and is {}", a[i].name, DescribeType(a[i]), DescribeType(b[j])));
      }
      ++i, ++j;
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(limit, lines.size()); ++i) text += (i == 0 ? "" : "; ") + lines[i];
  if (lines.size() > limit) text += fmt::format("; and {} more", lines.size() - limit);
  return text;
}

Status CheckRelativePath(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::kCorrupt, "unsafe file name '{}': {}", path.substr(0, 200), why);
  };
  if (path.empty() || path.size() > 1024) return refuse("it has not 1 to 1024 bytes");
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\' || c == '"') {
      return refuse("control character, quote or backslash");
    }
  }
  if (!IsUtf8(path)) return refuse("not UTF-8");
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end == start) return refuse("empty component");
    if (path[start] == '.') return refuse("hidden or dotted component");
    start = end + 1;
  }
  return {};
}

Status CheckShardName(std::string_view name) {
  SKERRY_TRY(CheckRelativePath(name));
  if (name.ends_with(kShardSuffix)) return {};
  return Fail(Code::kCorrupt, "'{}' can't be a shard: its name does not end in {}", name, kShardSuffix);
}

Status CheckNoFileIsAFolder(const std::vector<std::string>& paths) {
  const std::set<std::string_view> files(paths.begin(), paths.end());
  for (const std::string_view path : files) {
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (files.count(path.substr(0, slash)) != 0) {
        return Fail(Code::kCorrupt, "'{}' would be a file and a folder ('{}')", path.substr(0, slash), path);
      }
    }
  }
  return {};
}

}  // namespace skerry
