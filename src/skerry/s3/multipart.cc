// Uploads in parts:
//   1. create the upload             crash: an upload without parts, which AbortUploads sweeps
//   2. upload the parts in parallel  crash: parts that nobody sees and that cost money until they are swept
//   3. complete it                   crash: the object is there whole, or not at all
// A failure at any step aborts the upload, which frees its parts.
#include <algorithm>

#include "skerry/base/parallel.h"
#include "skerry/s3/client.h"
#include "skerry/s3/credential_endpoints.h"
#include "skerry/s3/error_answer.h"
#include "skerry/s3/xml.h"

namespace skerry {
namespace {

constexpr uint64_t kMostParts = 10'000;
constexpr int kMostUploads = 3;  // a completion that lost against another one (409) begins anew
// A server may take minutes to join parts.
constexpr std::chrono::seconds kCompletionStall{300};
constexpr uint64_t kMaxListBytes = 8 << 20;
constexpr int kMostListPages = 100'000;

uint64_t PartSize(uint64_t size, uint64_t wanted) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t least = (size + kMostParts - 1) / kMostParts;
  return least <= wanted ? wanted : (least + kMiB - 1) / kMiB * kMiB;
}

}  // namespace

Result<UploadOutcome> S3Client::Upload(const std::string& key, const Payload& payload) {
  const uint64_t part_size = PartSize(payload.size, options_.part_bytes);
  const size_t count = std::max<uint64_t>(1, (payload.size + part_size - 1) / part_size);
  Backoff backoff = NewBackoff();
  for (int upload = 1;; ++upload) {
    SKERRY_ASSIGN(const std::string id, CreateUpload(key));
    std::vector<std::string> etags;
    const Status parts = ParallelOrdered<std::string>(
        count, options_.part_threads,
        [&](size_t i) {
          const uint64_t begin = i * part_size;
          const Payload part{.size = std::min(part_size, payload.size - begin),
                             .read = [&payload, begin](uint64_t offset, MutableByteSpan out) {
                               return payload.read(begin + offset, out);
                             }};
          return UploadPart(key, id, i + 1, part);
        },
        [&](size_t, std::string etag) -> Status {
          etags.push_back(std::move(etag));
          return {};
        });
    if (!parts) {
      (void)AbortUpload(key, id);
      return tl::unexpected<Error>(parts.error());
    }
    Result<WriteOutcome> completed = CompleteUpload(key, id, etags);
    if (!completed) {
      (void)AbortUpload(key, id);
      return tl::unexpected<Error>(std::move(completed).error());
    }
    if (completed->kind == WriteOutcome::Kind::kWritten) return UploadOutcome::kStored;
    if (completed->kind == WriteOutcome::Kind::kUndecided) return UploadOutcome::kMaybe;
    (void)AbortUpload(key, id);
    if (upload == kMostUploads || !backoff.WaitBeforeRetry()) return tl::unexpected<Error>(completed->reason);
  }
}

Result<std::string> S3Client::CreateUpload(const std::string& key) {
  const Call call{.method = "POST", .key = key, .query = {{"uploads", ""}}};
  SKERRY_ASSIGN(const HttpResponse response, Send(call));
  if (response.status != 200) return Failure(call, response);
  pugi::xml_document document;
  Status parsed = ParseXml(response.body, "InitiateMultipartUploadResult", document);
  const std::string id = document.document_element().child_value("UploadId");
  if (parsed && id.empty()) parsed = Fail(Code::kUnavailable, "the answer names no upload");
  if (!parsed) return Annotate(std::move(parsed).error(), "POST " + UrlOf(key));
  return id;
}

Result<std::string> S3Client::UploadPart(const std::string& key, const std::string& id, size_t number,
                                         const Payload& part) {
  const Call call{.method = "PUT",
                  .key = key,
                  .query = {{"partNumber", std::to_string(number)}, {"uploadId", id}},
                  .payload = part};
  SKERRY_ASSIGN(const HttpResponse response, Send(call));
  if (!response.ok()) return Failure(call, response);
  std::optional<std::string> etag = response.headers.Find("ETag");
  if (!etag) return Fail(Code::kUnavailable, "part {} of {}: the answer has no ETag", number, UrlOf(key));
  return *std::move(etag);
}

