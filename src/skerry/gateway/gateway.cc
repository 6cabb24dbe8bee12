#include "skerry/gateway/gateway.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "skerry/base/log.h"
#include "skerry/gateway/fleet_document.h"
#include "skerry/gateway/inquiry.h"
#include "skerry/gateway/routing.h"
#include "skerry/http/response_head.h"
#include "skerry/proxy/own_answer.h"

namespace skerry {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};
// An island that is there answers within this; one whose host is gone says nothing at all.
constexpr std::chrono::milliseconds kConnectTimeout{2'000};
constexpr std::chrono::milliseconds kReportTimeout{2'000};

}  // namespace

Result<std::unique_ptr<Gateway>> Gateway::Make(EventLoop& loop, GatewayOptions options, GatewayMetrics& metrics) {
  SKERRY_ASSIGN(AccessLog log, AccessLog::Open(options.access_log));
  return std::unique_ptr<Gateway>(new Gateway(loop, std::move(options), metrics, std::move(log)));
}

Gateway::Gateway(EventLoop& loop, GatewayOptions options, GatewayMetrics& metrics, AccessLog log)
    : loop_(loop),
      options_(std::move(options)),
      metrics_(metrics),
      hall_(options_.hall, metrics, std::move(log)),
      fleet_(options_.fleet),
      ticket_(std::random_device{}()) {
  tick_ = loop_.Every(kTick, [this] { Tick(); });
}

Gateway::~Gateway() {
  tick_.reset();
  loop_.Do([this] {
    for (const auto& [key, inquiry] : inquiries_) inquiry->Cancel();
    inquiries_.clear();
  });
}

std::shared_ptr<Exchange> Gateway::Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port,
                                         uint64_t& max_body) {
  requests_.Add(1, steady_clock::now());
  const auto routing = std::make_shared<Routing>(*this, std::move(head), framing, port);
  routing->Begin(max_body);
  return routing;
}

void Gateway::Tokens(uint64_t count) {
  metrics_.Tokens(count);
  tokens_.Add(count, steady_clock::now());
}

void Gateway::Lied(Island& island, const std::string& why) {
  if (!island.lied) LogWarning("{} gets no requests for {} s: {}", island.url, Fleet::kDistrust.count() / 1000, why);
  fleet_.Lied(island, why, steady_clock::now());
}

void Gateway::Link(Island& island) {
  if (island.link) return;
  UpstreamOptions address = *ParseUpstreamUrl(island.url);
  address.connect_timeout = kConnectTimeout;
  address.silence_timeout = options_.island_timeout;
  island.link = std::make_shared<Upstream>(loop_, std::move(address));
}

Status Gateway::TakeReport(IslandReport report) {
  const auto now = steady_clock::now();
  const std::string url = report.url;
  const auto known = fleet_.islands().find(url);
  const bool is_new = known == fleet_.islands().end() || !known->second->heard;
  SKERRY_ASSIGN(const bool changed, fleet_.Report(std::move(report), now));
  Island& island = *fleet_.islands().at(url);
  Link(island);
  if (is_new) LogInfo("{} has joined: {}", url, IslandStateName(fleet_.StateOf(island, now)));
  if (changed) hall_.RetryAll();
  return {};
}

Status Gateway::Report(IslandReport report) {
  Status status;
  loop_.Do([&] { status = TakeReport(std::move(report)); });
  metrics_.Reported(status.has_value());
  return status;
}

void Gateway::Leave(const std::string& url) {
  loop_.Do([&] {
    LogInfo("{} has left", url);
    fleet_.Leave(url);
  });
}

void Gateway::List(const std::vector<std::string>& urls) {
  loop_.Do([&] {
    fleet_.List(urls, steady_clock::now());
    for (const auto& [url, island] : fleet_.islands()) Link(*island);
    asked_ = {};
  });
}

void Gateway::Done(const Inquiry* inquiry) { inquiries_.erase(inquiry); }

void Gateway::Ask(Fleet::Time now) {
  if (now - asked_ < options_.ask_every) return;
  asked_ = now;
  for (const auto& [url, island] : fleet_.islands()) {
    const bool under_way = std::any_of(inquiries_.begin(), inquiries_.end(),
                                       [&](const auto& one) { return one.second->island() == island.get(); });
    if (!island->listed || under_way) continue;
    if (!island->asking) {
      UpstreamOptions address = island->link->options();
      address.silence_timeout = kReportTimeout;
      island->asking = std::make_shared<Upstream>(loop_, std::move(address));
    }
    const auto inquiry = std::make_shared<Inquiry>(*this, island);
    inquiries_.emplace(inquiry.get(), inquiry);
    inquiry->Begin();
  }
}

void Gateway::Tick() {
  const auto now = steady_clock::now();
  for (const std::shared_ptr<Island>& gone : fleet_.Forget(now)) {
    if (!gone->listed) LogInfo("{} is gone: nothing was heard of it for too long", gone->url);
    std::vector<Routing*> lost;
    std::copy_if(running_.begin(), running_.end(), std::back_inserter(lost),
                 [&](const Routing* routing) { return routing->island() == gone.get(); });
    for (Routing* routing : lost) routing->Lost();
  }
  Ask(now);
  hall_.RetryDue(now);
  ShowMetrics(now);
  hall_.log().Flush();
}

void Gateway::ShowMetrics(Fleet::Time now) {
  metrics_.Show(running_.size(), hall_.held().size());
  metrics_.ShowFleet(FiguresOf(fleet_, hall_, now));
  std::array<uint64_t, kIslandStates.size()> counts{};
  for (const auto& [url, island] : fleet_.islands()) ++counts[static_cast<size_t>(fleet_.StateOf(*island, now))];
  metrics_.ShowIslands(counts);
}

std::string Gateway::NotReadyBecause() {
  std::string because;
  loop_.Do([&] {
    const auto now = steady_clock::now();
    const auto& islands = fleet_.islands();
    const bool any = std::any_of(islands.begin(), islands.end(), [&](const auto& entry) {
      return fleet_.StateOf(*entry.second, now) == IslandState::kIn;
    });
    if (hall_.stopping()) {
      because = "stopping";
    } else if (islands.empty()) {
      because = "no island is known";
    } else if (!any) {
      because = fmt::format("none of {} islands takes requests", islands.size());
    }
  });
  return because;
}

std::string Gateway::Document() {
  std::string text;
  loop_.Do([&] { text = FleetDocument(*this, steady_clock::now()); });
  return text;
}

void Gateway::Stop() {
  loop_.Do([this] { hall_.Stop(); });
}

}  // namespace skerry
