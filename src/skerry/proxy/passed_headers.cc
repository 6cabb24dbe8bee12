#include "skerry/proxy/passed_headers.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace skerry {
namespace {

constexpr std::string_view kOfTheConnection[] = {"Connection",
                                                 "Keep-Alive",
                                                 "Proxy-Connection",
                                                 "Proxy-Authenticate",
                                                 "Proxy-Authorization",
                                                 "TE",
                                                 "Trailer",
                                                 "Transfer-Encoding",
                                                 "Upgrade",
                                                 "Content-Length",
                                                 "Expect"};
constexpr std::string_view kOurs = "Skerry-";

// These are for whoever is at the other end, whatever `Connection` says.
constexpr std::string_view kAlways[] = {"Host", "Content-Type", "Content-Encoding"};

// Names in the lists of all `Connection` fields.
std::vector<std::string_view> Named(const HttpHeaders& headers) {
  std::vector<std::string_view> names;
  for (const HttpHeaders::Field& field : headers.fields()) {
    if (!SameHeaderName(field.name, "Connection")) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (!name.empty() && (name.front() == ' ' || name.front() == '\t')) name.remove_prefix(1);
      while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.remove_suffix(1);
      if (!name.empty()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

void AppendPassedHeaders(const HttpHeaders& headers, bool ours, std::string& out) {
  const std::vector<std::string_view> named = Named(headers);
  for (const HttpHeaders::Field& field : headers.fields()) {
    const auto is = [&](std::string_view name) { return SameHeaderName(field.name, name); };
    if (std::any_of(std::begin(kOfTheConnection), std::end(kOfTheConnection), is)) continue;
    if (!ours && SameHeaderName(std::string_view(field.name).substr(0, kOurs.size()), kOurs)) continue;
    if (!named.empty() && std::any_of(named.begin(), named.end(), is) &&
        std::none_of(std::begin(kAlways), std::end(kAlways), is)) {
      continue;
    }
    out += field.name;
    out += ": ";
    out += field.value;
    out += "\r\n";
  }
}

}  // namespace skerry
