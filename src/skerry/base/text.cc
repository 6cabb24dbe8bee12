#include "skerry/base/text.h"

#include <fmt/core.h>

#include <cstdint>

namespace skerry {
namespace {

// Bytes of the well-formed sequence at the start of `text`, or 0.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // The second byte's range depends on the first: over-long forms, surrogates, beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const auto first = static_cast<uint8_t>(text[0]);
    const bool c1_control = length == 2 && first == 0xC2 && static_cast<uint8_t>(text[1]) < 0xA0;
    if (length == 0 || first < 0x20 || first == 0x7F || c1_control) {
      for (size_t i = 0; i < std::max<size_t>(1, length); ++i) {
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
      }
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

}  // namespace skerry
