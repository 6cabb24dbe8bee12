#include "skerry/http/response_head.h"

#include <algorithm>
#include <ctime>
#include <iterator>

namespace skerry {

namespace {

constexpr std::string_view kFraming[] = {"Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Date"};

bool IsToken(std::string_view text) {  // RFC 9110, 5.6.2
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != std::string_view::npos;
  });
}

bool IsValue(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

}  // namespace

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "";
  }
}

std::string HttpDate(std::chrono::system_clock::time_point time) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                     utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

Result<std::string> ResponseHead(const ServerResponse& response, ResponseFraming framing,
                                 std::chrono::system_clock::time_point time) {
  if (response.status < 200 || response.status > 599) {
    return Fail(Code::kInvalid, "{} is no status of an answer", response.status);
  }
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, ReasonOf(response.status), HttpDate(time));
  for (const HttpHeaders::Field& field : response.headers.fields()) {
    const bool framed = std::any_of(std::begin(kFraming), std::end(kFraming),
                                    [&](std::string_view name) { return SameHeaderName(name, field.name); });
    if (framed || !IsToken(field.name) || !IsValue(field.value)) {
      return Fail(Code::kInvalid, "an answer can't have the header \"{}\"", field.name);
    }
    head += fmt::format("{}: {}\r\n", field.name, field.value);
  }
  if (HasBody(response.status)) {
    if (!IsValue(response.content_type)) return Fail(Code::kInvalid, "an answer can't have such a content type");
    const bool empty = response.body.empty() && !response.stream;
    if (!empty && !response.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", response.content_type);
    if (framing.chunked) {
      head += "Transfer-Encoding: chunked\r\n";
    } else if (!response.stream) {
      head += fmt::format("Content-Length: {}\r\n", response.body.size());
    }
  }
  if (!framing.keep) head += "Connection: close\r\n";
  head += "\r\n";
  return head;
}

ServerResponse PlainAnswer(int status, std::string_view why) {
  ServerResponse response;
  response.status = status;
  response.body = fmt::format("{}\n", why);
  if (status == 503) response.headers.Add("Retry-After", "1");
  return response;
}

std::string WholePlainAnswer(int status, std::string_view why, bool keep, bool head_only) {
  const ServerResponse answer = PlainAnswer(status, why);
  std::string bytes = *ResponseHead(answer, {.keep = keep, .chunked = false}, std::chrono::system_clock::now());
  if (!head_only) bytes += answer.body;
  return bytes;
}

}  // namespace skerry
