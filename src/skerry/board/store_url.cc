#include "skerry/board/store_url.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "skerry/base/text.h"
#include "skerry/board/file_store.h"
#include "skerry/board/s3_store.h"
#include "skerry/http/bearer.h"
#include "skerry/s3/profile_files.h"
#include "skerry/s3/uri.h"

namespace skerry {
namespace {

using Settings = std::map<std::string, std::string, std::less<>>;

struct UrlParts {
  std::string scheme, host, path;  // host with its port; path undecoded, without the first '/'
  Settings settings;
};

std::string Joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

// Messages show no more of the URL than UrlForMessages does: a query may hold anything.
Result<UrlParts> SplitUrl(std::string_view url, std::span<const std::string_view> known) {
  const std::string shown = UrlForMessages(url);
  const size_t mark = url.find("://");
  UrlParts parts{.scheme = std::string(url.substr(0, mark)), .host = {}, .path = {}, .settings = {}};
  std::string_view rest = url.substr(mark + 3);
  if (rest.find('#') != std::string_view::npos) {
    return Fail(Code::kInvalid, "board {}: no # in it (write %23 for a # in a name)", shown);
  }
  const size_t question = rest.find('?');
  std::string_view query = question == std::string_view::npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);
  parts.host = rest.substr(0, rest.find('/'));
  if (rest.size() > parts.host.size()) parts.path = rest.substr(parts.host.size() + 1);
  if (parts.host.find('@') != std::string::npos) {
    return Fail(Code::kInvalid, "board {}: no names or passwords in a URL; keys come from the environment or a profile",
                shown);
  }
  while (!query.empty()) {
    const std::string_view setting = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), setting.size() + 1));
    const size_t equals = setting.find('=');
    const std::string_view name = setting.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end() || equals == std::string_view::npos) {
      return Fail(Code::kInvalid, "board {}: unknown setting \"{}\"; there are {}", shown, Printable(name),
                  Joined(known));
    }
    SKERRY_ASSIGN(std::string value, UriDecode(setting.substr(equals + 1)));
    if (value.empty() || !parts.settings.emplace(name, std::move(value)).second) {
      return Fail(Code::kInvalid, "board {}: setting {} is empty or given twice", shown, name);
    }
  }
  return parts;
}

// One of `choices`, the first one when it is not given.
Result<std::string> Choice(const Settings& settings, std::string_view name, std::span<const std::string_view> choices) {
  const auto found = settings.find(name);
  if (found == settings.end()) return std::string(choices[0]);
  if (std::find(choices.begin(), choices.end(), found->second) != choices.end()) return found->second;
  return Fail(Code::kInvalid, "{}={}: it may be {}", name, Printable(found->second), Joined(choices));
}

std::string Given(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

std::string AmazonEndpoint(const std::string& region) {
  return fmt::format("https://s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
}

Result<std::string> RegionOf(const Settings& settings, const Environment& environment) {
  if (std::string given = Given(settings, "region"); !given.empty()) return given;
  for (const std::string_view name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = environment(name)) return *std::move(region);
  }
  SKERRY_ASSIGN(const ProfileSettings profile, ReadProfile(environment, Given(settings, "profile")));
  return profile.region.value_or("us-east-1");
}

}  // namespace

Result<S3Place> ParseS3Url(std::string_view url, const Environment& environment) {
  constexpr std::array<std::string_view, 7> kKnown = {"endpoint",  "region", "style",     "profile",
                                                      "anonymous", "ca",     "conditions"};
  constexpr std::array<std::string_view, 2> kNoOrYes = {"false", "true"}, kDialects = {"s3", "google"};
  constexpr std::array<std::string_view, 3> kStyles = {"", "path", "virtual"};
  SKERRY_ASSIGN(UrlParts parts, SplitUrl(url, kKnown));
  const Settings& settings = parts.settings;
  SKERRY_ASSIGN(const std::string anonymous, Choice(settings, "anonymous", kNoOrYes));
  SKERRY_ASSIGN(const std::string dialect, Choice(settings, "conditions", kDialects));
  SKERRY_ASSIGN(const std::string style, Choice(settings, "style", kStyles));
  S3Place place;
  SKERRY_ASSIGN(place.prefix, UriDecode(parts.path));
  S3Options& options = place.options;
  options.bucket = parts.host;
  options.conditions = dialect == "google" ? ConditionDialect::kGoogle : ConditionDialect::kS3;
  SKERRY_ASSIGN(options.region, RegionOf(settings, environment));
  options.endpoint = Given(settings, "endpoint");
  for (const std::string_view name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (options.endpoint.empty()) options.endpoint = environment(name).value_or("");
  }
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (options.endpoint.empty() && dialect == "google") options.endpoint = "https://storage.googleapis.com";
  const bool custom = !options.endpoint.empty();
  if (!custom) options.endpoint = AmazonEndpoint(options.region);
  // TLS certificates for *.s3… do not cover a bucket with dots.
  const bool has_dots = options.bucket.find('.') != std::string::npos;
  options.path_style = style.empty() ? custom || has_dots : style == "path";
  options.http.ca_file = settings.contains("ca") ? Given(settings, "ca") : environment("AWS_CA_BUNDLE").value_or("");
  options.credentials = {.anonymous = anonymous == "true",
                         .profile = Given(settings, "profile"),
                         .custom_endpoint = custom,
                         .environment = environment};
  return place;
}

Result<HttpStoreOptions> ParseHttpUrl(std::string_view url, const Environment& environment) {
  constexpr std::array<std::string_view, 2> kKnown = {"ca", "token_file"};
  SKERRY_ASSIGN(const UrlParts parts, SplitUrl(url, kKnown));
  HttpStoreOptions options;
  options.url = parts.scheme + "://" + parts.host + "/" + parts.path;
  const std::string ca = Given(parts.settings, "ca");
  options.http.ca_file = ca.empty() ? environment("AWS_CA_BUNDLE").value_or("") : ca;
  if (const std::string file = Given(parts.settings, "token_file"); !file.empty()) {
    SKERRY_ASSIGN(options.token, ReadTokenFile(file));
  }
  return options;
}

Result<std::shared_ptr<Store>> OpenStore(std::string_view board, bool create, const RetryPolicy& retry) {
  if (board.empty()) return Fail(Code::kInvalid, "the board's name is empty: name a directory or a URL");
  const size_t mark = board.find("://");
  const std::string_view scheme = mark == std::string_view::npos ? "" : board.substr(0, mark);
  if (scheme == "s3") {
    SKERRY_ASSIGN(S3Place place, ParseS3Url(board, ProcessEnvironment()));
    place.options.retry = retry;
    return S3Store::Open(std::move(place.options), std::move(place.prefix));
  }
  if (scheme == "http" || scheme == "https") {
    SKERRY_ASSIGN(HttpStoreOptions options, ParseHttpUrl(board, ProcessEnvironment()));
    options.retry = retry;
    return HttpStore::Open(std::move(options));
  }
  if (!scheme.empty() && scheme != "file") {
    return Fail(Code::kUnsupported,
                "board {}: this program reads directories (a path or file:///…), s3:// and http(s)://, not {}://",
                UrlForMessages(board), Printable(scheme));
  }
  std::string_view path = board;
  if (!scheme.empty()) {
    path.remove_prefix(mark + 3);
    if (!path.starts_with('/')) {
      return Fail(Code::kInvalid, "board {}: a file URL has an absolute path: file:///…", board);
    }
  }
  SKERRY_ASSIGN(std::shared_ptr<Store> store, FileStore::Open(Path(path), create));
  return store;
}

}  // namespace skerry
