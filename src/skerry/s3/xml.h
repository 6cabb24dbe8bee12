// Small XML from servers, with bounds (the caller's limit on the body's size bounds the tree).
#ifndef SKERRY_S3_XML_H_
#define SKERRY_S3_XML_H_

#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

namespace skerry {

inline constexpr int kMaxXmlDepth = 16;

// kUnavailable (a proxy's page, a cut answer: another attempt may do better) unless `body` is one XML document whose
// root is called `root`. Entities beyond the five of XML and document types are not expanded.
Status ParseXml(ByteSpan body, std::string_view root, pugi::xml_document& document);

// As text inside an element or attribute.
std::string XmlEscape(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_S3_XML_H_
