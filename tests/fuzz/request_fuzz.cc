// The bytes that a client sends to Skerry's HTTP server. However they are cut in pieces, they are the same requests;
// only what is no request may be refused sooner or later.
#include "check.h"
#include "skerry/http/incoming_request.h"

namespace skerry {
namespace {

constexpr size_t kMaxHeader = 2048;
constexpr uint64_t kMaxBody = 1024;

// All requests of `bytes` as one text, when they come in pieces of `piece` bytes.
std::string Requests(std::string_view bytes, size_t piece) {
  IncomingRequest incoming(kMaxHeader);
  std::string all;
  uint64_t body = 0;
  while (true) {
    switch (incoming.Parse()) {
      case IncomingRequest::Progress::kHead: {
        const ServerRequest request = incoming.TakeHead();
        incoming.LimitBody(kMaxBody);
        all += request.method + " " + request.path() + "\n";
        for (const auto& field : request.headers.fields()) all += field.name + ":" + field.value + "\n";
        body = 0;
        continue;
      }
      case IncomingRequest::Progress::kNeedsLeave: continue;
      case IncomingRequest::Progress::kBody:
        FUZZ_CHECK(!incoming.piece().empty());
        body += incoming.piece().size();
        FUZZ_CHECK(body <= kMaxBody);
        all += incoming.piece();
        continue;
      case IncomingRequest::Progress::kComplete:
        all += "\n";
        if (!incoming.framing().keep) return all;
        incoming.Next();
        continue;
      case IncomingRequest::Progress::kRefused: {
        const int status = incoming.refusal().status;
        FUZZ_CHECK(status >= 400 && status < 600 && !incoming.refusal().why.empty());
        return all;
      }
      case IncomingRequest::Progress::kNeedsMore:
        if (bytes.empty()) return all;
        incoming.Append(bytes.substr(0, piece));
        bytes.remove_prefix(std::min(piece, bytes.size()));
    }
  }
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  FUZZ_CHECK(skerry::Requests(bytes, size) == skerry::Requests(bytes, 1 + data[0] % 16));
  return 0;
}
