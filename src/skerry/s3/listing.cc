// ListObjectsV2 over all its pages.
#include <algorithm>

#include "skerry/base/text.h"
#include "skerry/s3/client.h"
#include "skerry/s3/xml.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxPageBytes = 8 << 20;  // 1000 keys
constexpr int kMostPages = 100'000;

}  // namespace

Result<S3Listing> S3Client::List(const std::string& prefix, const std::string& delimiter) {
  S3Listing listing;
  std::string token;
  for (int page = 0; page < kMostPages; ++page) {
    Call call{.method = "GET",
              .key = "",
              .query = {{"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix}},
              .body_limit = kMaxPageBytes};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!token.empty()) call.query.emplace_back("continuation-token", token);
    SKERRY_ASSIGN(const HttpResponse response, Send(call));
    if (response.status != 200) return Failure(call, response);
    pugi::xml_document document;
    if (Status parsed = ParseXml(response.body, "ListBucketResult", document); !parsed) {
      return Annotate(std::move(parsed).error(), "the list of " + Describe());
    }
    const pugi::xml_node result = document.document_element();
    for (const pugi::xml_node object : result.children("Contents")) {
      listing.keys.emplace_back(object.child_value("Key"));
    }
    for (const pugi::xml_node folder : result.children("CommonPrefixes")) {
      listing.folders.emplace_back(folder.child_value("Prefix"));
    }
    if (std::string_view(result.child_value("IsTruncated")) != "true") return listing;
    const std::string next = result.child_value("NextContinuationToken");
    if (next.empty() || next == token) {
      return Fail(Code::kUnavailable, "the list of {} is cut after {} keys and names no way on", Describe(),
                  listing.keys.size());
    }
    token = next;
  }
  return Fail(Code::kUnsupported, "{} has more than {} pages of keys below {}", Describe(), kMostPages,
              Printable(prefix));
}

}  // namespace skerry
