#include "skerry/board/json_fields.h"

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxTokenSize = 128;

std::string Excerpt(std::string_view text) {
  std::string out(text.substr(0, 60));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return out;
}

// Builds the document like nlohmann's own parser, but stops at a repeated key and at deep nesting.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      flaw_ = fmt::format("the key '{}' is there twice in one object", Excerpt(name));
      return false;
    }
    key_ = name;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    flaw_ = fmt::format("malformed JSON at byte {}", position);
    return false;
  }

  json& root() { return root_; }
  const std::string& flaw() const { return flaw_; }

 private:
  template <typename Value>
  json* Place(Value&& value) {
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::forward<Value>(value));
      return &parent.back();
    }
    return &(parent[key_] = std::forward<Value>(value));
  }
  template <typename Value>
  bool Add(Value&& value) {
    Place(std::forward<Value>(value));
    return true;
  }
  bool Open(json container) {
    if (open_.size() == kMaxDepth) {
      flaw_ = fmt::format("it is nested more than {} deep", kMaxDepth);
      return false;
    }
    // The parent does not grow while a child is open, so the pointer stays good.
    open_.push_back(Place(std::move(container)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  std::string key_;
  std::string flaw_;
};

bool IsTokenCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == ':';
}

bool IsToken(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return !text.empty() && text.size() <= kMaxTokenSize && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}

}  // namespace

Result<json> ParseJsonObject(ByteSpan bytes, uint64_t max_bytes, std::string_view what) {
  if (bytes.empty()) return Fail(Code::kCorrupt, "{}: it is empty", what);
  if (bytes.size() > max_bytes) {
    return Fail(Code::kCorrupt, "{}: it has {} bytes, more than the limit of {}", what, bytes.size(), max_bytes);
  }
  const std::string_view text = AsText(bytes);
  // The parser would take a NUL byte for the end of its input and not look at what follows.
  if (text.find('\0') != std::string_view::npos) return Fail(Code::kCorrupt, "{}: it holds a NUL byte", what);
  StrictBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) return Fail(Code::kCorrupt, "{}: {}", what, builder.flaw());
  if (!builder.root().is_object()) return Fail(Code::kCorrupt, "{}: it is not a JSON object", what);
  return std::move(builder.root());
}

Result<Bytes> DumpJson(const json& value, std::string_view what) {
  try {
    return ToBytes(AsBytes(value.dump()));
  } catch (const json::exception&) {
    return Fail(Code::kInvalid, "{}: a text in it is not UTF-8", what);
  }
}

JsonFields::JsonFields(const json& value, std::string where, std::optional<Error>& error)
    : value_(&value), where_(std::move(where)), error_(&error) {}

const json& JsonFields::Field(std::string_view name) const {
  static const json missing;
  if (!value_->is_object()) return missing;
  const auto found = value_->find(name);
  return found == value_->end() ? missing : *found;
}

bool JsonFields::Has(std::string_view name) const { return !Field(name).is_null(); }

void JsonFields::Refuse(Code code, std::string message) {
  if (!*error_) *error_ = Error{code, std::move(message)};
}

void JsonFields::RefuseField(std::string_view name, std::string_view wanted) {
  if (*error_) return;
  const json& value = Field(name);
  const std::string shown =
      value.is_null() ? "missing" : Excerpt(value.dump(-1, ' ', true, json::error_handler_t::replace));
  Refuse(Code::kCorrupt, fmt::format("{}.{} is {}, but must be {}", where_, name, shown, wanted));
}

void JsonFields::RefuseUnless(const Status& status, std::string_view name) {
  if (!status) Refuse(Code::kCorrupt, fmt::format("{}.{}: {}", where_, name, status.error().message));
}

Status JsonFields::status() const {
  if (*error_) return tl::unexpected<Error>(**error_);
  return {};
}

void JsonFields::CheckFormat(uint64_t supported) {
  const uint64_t format = Unsigned("format");
  if (format == 0) {
    RefuseField("format", "at least 1");
  } else if (format > supported) {
    Refuse(Code::kUnsupported,
           fmt::format("{} has format {}; this program knows formats up to {}", where_, format, supported));
  }
}

uint64_t JsonFields::Unsigned(std::string_view name, uint64_t max) {
  const json& value = Field(name);
  if (value.is_number_unsigned() && value.get<uint64_t>() <= max) return value.get<uint64_t>();
  RefuseField(name, fmt::format("a whole number between 0 and {}", max));
  return 0;
}

std::string JsonFields::Text(std::string_view name, size_t max_size) {
  const json& value = Field(name);
  if (value.is_string() && value.get_ref<const std::string&>().size() <= max_size) return value.get<std::string>();
  RefuseField(name, fmt::format("a text of at most {} bytes", max_size));
  return {};
}

std::string JsonFields::Token(std::string_view name) {
  const json& value = Field(name);
  if (IsToken(value)) return value.get<std::string>();
  RefuseField(name, fmt::format("1-{} characters of A-Z a-z 0-9 . _ - :", kMaxTokenSize));
  return {};
}

Digest JsonFields::Sha256(std::string_view name) {
  const json& value = Field(name);
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    // One spelling for each digest.
    if (Result<Digest> digest = Digest::FromHex(text); digest && digest->Hex() == text) return *digest;
  }
  RefuseField(name, "64 lower-case hexadecimal digits");
  return {};
}

RunId JsonFields::Run(std::string_view name) {
  const json& value = Field(name);
  if (value.is_string()) {
    if (Result<RunId> run = RunId::Parse(value.get_ref<const std::string&>())) return *run;
  }
  RefuseField(name, "the name of a run");
  return {};
}

JsonFields JsonFields::Object(std::string_view name) {
  const json& value = Field(name);
  if (!value.is_object()) RefuseField(name, "an object");
  return JsonFields(value, fmt::format("{}.{}", where_, name), *error_);
}

const json* JsonFields::List(std::string_view name, size_t max_count) {
  const json& value = Field(name);
  if (value.is_array() && value.size() <= max_count) return &value;
  RefuseField(name, fmt::format("a list of at most {} entries", max_count));
  return nullptr;
}

std::vector<JsonFields> JsonFields::Objects(std::string_view name, size_t max_count) {
  std::vector<JsonFields> objects;
  const json* list = List(name, max_count);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    objects.emplace_back((*list)[i], fmt::format("{}.{}[{}]", where_, name, i), *error_);
    if (!(*list)[i].is_object()) Refuse(Code::kCorrupt, fmt::format("{} is not an object", objects.back().where()));
  }
  return objects;
}

std::vector<std::string> JsonFields::Tokens(std::string_view name, size_t max_count) {
  std::vector<std::string> tokens;
  const json* list = List(name, max_count);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (IsToken((*list)[i])) {
      tokens.push_back((*list)[i].get<std::string>());
    } else {
      Refuse(Code::kCorrupt,
             fmt::format("{}.{}[{}] is not 1-{} characters of A-Z a-z 0-9 . _ - :", where_, name, i, kMaxTokenSize));
    }
  }
  return tokens;
}

}  // namespace skerry
