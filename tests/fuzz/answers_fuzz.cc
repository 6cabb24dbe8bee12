// What servers send, and the files of keys on this host: XML, JSON, header fields, percent-encoding, profiles. The
// first byte chooses the reader, so that each has inputs of its own.
#include <string>

#include "check.h"
#include "skerry/base/text.h"
#include "skerry/http/range.h"
#include "skerry/s3/credential_endpoints.h"
#include "skerry/s3/error_answer.h"
#include "skerry/s3/profile_files.h"
#include "skerry/s3/uri.h"
#include "skerry/s3/xml.h"

namespace skerry {
namespace {

void ExplainAnError(ByteSpan body) {
  HttpResponse response{.status = 400, .headers = {}, .body = ToBytes(body)};
  const Error error = ExplainS3Error(response, {.method = "GET",
                                                .url = "http://h/k",
                                                .bucket = "b",
                                                .region = "r",
                                                .credentials = "none",
                                                .now = std::chrono::system_clock::time_point()});
  FUZZ_CHECK(error.message == Printable(error.message));
  FUZZ_CHECK(error.message.size() < 20 * S3Error::kMaxField);
}

void ReadXml(ByteSpan body) {
  pugi::xml_document document;
  if (ParseXml(body, "ListBucketResult", document)) {
    FUZZ_CHECK(std::string_view(document.document_element().name()) == "ListBucketResult");
  }
}

void ReadRange(std::string_view text) {
  const auto range = ParseContentRange(text);
  if (range && range->first) FUZZ_CHECK(range->last && *range->first <= *range->last);
}

void DecodeUri(std::string_view text) {
  if (const auto decoded = UriDecode(text)) FUZZ_CHECK(UriDecode(UriEncode(*decoded)).value() == *decoded);
}

void ReadKeys(std::string_view text) {
  if (const auto found = ParseCredentialJson(text)) FUZZ_CHECK(!found->access_key_id.empty());
  if (const auto sections = ParseIni(text)) FUZZ_CHECK(sections->size() <= text.size() + 1);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 5) {
    case 0: ExplainAnError(bytes); break;
    case 1: ReadXml(bytes); break;
    case 2: ReadRange(AsText(bytes)); break;
    case 3: DecodeUri(AsText(bytes)); break;
    default: ReadKeys(AsText(bytes)); break;
  }
  return 0;
}
