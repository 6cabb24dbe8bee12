// Text from files of unknown origin, checked and made fit for a terminal.
#ifndef SKERRY_BASE_TEXT_H_
#define SKERRY_BASE_TEXT_H_

#include <string>
#include <string_view>

namespace skerry {

// Well-formed UTF-8 (RFC 3629): no over-long forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text);

// The text with control characters and bytes that are not UTF-8 written as \xNN: one line, and nothing that moves a
// cursor.
std::string Printable(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_BASE_TEXT_H_
