#include "skerry/gateway/island_list.h"

#include <netdb.h>
#include <sys/socket.h>

#include <set>
#include <utility>

#include "skerry/base/log.h"
#include "skerry/gateway/island_report.h"
#include "skerry/http/listen_address.h"
#include "skerry/http/upstream.h"

namespace skerry {
namespace {

constexpr std::string_view kDns = "dns://";
constexpr uint64_t kMostFileBytes = 1 << 20;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r").find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

// All addresses of a name, as URLs.
Result<std::vector<std::string>> Resolve(const std::string& name, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found); error != 0) {
    return Fail(Code::kUnavailable, "{}: {}", name, gai_strerror(error));
  }
  std::vector<std::string> urls;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    urls.push_back("http://" + ListenAddress{.host = host, .port = port}.ToString());
  }
  freeaddrinfo(found);
  return urls;
}

Result<std::vector<std::string>> Read(const IslandSource& source) {
  switch (source.kind) {
    case IslandSource::Kind::kUrl: return std::vector{source.text};
    case IslandSource::Kind::kName: return Resolve(source.text, source.port);
    case IslandSource::Kind::kFile: break;
  }
  SKERRY_ASSIGN(const Bytes bytes, ReadFile(source.text, kMostFileBytes));
  auto urls = ParseIslandFile(AsText(bytes));
  if (!urls) return Annotate(std::move(urls).error(), source.text);
  return urls;
}

}  // namespace

Result<std::vector<IslandSource>> ParseIslandSources(const std::vector<std::string>& texts) {
  std::vector<IslandSource> sources;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      const std::string one(Trimmed(std::string_view(text).substr(begin, comma - begin)));
      begin = comma + 1;
      if (one.empty()) return Fail(Code::kInvalid, "\"{}\": an address is empty", text);
      if (one.starts_with(kDns)) {
        SKERRY_ASSIGN(const std::string url, CanonicalUrl("http://" + one.substr(kDns.size())));
        SKERRY_ASSIGN(const UpstreamOptions address, ParseUpstreamUrl(url));
        sources.push_back({IslandSource::Kind::kName, address.host, address.port});
      } else if (one.find("://") != std::string::npos) {
        SKERRY_ASSIGN(std::string url, CanonicalUrl(one));
        sources.push_back({IslandSource::Kind::kUrl, std::move(url)});
      } else {
        sources.push_back({IslandSource::Kind::kFile, one});
      }
    }
  }
  return sources;
}

Result<std::vector<std::string>> ParseIslandFile(std::string_view text) {
  std::vector<std::string> urls;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = Trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    auto url = CanonicalUrl(std::string(line));
    if (!url) return Annotate(std::move(url).error(), fmt::format("line {}", number));
    urls.push_back(*std::move(url));
  }
  return urls;
}

IslandList::IslandList(std::vector<IslandSource> sources, std::chrono::milliseconds every, Told told)
    : sources_(std::move(sources)), every_(every), told_(std::move(told)), thread_([this] { Run(); }) {}

IslandList::~IslandList() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IslandList::Run() {
  std::vector<std::vector<std::string>> had(sources_.size());
  std::vector<std::string> problems(sources_.size());
  std::optional<std::set<std::string>> before;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    std::set<std::string> all;
    for (size_t i = 0; i < sources_.size(); ++i) {
      auto urls = Read(sources_[i]);
      const std::string problem = urls ? "" : urls.error().message;
      if (problem != problems[i] && !problem.empty()) LogWarning("islands: {}", problem);
      problems[i] = problem;
      if (urls) had[i] = *std::move(urls);
      all.insert(had[i].begin(), had[i].end());
    }
    if (before != all) told_({all.begin(), all.end()});
    before = std::move(all);
    lock.lock();
    changed_.wait_for(lock, every_, [this] { return stopping_; });
  }
}

}  // namespace skerry
