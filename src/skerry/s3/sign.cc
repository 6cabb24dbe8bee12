#include "skerry/s3/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>
#include <map>

namespace skerry {
namespace {

std::string Hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), out.data(), &size);
  return std::string(reinterpret_cast<const char*>(out.data()), size);
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Without blanks at the ends, and runs of blanks inside as one.
std::string CanonicalValue(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::map<std::string, std::string> CanonicalHeaders(const HttpHeaders& headers) {
  std::map<std::string, std::string> sorted;
  for (const HttpHeaders::Field& field : headers.fields()) sorted[Lower(field.name)] = CanonicalValue(field.value);
  return sorted;
}

std::string NamesOf(const HttpHeaders& headers) {
  std::string names;
  for (const auto& [name, value] : CanonicalHeaders(headers)) names += (names.empty() ? "" : ";") + name;
  return names;
}

}  // namespace

std::string FormatAmzDate(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

std::string CanonicalRequest(const RequestToSign& request) {
  std::string headers;
  for (const auto& [name, value] : CanonicalHeaders(request.headers)) headers += name + ":" + value + "\n";
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.encoded_path, CanonicalQuery(request.query),
                     headers, NamesOf(request.headers), request.payload_sha256);
}

std::string Authorization(const RequestToSign& request, const Credentials& credentials, const SigningScope& scope,
                          std::string_view amz_date) {
  const std::string date(amz_date.substr(0, 8));
  const SigningNames& names = scope.names;
  const std::string place = fmt::format("{}/{}/{}/{}", date, scope.region, scope.service, names.terminator);
  const std::string to_sign =
      fmt::format("{}\n{}\n{}\n{}", names.algorithm, amz_date, place, Sha256::Of(CanonicalRequest(request)).Hex());
  std::string key = std::string(names.key_prefix) + credentials.secret_access_key.Reveal();
  for (const std::string_view part :
       {std::string_view(date), std::string_view(scope.region), std::string_view(scope.service), names.terminator}) {
    key = Hmac(key, part);
  }
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", names.algorithm, credentials.access_key_id,
                     place, NamesOf(request.headers), ToHex(AsBytes(Hmac(key, to_sign))));
}

HttpHeaders SignedHeaders(RequestToSign request, const Credentials& credentials, const SigningScope& scope,
                          std::chrono::system_clock::time_point now) {
  if (credentials.IsAnonymous()) return std::move(request.headers);
  const std::string prefix(scope.names.header_prefix);
  const std::string date = FormatAmzDate(now);
  request.headers.Add(prefix + "date", date);
  request.headers.Add(prefix + "content-sha256", request.payload_sha256);
  if (!credentials.session_token.empty()) {
    request.headers.Add(prefix + "security-token", credentials.session_token.Reveal());
  }
  const std::string authorization = Authorization(request, credentials, scope, date);
  request.headers.Add("Authorization", authorization);
  return std::move(request.headers);
}

}  // namespace skerry
