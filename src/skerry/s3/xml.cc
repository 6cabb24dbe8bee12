#include "skerry/s3/xml.h"

#include "skerry/base/text.h"

namespace skerry {
namespace {

// The deepest nesting of the tree. Walked without recursion: the input chooses the depth.
int DepthOf(const pugi::xml_document& document) {
  int depth = 0, deepest = 0;
  pugi::xml_node at = document;
  while (true) {
    if (at.first_child()) {
      at = at.first_child();
      deepest = std::max(deepest, ++depth);
      continue;
    }
    while (at && !at.next_sibling()) {
      at = at.parent();
      --depth;
    }
    if (!at) return deepest;
    at = at.next_sibling();
  }
}

}  // namespace

Status ParseXml(ByteSpan body, std::string_view root, pugi::xml_document& document) {
  const pugi::xml_parse_result parsed = document.load_buffer(body.data(), body.size());
  if (!parsed) return Fail(Code::kUnavailable, "the answer is no XML: {}", parsed.description());
  if (DepthOf(document) > kMaxXmlDepth) {
    return Fail(Code::kUnavailable, "the answer's XML is nested more than {} deep", kMaxXmlDepth);
  }
  std::string_view name = document.document_element().name();
  if (name != root) {
    return Fail(Code::kUnavailable, "the answer is <{}>, not <{}>", Printable(name.substr(0, 100)), root);
  }
  return {};
}

std::string XmlEscape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace skerry
