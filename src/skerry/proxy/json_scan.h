// Steps over the values of a JSON text (RFC 8259) without building anything: brackets and strings are matched, what
// stands between them is not judged. No recursion, so that a text of nothing but brackets costs no stack.
#ifndef SKERRY_PROXY_JSON_SCAN_H_
#define SKERRY_PROXY_JSON_SCAN_H_

#include <optional>
#include <string_view>
#include <vector>

namespace skerry {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
std::string_view TrimJsonSpace(std::string_view text);

// A reader's place in a text. All methods move it forward; after one that returned false or nullopt it stands anywhere.
class JsonScan {
 public:
  explicit JsonScan(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool AtEnd() const { return at_ == text_.size(); }
  void SkipSpace();
  // Passes the byte if it comes next.
  bool Take(char c);
  // The text of a string with its quotes. Passed over at memchr's speed.
  std::optional<std::string_view> String();
  // The text of any value.
  std::optional<std::string_view> Value();

 private:
  bool SkipString();
  bool SkipNested();

  std::string_view text_;
  size_t at_ = 0;
};

// The texts of an array's elements; nullopt where the text is no single array, or has more than `most` elements.
std::optional<std::vector<std::string_view>> FindElements(std::string_view array, size_t most);

}  // namespace skerry

#endif  // SKERRY_PROXY_JSON_SCAN_H_