// kConditionFailed here: the server refused with 409, and the upload may begin anew.
Result<WriteOutcome> S3Client::CompleteUpload(const std::string& key, const std::string& id,
                                              const std::vector<std::string>& etags) {
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < etags.size(); ++i) {
    list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, XmlEscape(etags[i]));
  }
  list += "</CompleteMultipartUpload>";
  const Call call{.method = "POST",
                  .key = key,
                  .query = {{"uploadId", id}},
                  .headers = {{"Content-Type", "application/xml"}},
                  .payload = Payload::Of(AsBytes(list)),
                  .stall_timeout = kCompletionStall};
  Result<HttpResponse> sent = Send(call);
  using Kind = WriteOutcome::Kind;
  if (!sent && sent.error().code == Code::kUnavailable) return WriteOutcome{Kind::kUndecided, "", sent.error()};
  if (!sent) return tl::unexpected<Error>(std::move(sent).error());
  // A server may send 200 at once and its error later, in the body.
  if (sent->ok() && ReadS3Error(*sent).code.empty()) return WriteOutcome{Kind::kWritten, TokenOf(*sent)};
  Error error = Failure(call, *sent).value();
  if (sent->status == 409) return WriteOutcome{Kind::kConditionFailed, "", std::move(error)};
  // Gone: this completion arrived before, and its answer was lost; or somebody aborted the upload.
  const bool gone = ReadS3Error(*sent).code == "NoSuchUpload";
  if (gone || error.code == Code::kUnavailable) return WriteOutcome{Kind::kUndecided, "", std::move(error)};
  return tl::unexpected<Error>(std::move(error));
}

// Once: what stays is swept later.
Status S3Client::AbortUpload(const std::string& key, const std::string& id) {
  const Call call{.method = "DELETE", .key = key, .query = {{"uploadId", id}}, .repeat = false};
  SKERRY_ASSIGN(const HttpResponse response, Send(call));
  if (response.ok() || response.status == 404) return {};
  return Failure(call, response);
}

Result<uint64_t> S3Client::AbortUploads(const std::string& prefix, std::chrono::seconds older_than) {
  const auto limit = options_.clock->Now() - older_than;
  std::vector<std::pair<std::string, std::string>> stale;
  std::string key_marker, id_marker;
  for (int page = 0; page < kMostListPages; ++page) {
    Call call{.method = "GET", .key = "", .query = {{"uploads", ""}, {"prefix", prefix}}, .body_limit = kMaxListBytes};
    if (page > 0) call.query.insert(call.query.end(), {{"key-marker", key_marker}, {"upload-id-marker", id_marker}});
    SKERRY_ASSIGN(const HttpResponse response, Send(call));
    if (response.status != 200) return Failure(call, response);
    pugi::xml_document document;
    SKERRY_TRY(ParseXml(response.body, "ListMultipartUploadsResult", document));
    const pugi::xml_node result = document.document_element();
    for (const pugi::xml_node upload : result.children("Upload")) {
      const std::string key = upload.child_value("Key");
      const auto began = ParseIsoTime(upload.child_value("Initiated"));
      if (key.starts_with(prefix) && began && *began <= limit) stale.emplace_back(key, upload.child_value("UploadId"));
    }
    const std::string next_key = result.child_value("NextKeyMarker"),
                      next_id = result.child_value("NextUploadIdMarker");
    if (std::string_view(result.child_value("IsTruncated")) != "true") break;
    if (next_key == key_marker && next_id == id_marker) {
      return Fail(Code::kUnavailable, "{}: the list of uploads does not move past \"{}\"", Describe(), next_key);
    }
    key_marker = next_key;
    id_marker = next_id;
  }
  for (const auto& [key, id] : stale) SKERRY_TRY(AbortUpload(key, id));
  return stale.size();
}

}  // namespace skerry
