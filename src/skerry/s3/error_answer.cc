#include "skerry/s3/error_answer.h"

#include <array>

#include "skerry/base/clock.h"
#include "skerry/base/text.h"
#include "skerry/s3/xml.h"

namespace skerry {
namespace {

constexpr size_t kMaxBody = 64 << 10;

std::string Field(const pugi::xml_node& node, const char* name) {
  return std::string(std::string_view(node.child_value(name)).substr(0, S3Error::kMaxField));
}

bool IsMissingObject(const HttpResponse& response, const S3Error& error) {
  return response.status == 404 && error.code != "NoSuchBucket" && error.code != "NoSuchUpload";
}

Code CodeOf(const HttpResponse& response, const S3Error& error) {
  if (error.code == "QuotaExceeded" || error.code == "InsufficientCapacity" || response.status == 507) {
    return Code::kNoSpace;
  }
  if (IsMissingObject(response, error)) return Code::kNotFound;
  switch (response.status) {
    case 412: return Code::kConflict;
    case 416: return Code::kCorrupt;
    case 501: return Code::kUnsupported;
    case 409:
    case 429: return Code::kUnavailable;
    default: return response.status >= 500 || IsTransientError(response) ? Code::kUnavailable : Code::kInvalid;
  }
}

// The region in which the server says that the bucket is; empty where it says nothing of the kind.
std::string OtherRegion(const HttpResponse& response, const S3Error& error, const std::string& region) {
  const bool about_region = response.status == 301 || response.status == 307 || response.status == 400 ||
                            response.status == 403 || error.code == "AuthorizationHeaderMalformed";
  if (!about_region) return "";
  const std::string named = response.headers.Find("x-amz-bucket-region").value_or(error.region);
  return named == region ? "" : named;
}

std::string Advice(const HttpResponse& response, const S3Error& error, const FailedCall& call) {
  if (const std::string right = OtherRegion(response, error, call.region); !right.empty()) {
    return fmt::format("the bucket is in region {}, not {}: say region={}", Printable(right), call.region,
                       Printable(right));
  }
  const std::string& code = error.code;
  if (code == "RequestTimeTooSkewed") {
    return fmt::format("this machine's clock says {}, the server's {}: set the clock", FormatTime(call.now),
                       error.server_time.empty() ? Printable(response.headers.Find("Date").value_or("something else"))
                                                 : Printable(error.server_time));
  }
  if (code == "InvalidAccessKeyId") {
    return fmt::format("the server does not know the access key ({}): use the keys of this server", call.credentials);
  }
  if (code == "SignatureDoesNotMatch") {
    return fmt::format("the secret key does not belong to the access key ({}): correct it", call.credentials);
  }
  if (code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken") {
    return fmt::format("the session token has expired or is not valid ({}): get new temporary keys", call.credentials);
  }
  if (code == "NoSuchBucket") {
    return fmt::format("there is no bucket {} at this endpoint: correct its name or make it", call.bucket);
  }
  if (code == "AccessDenied" || code == "AllAccessDisabled" || (code.empty() && response.status == 403)) {
    return fmt::format("{} is not allowed there for {}: grant it to these keys, or use others", call.method,
                       call.credentials);
  }
  if (response.status == 401) return "the server wants credentials";
  if (response.status == 501) return "the server does not do this kind of request";
  if (response.status == 301 || response.status == 302 || response.status == 307 || response.status == 308) {
    return fmt::format("redirects are not followed: use the address that it names (\"{}\")",
                       UrlForMessages(response.headers.Find("Location").value_or("none")));
  }
  return "";
}

}  // namespace

S3Error ReadS3Error(const HttpResponse& response) {
  if (response.body.empty() || response.body.size() > kMaxBody) return {};
  pugi::xml_document document;
  if (!ParseXml(response.body, "Error", document)) return {};
  const pugi::xml_node error = document.document_element();
  return {.code = Field(error, "Code"),
          .message = Field(error, "Message"),
          .region = Field(error, "Region"),
          .server_time = Field(error, "ServerTime")};
}

bool IsTransientError(const HttpResponse& response) {
  if (response.status != 200 && response.status != 400) return false;
  const std::string code = ReadS3Error(response).code;
  constexpr std::array<std::string_view, 5> kPassing = {"RequestTimeout", "InternalError", "SlowDown",
                                                        "ServiceUnavailable", "Throttling"};
  for (const std::string_view passing : kPassing) {
    if (code == passing) return true;
  }
  return false;
}

Error ExplainS3Error(const HttpResponse& response, const FailedCall& call) {
  const S3Error error = ReadS3Error(response);
  std::string said = Printable(error.code);
  if (!error.message.empty()) said += (said.empty() ? "" : ": ") + Printable(error.message);
  if (said.empty()) said = Printable(AsText(response.body).substr(0, 200));
  const std::string advice = Advice(response, error, call);
  return {CodeOf(response, error), fmt::format("{} {} answered {}{}{}{}{}", call.method, call.url, response.status,
                                               said.empty() ? "" : " ", said, advice.empty() ? "" : "; ", advice)};
}

}  // namespace skerry
