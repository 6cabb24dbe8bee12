#include "skerry/gateway/island_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "skerry/base/text.h"
#include "skerry/http/listen_address.h"
#include "skerry/http/upstream.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFormat = 1;
constexpr size_t kMostText = 128, kMostBecause = 1000, kMostShown = 60;
constexpr uint64_t kMostRequests = 1'000'000'000;

std::string Shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMostShown ? Printable(text) : Printable(text.substr(0, kMostShown)) + "…";
}

// The members of one document. The first thing that is wrong is kept; what is read after it has no meaning.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  const Status& status() const { return status_; }

  // Empty where it is missing or null. One line of at most `most` bytes.
  std::string Text(const char* name, size_t most = kMostText) {
    const Json* value = Find(name);
    if (value == nullptr) return "";
    if (!value->is_string()) return Refuse(name, *value, "is no string"), "";
    std::string text = value->get<std::string>();
    if (text.size() > most) return Refuse(name, *value, fmt::format("is longer than {} bytes", most)), "";
    if (Printable(text) != text) return Refuse(name, *value, "has control characters or is not UTF-8"), "";
    return text;
  }
  uint64_t Number(const char* name, uint64_t most) {
    const Json* value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > most) {
      return Refuse(name, *value, fmt::format("is no whole number from 0 to {}", most)), 0;
    }
    return value->get<uint64_t>();
  }
  std::optional<Version> MaybeVersion(const char* name) {
    if (Find(name) == nullptr) return std::nullopt;
    return Version(Number(name, Version::kMax));
  }
  bool Flag(const char* name) {
    const Json* value = Find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Refuse(name, *value, "is neither true nor false"), false;
    return value->get<bool>();
  }
  void Refuse(const char* name, const Json& value, const std::string& why) {
    if (status_) status_ = Fail(Code::kInvalid, "{}: {} {}", name, Shown(value), why);
  }

 private:
  const Json* Find(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  const Json& json_;
  Status status_;
};

bool MayStandInAHost(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(".:_-").find(c) != std::string_view::npos;
}

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json OrNull(const std::optional<Version>& version) { return version ? Json(version->number()) : Json(); }

}  // namespace

bool IslandReport::DiffersFrom(const IslandReport& before) const {
  return url != before.url || port != before.port || instance != before.instance || region != before.region ||
         run != before.run || version != before.version || ready != before.ready || draining != before.draining ||
         capacity != before.capacity;
}

std::string ToJson(const IslandReport& report) {
  Json json = {{"format", kFormat}};
  if (report.url.empty()) {
    json["port"] = report.port;
  } else {
    json["url"] = report.url;
  }
  json.update(Json{{"name", report.name},
                   {"instance", report.instance},
                   {"region", OrNull(report.region)},
                   {"run", report.run},
                   {"version", OrNull(report.version)},
                   {"head", OrNull(report.head)},
                   {"ready", report.ready},
                   {"draining", report.draining},
                   {"because", OrNull(report.because.substr(0, kMostBecause))},
                   {"engines", report.engines},
                   {"running", report.running},
                   {"held", report.held},
                   {"capacity", report.capacity}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<IslandReport> ParseIslandReport(std::string_view text) {
  if (text.size() > kMostReportBytes) {
    return Fail(Code::kInvalid, "the report has {} bytes, more than {}", text.size(), kMostReportBytes);
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Fail(Code::kInvalid, "the report is no JSON object");
  Members members(json);
  const uint64_t format = members.Number("format", UINT64_MAX);
  if (members.status() && format > kFormat) {
    return Fail(Code::kUnsupported, "the report is of format {}, this program knows {}", format, kFormat);
  }
  IslandReport report;
  report.url = members.Text("url", 300);
  report.port = static_cast<uint16_t>(members.Number("port", UINT16_MAX));
  report.name = members.Text("name");
  report.instance = members.Text("instance");
  report.region = members.Text("region");
  report.run = members.Text("run", RunId::kMaxSize);
  report.version = members.MaybeVersion("version");
  report.head = members.MaybeVersion("head");
  report.ready = members.Flag("ready");
  report.draining = members.Flag("draining");
  report.because = members.Text("because", 4 * kMostBecause);
  report.engines = members.Number("engines", kMostRequests);
  report.running = members.Number("running", kMostRequests);
  report.held = members.Number("held", kMostRequests);
  report.capacity = std::max<uint64_t>(1, members.Number("capacity", kMostRequests));
  SKERRY_TRY(members.status());
  if (format != kFormat) return Fail(Code::kInvalid, "format: {} is not {}", format, kFormat);
  if (const auto run = RunId::Parse(report.run); !run) return Fail(Code::kInvalid, "run: {}", run.error().message);
  if (!report.url.empty()) {
    auto url = CanonicalUrl(report.url);
    if (!url) return Fail(Code::kInvalid, "url: {}", url.error().message);
    report.url = *std::move(url);
  } else if (report.port == 0) {
    return Fail(Code::kInvalid, "the report has neither url nor port");
  }
  return report;
}

Result<std::string> CanonicalUrl(const std::string& url) {
  SKERRY_ASSIGN(const UpstreamOptions address, ParseUpstreamUrl(url));
  if (!std::all_of(address.host.begin(), address.host.end(), MayStandInAHost)) {
    return Fail(Code::kInvalid, "\"{}\" is no host", Printable(address.host));
  }
  return "http://" + ListenAddress{.host = address.host, .port = address.port}.ToString();
}

}  // namespace skerry
