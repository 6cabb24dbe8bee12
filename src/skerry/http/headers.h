// Header fields of a request or an answer. Names are compared without regard to case, as HTTP wants (RFC 9110, 5.1).
#ifndef SKERRY_HTTP_HEADERS_H_
#define SKERRY_HTTP_HEADERS_H_

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skerry {

inline bool SameHeaderName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](char x, char y) { return lower(x) == lower(y); });
}

class HttpHeaders {
 public:
  struct Field {
    std::string name;
    std::string value;
  };

  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<Field> fields) : fields_(fields) {}

  void Add(std::string name, std::string value) { fields_.push_back({std::move(name), std::move(value)}); }
  // The first one of that name.
  std::optional<std::string> Find(std::string_view name) const {
    const std::string* value = FindValue(name);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  // The same without a copy; nullptr: there is none.
  const std::string* FindValue(std::string_view name) const {
    for (const Field& field : fields_) {
      if (SameHeaderName(field.name, name)) return &field.value;
    }
    return nullptr;
  }
  size_t Count(std::string_view name) const {
    return static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(),
                                             [&](const Field& field) { return SameHeaderName(field.name, name); }));
  }
  void Clear() { fields_.clear(); }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::vector<Field> fields_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_HEADERS_H_
