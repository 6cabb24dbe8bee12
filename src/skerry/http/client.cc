#include "skerry/http/client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "skerry/base/interrupt.h"
#include "skerry/base/text.h"

namespace skerry {
namespace {

constexpr size_t kMaxIdleHandles = 64;
// Of all headers of one answer, and their number.
constexpr size_t kMaxHeaderBytes = 64 << 10;
constexpr long kReceiveBuffer = 256 << 10;

void InitialiseCurl() {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)once;
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// What can't be put right by trying again.
Code CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR: return Code::kInvalid;
    case CURLE_OUT_OF_MEMORY: return Code::kIo;
    default: return Code::kUnavailable;
  }
}

}  // namespace

// Idle easy handles; each keeps its connections. Thread-safe.
class HttpClient::Pool {
 public:
  ~Pool() {
    for (CURL* handle : idle_) curl_easy_cleanup(handle);
  }

  CURL* Take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return curl_easy_init();
    CURL* handle = idle_.back();
    idle_.pop_back();
    return handle;
  }

  void Give(CURL* handle) {
    curl_easy_reset(handle);
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdleHandles) {
      idle_.push_back(handle);
    } else {
      curl_easy_cleanup(handle);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<CURL*> idle_;  // guarded by mutex_
};

// One request on one handle, with what libcurl's callbacks need.
class HttpClient::Transfer {
 public:
  Transfer(Pool& pool, const HttpRequest& request) : pool_(pool), request_(request), handle_(pool.Take()) {}
  ~Transfer() {
    if (handle_ != nullptr) pool_.Give(handle_);
    curl_slist_free_all(headers_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  Result<HttpResponse> Run(const HttpClientOptions& options) {
    if (handle_ == nullptr) return Fail(Code::kIo, "no memory for a request to {}", UrlForMessages(request_.url));
    SKERRY_TRY(SetHeaders());
    SetConnection(options);
    SetBody();
    SetAnswer();
    SetInterruption();
    SKERRY_TRY(CheckInterrupt());
    const CURLcode code = curl_easy_perform(handle_);
    if (failure_) return Annotate(std::move(*failure_), UrlForMessages(request_.url));
    if (code != CURLE_OK && !enough_) return Failure(code);
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    if (!enough_) SKERRY_TRY(CheckEnd());
    return std::move(response_);
  }

 private:
  template <typename T>
  void Set(CURLoption option, T value) {
    curl_easy_setopt(handle_, option, value);
  }

  Status SetHeaders() {
    for (const HttpHeaders::Field& field : request_.headers.fields()) {
      const std::string line = field.value.empty() ? field.name + ";" : field.name + ": " + field.value;
      if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
        return Fail(Code::kInvalid, "header {} has a line break in its value", Printable(field.name));
      }
      AddHeaderLine(line);
    }
    AddHeaderLine("Expect:");  // else a body of 1 MiB waits a second for "100 Continue"
    if (!request_.headers.Find("Content-Type")) AddHeaderLine("Content-Type:");
    AddHeaderLine("Accept:");
    Set(CURLOPT_HTTPHEADER, headers_);
    return {};
  }
  void AddHeaderLine(const std::string& line) {
    if (curl_slist* longer = curl_slist_append(headers_, line.c_str())) headers_ = longer;
  }

  void SetConnection(const HttpClientOptions& options) {
    Set(CURLOPT_ERRORBUFFER, message_.data());
    Set(CURLOPT_URL, request_.url.c_str());
    Set(CURLOPT_PATH_AS_IS, 1L);
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
    Set(CURLOPT_FOLLOWLOCATION, 0L);
    Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_TCP_KEEPALIVE, 1L);
    Set(CURLOPT_USERAGENT, "skerry");
    Set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
    Set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.total_timeout.count()));
    Set(CURLOPT_LOW_SPEED_LIMIT, kStallBytes);
    Set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request_.stall_timeout.count()));
    Set(CURLOPT_FRESH_CONNECT, request_.fresh_connection ? 1L : 0L);
    if (request_.no_proxy) Set(CURLOPT_NOPROXY, "*");
    if (!options.ca_file.empty()) Set(CURLOPT_CAINFO, options.ca_file.c_str());
  }

  void SetBody() {
    body_size_ = request_.read_body ? request_.body_size : request_.body.size();
    if (request_.method == "GET" && body_size_ == 0) {
      Set(CURLOPT_HTTPGET, 1L);
    } else if (request_.method == "HEAD") {
      Set(CURLOPT_NOBODY, 1L);
    } else if (body_size_ == 0 && request_.method != "PUT" && request_.method != "POST") {
      Set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    } else {
      Set(CURLOPT_UPLOAD, 1L);
      Set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
      Set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_size_));
      Set(CURLOPT_UPLOAD_BUFFERSIZE, kReceiveBuffer);
      Set(CURLOPT_READFUNCTION, &Transfer::ReadBody);
      Set(CURLOPT_READDATA, this);
      Set(CURLOPT_SEEKFUNCTION, &Transfer::SeekBody);
      Set(CURLOPT_SEEKDATA, this);
    }
  }

  void SetAnswer() {
    Set(CURLOPT_BUFFERSIZE, kReceiveBuffer);
    Set(CURLOPT_HEADERFUNCTION, &Transfer::TakeHeader);
    Set(CURLOPT_HEADERDATA, this);
    Set(CURLOPT_WRITEFUNCTION, &Transfer::TakePiece);
    Set(CURLOPT_WRITEDATA, this);
  }

  // libcurl calls it at least once a second, also while it connects or waits.
  void SetInterruption() {
    if (Interruptible::Current() == nullptr) return;
    Set(CURLOPT_NOPROGRESS, 0L);
    Set(CURLOPT_XFERINFOFUNCTION, &Transfer::Look);
    Set(CURLOPT_XFERINFODATA, this);
  }
  static int Look(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const Status wanted = CheckInterrupt();
    if (!wanted) static_cast<Transfer*>(self)->failure_ = wanted.error();
    return wanted ? 0 : 1;  // CURL_PROGRESSFUNC_CONTINUE would print a meter
  }

  static size_t ReadBody(char* out, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->FillBody({reinterpret_cast<std::byte*>(out), size * count});
  }
  size_t FillBody(MutableByteSpan out) {
    out = out.first(std::min<uint64_t>(out.size(), body_size_ - body_sent_));
    if (request_.read_body) {
      if (Status read = request_.read_body(body_sent_, out); !read) {
        failure_ = std::move(read).error();
        return CURL_READFUNC_ABORT;
      }
    } else {
      std::copy_n(request_.body.begin() + static_cast<ptrdiff_t>(body_sent_), out.size(), out.begin());
    }
    body_sent_ += out.size();
    return out.size();
  }
  static int SeekBody(void* self, curl_off_t offset, int origin) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > transfer.body_size_) {
      return CURL_SEEKFUNC_FAIL;
    }
    transfer.body_sent_ = static_cast<uint64_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  static size_t TakeHeader(char* line, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->AddHeader({line, size * count}) ? size * count : 0;
  }
  bool AddHeader(std::string_view line) {
    if (line.starts_with("HTTP/")) {  // the answer, or another one after "100 Continue"
      response_.headers.Clear();
      header_bytes_ = 0;
      headers_complete_ = false;
      return true;
    }
    header_bytes_ += line.size();
    headers_complete_ = headers_complete_ || Trim(line).empty();
    if (header_bytes_ > kMaxHeaderBytes) {
      failure_ = Error{Code::kCorrupt, fmt::format("the answer has more than {} bytes of headers", kMaxHeaderBytes)};
      return false;
    }
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      response_.headers.Add(std::string(Trim(line.substr(0, colon))), std::string(Trim(line.substr(colon + 1))));
    }
    return true;
  }

  static size_t TakePiece(char* piece, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->Receive(AsBytes({piece, size * count})) ? size * count : 0;
  }
  bool Receive(ByteSpan piece) {
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    if (request_.receive && response_.ok()) {
      Result<bool> go_on = request_.receive(response_, piece);
      if (!go_on) failure_ = std::move(go_on).error();
      enough_ = go_on && !*go_on;
      return go_on && *go_on;
    }
    if (piece.size() > request_.body_limit - response_.body.size()) {
      failure_ = Error{Code::kCorrupt, fmt::format("the answer has more than {} bytes", request_.body_limit)};
      return false;
    }
    response_.body.insert(response_.body.end(), piece.begin(), piece.end());
    return true;
  }

  // libcurl takes the end of a connection for the end of the headers, and of a body whose length nothing tells.
  Status CheckEnd() const {
    const bool has_end = response_.headers.Find("Content-Length") || response_.headers.Find("Transfer-Encoding");
    if (!headers_complete_) {
      return Fail(Code::kUnavailable, "{} {}: the answer ended within its headers", request_.method,
                  UrlForMessages(request_.url));
    }
    if (request_.method == "GET" && (response_.status == 200 || response_.status == 206) && !has_end) {
      return Fail(Code::kUnavailable, "GET {}: nothing tells whether the answer is complete: it has no Content-Length",
                  UrlForMessages(request_.url));
    }
    return {};
  }

  tl::unexpected<Error> Failure(CURLcode code) const {
    const std::string_view detail = message_[0] != '\0' ? message_.data() : curl_easy_strerror(code);
    const Code kind = CodeOf(code);
    const std::string_view hint =
        code == CURLE_PEER_FAILED_VERIFICATION ? " (name the authority's certificate by ca= or AWS_CA_BUNDLE)" : "";
    return Fail(kind, "{} {}: {}{}", request_.method, UrlForMessages(request_.url), Printable(detail), hint);
  }

  Pool& pool_;
  const HttpRequest& request_;
  CURL* handle_;
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> message_{};
  uint64_t body_size_ = 0;
  uint64_t body_sent_ = 0;
  size_t header_bytes_ = 0;
  bool headers_complete_ = false;
  HttpResponse response_;
  bool enough_ = false;  // `receive` has what it wants
  std::optional<Error> failure_;
};

HttpClient::HttpClient(HttpClientOptions options) : options_(std::move(options)) {
  InitialiseCurl();
  pool_ = std::make_unique<Pool>();
}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::Send(const HttpRequest& request) { return Transfer(*pool_, request).Run(options_); }

std::string UrlForMessages(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const size_t scheme = url.find("://");
  const size_t authority = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string_view host = url.substr(authority, url.find('/', authority) - authority);
  const size_t at = host.rfind('@');
  if (at == std::string_view::npos) return Printable(url);
  return Printable(url.substr(0, authority)) + Printable(url.substr(authority + at + 1));
}

}  // namespace skerry
