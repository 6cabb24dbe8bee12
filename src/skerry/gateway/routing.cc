#include "skerry/gateway/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "skerry/gateway/gateway.h"
#include "skerry/proxy/own_answer.h"

namespace skerry {
namespace {

// Of an answer that is set aside.
constexpr size_t kMostAside = 64 << 10;

// What divides a prefix cache divides sessions, too: requests with one salt find each other's prefixes on one island
// only.
constexpr std::string_view kSessionMembers[] = {"prompt_cache_key", "cache_salt", "extra_key"};

bool IsSafe(std::string_view method) { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }

std::optional<Version> VersionIn(const HttpHeaders& headers, std::string_view name) {
  const std::string* value = headers.FindValue(name);
  const auto version = value == nullptr ? Result<Version>(Fail(Code::kNotFound, "")) : Version::Parse(*value);
  return version ? std::optional(*version) : std::nullopt;
}

}  // namespace

Routing::Routing(Gateway& gateway, ServerRequest head, const RequestFraming& framing, ClientPort& port)
    : Passage(gateway.hall(), std::move(head), framing, port), gateway_(gateway) {
  if (const std::string* session = request_.headers.FindValue("Skerry-Session")) session_ = StableHash(*session);
  if (const std::string* region = request_.headers.FindValue("Skerry-Region")) region_ = *region;
}

Routing::~Routing() { LetGo(); }

void Routing::LookAtBody(const std::vector<JsonMember>* members) {
  if (session_ || members == nullptr) return;
  for (const std::string_view name : kSessionMembers) {
    for (const JsonMember& member : *members) {
      if (member.name != name || !member.value.starts_with('"') || member.value == "\"\"") continue;
      session_ = StableHash(member.value);
      return;
    }
  }
}

void Routing::AddToRequest(std::string& head) const {
  if (constraint_.min) head += fmt::format("Skerry-Min-Version: {}\r\n", *constraint_.min);
  if (constraint_.exact) head += fmt::format("Skerry-Exact-Version: {}\r\n", *constraint_.exact);
  head += Gateway::kMark;
  head += ": 1\r\n";
}

void Routing::Choose() {
  if (request_.headers.FindValue(Gateway::kMark) != nullptr) {
    return Fail(508, "LoopDetected", "the request comes from a gateway: an island's address is a gateway's",
                /*retry=*/false);
  }
  const auto now = Clock::now();
  if (std::exchange(waiting_, false)) {
    tried_.clear();
    said_not_ready_ = false;
  }
  const IslandWish wish{.constraint = constraint_,
                        .session = session_,
                        .ticket = gateway_.NextTicket(),
                        .region = region_,
                        .tried = &tried_};
  Admission::Refused refused{.applied = {}, .leaving_for = {}};
  auto choice = gateway_.fleet().Choose(wish, now);
  if (auto* island = std::get_if<std::shared_ptr<Island>>(&choice)) {
    if (tried_.size() < kMostAttempts) return Start(std::move(*island));
    refused.worth_waiting = true;
  } else {
    refused = std::get<Admission::Refused>(choice);
  }
  const auto end = begun_ + constraint_.wait.value_or(gateway_.options().wait);
  const bool worth = refused.worth_waiting || !tried_.empty();
  if (!worth || hall_.stopping() || end <= now) return GiveUp(refused);
  waiting_ = true;
  Hold(tried_.empty() ? end : std::min(end, now + kAgain));
}

void Routing::GiveUp(const Admission::Refused& refused) {
  const bool not_ready = constraint_.pinned() && (refused.not_ready || said_not_ready_);
  if (!not_ready && aside_ && aside_->head.status == 503) {
    // As the last island said it.
    const AnswerHead& head = aside_->head;
    bytes_out_ += aside_->body.size();
    NoteAnswer(head.status);
    const auto length = head.has_body ? std::optional<uint64_t>(aside_->body.size()) : head.length;
    framed_.Begin(head, framing_, length, /*ours=*/true, "", gathered_);
    framed_.Piece(aside_->body, gathered_);
    return Finish(framed_.keeps(), RequestEnd::kNoEngine);
  }
  Admission::Refused said = refused;
  said.not_ready = not_ready;
  if (!not_ready && !unreachable_.empty()) {
    return Fail(503, "EngineUnreachable", unreachable_, /*retry=*/true);
  }
  Refuse(said);
}

void Routing::Start(std::shared_ptr<Island> island) {
  Unhold();
  tried_.push_back(island.get());
  island_ = std::move(island);
  ++island_->running;
  gateway_.AddRunning(this);
  SendRequest(/*fresh=*/false);
}

void Routing::Leave() {
  if (!island_) return;
  --island_->running;
  gateway_.RemoveRunning(this);
  island_.reset();
}

bool Routing::MayGoOn() const { return CanSendAgain() && !framed_.begun(); }

void Routing::GoOn(RetryCause cause) {
  gateway_.metrics().Retried(cause);
  Leave();
  Choose();
}

std::string Routing::WhatIsWrongWith(const AnswerHead& head) const {
  const std::string* run = head.headers.FindValue("Skerry-Run");
  if (run == nullptr) {
    // Agents refuse without a version; whatever else comes from there was made by nobody knows which weights.
    if (head.status == 508) return "its address is a gateway's";
    return head.status >= 400 ? "" : fmt::format("an answer of status {} does not say its run", head.status);
  }
  if (*run != gateway_.options().fleet.run) {
    return fmt::format("the answer is of run {}, not {}", *run, gateway_.options().fleet.run);
  }
  if (!constraint_.pinned()) return "";
  const auto start = VersionIn(head.headers, "Skerry-Version-Start");
  if (start && constraint_.MetBy(*start)) return "";
  return fmt::format("the answer is by version {}, wanted is {} {}", start ? start->ToString() : "unknown",
                     constraint_.exact ? "exactly" : "at least", *constraint_.wanted());
}

void Routing::OnAnswerHead(AnswerHead head) {
  const bool is_agents = head.headers.FindValue("Skerry-Run") == nullptr;
  if ((head.status == 503 || (head.status == 409 && is_agents)) && MayGoOn()) {
    setting_aside_ = true;
    aside_.emplace(SetAside{.head = std::move(head), .body = {}});
    return;
  }
  if (const std::string wrong = WhatIsWrongWith(head); !wrong.empty()) {
    const auto self = shared_from_this();
    gateway_.Lied(*island_, wrong);
    std::exchange(call_, nullptr)->Cancel();
    if (MayGoOn()) return GoOn(RetryCause::kWrong);
    return Fail(503, "EngineUnreachable", wrong, /*retry=*/true);
  }
  gateway_.fleet().Answered(*island_);
  PassOn(head);
}

void Routing::PassOn(const AnswerHead& head) {
  LetBodyGo();  // it is not sent again from here on
  NoteAnswer(head.status);
  start_ = VersionIn(head.headers, "Skerry-Version-Start");
  if (route_.is_generation) tokens_.emplace(head.headers);
  framed_.Begin(head, framing_, head.length, /*ours=*/true, fmt::format("Skerry-Island: {}\r\n", island_->url),
                gathered_);
}

void Routing::OnAnswerBody(std::string_view piece) {
  if (setting_aside_) {
    aside_->body += piece;
    if (aside_->body.size() <= kMostAside) return;
    // Too long to be kept: the client gets this refusal.
    setting_aside_ = false;
    const SetAside aside = *std::exchange(aside_, std::nullopt);
    PassOn(aside.head);
    return OnAnswerBody(aside.body);
  }
  framed_.Piece(piece, gathered_);
  if (tokens_) tokens_->Pass(piece);
  bytes_out_ += piece.size();
  Gathered();
}

void Routing::OnAnswerEnd() {
  const auto self = shared_from_this();
  call_.reset();
  if (std::exchange(setting_aside_, false)) {
    LearnFromRefusal();
    return GoOn(aside_->head.status == 409 ? RetryCause::kNotReady : RetryCause::kUnavailable);
  }
  framed_.End(gathered_);
  if (tokens_) gateway_.Tokens(tokens_->Finish());
  Finish(framed_.keeps());
}

// An agent's 409 says what it serves, which is news.
void Routing::LearnFromRefusal() {
  if (aside_->head.status != 409) return;
  said_not_ready_ = true;
  const auto json = nlohmann::json::parse(aside_->body, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json error = json.is_object() ? json.value("error", nlohmann::json()) : nlohmann::json();
  if (!error.is_object() || !error.contains("applied") || !error["applied"].is_number_unsigned()) return;
  const uint64_t applied = error["applied"].get<uint64_t>();
  if (applied <= Version::kMax) gateway_.fleet().Serves(*island_, Version(applied));
}

void Routing::OnFailed(UpstreamFailure kind, const std::string& why) {
  setting_aside_ = false;
  aside_.reset();
  const bool silent = kind == UpstreamFailure::kSilent, refused = kind == UpstreamFailure::kUnreachable;
  gateway_.fleet().Failed(*island_, why, Clock::now());
  unreachable_ = why;
  // A connection that ended may have carried the request to an engine: it is sent again where that does no harm.
  const bool harmless = refused || route_.is_generation || IsSafe(request_.method);
  if (!silent && harmless && MayGoOn()) return GoOn(RetryCause::kUnreachable);
  LetGo();
  Answer(ErrorAnswer(silent ? 504 : 503, silent ? "EngineTimeout" : "EngineUnreachable", why, /*retry=*/true),
         refused ? RequestEnd::kNoEngine : RequestEnd::kEngineBrokeOff);
}

void Routing::Lost() {
  const auto self = shared_from_this();
  if (framed_.begun()) return Close(RequestEnd::kEngineBrokeOff);
  if (call_) std::exchange(call_, nullptr)->Cancel();
  OnFailed(UpstreamFailure::kBrokeOff, fmt::format("{} has not been heard of for too long", island_->url));
}

void Routing::Describe(AccessLogEntry& entry) const {
  if (!island_) return;
  entry.engine = island_->url;
  if (start_) entry.start = VersionLabel{gateway_.options().fleet.run, start_};
}

}  // namespace skerry
