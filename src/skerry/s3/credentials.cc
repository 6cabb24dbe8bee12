#include "skerry/s3/credentials.h"

#include <cstdlib>

#include "skerry/base/text.h"
#include "skerry/s3/credential_endpoints.h"
#include "skerry/s3/profile_files.h"

namespace skerry {
namespace {

std::optional<Credentials> FromEnvironment(const Environment& environment) {
  const auto id = environment("AWS_ACCESS_KEY_ID");
  const auto secret = environment("AWS_SECRET_ACCESS_KEY");
  if (!id || !secret) return std::nullopt;
  return Credentials{.access_key_id = *id,
                     .secret_access_key = Secret(*secret),
                     .session_token = Secret(environment("AWS_SESSION_TOKEN").value_or("")),
                     .expires = std::nullopt,
                     .origin = "environment variables"};
}

}  // namespace

Environment ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::string Credentials::Describe() const {
  if (IsAnonymous()) return "no credentials (anonymous)";
  return fmt::format("{}… from {}", Printable(access_key_id.substr(0, 4)), origin);
}

std::ostream& operator<<(std::ostream& out, const Credentials& credentials) { return out << credentials.Describe(); }

CredentialSource::CredentialSource(CredentialOptions options) : options_(std::move(options)) {}

Result<Credentials> CredentialSource::Get() {
  const std::lock_guard lock(mutex_);
  const auto now = options_.clock->Now();
  if (kept_ && (!kept_->expires || *kept_->expires - kRefreshBefore > now)) return *kept_;
  Result<Credentials> found = Find();
  if (found) {
    kept_ = *found;
  } else if (kept_ && *kept_->expires > now) {
    return *kept_;  // still good: the endpoint has until their end to come back
  }
  return found;
}

bool CredentialSource::Refresh() {
  const std::lock_guard lock(mutex_);
  if (!kept_ || !kept_->expires) return false;
  kept_.reset();
  return true;
}

Result<Credentials> CredentialSource::Find() {
  if (options_.anonymous) return Credentials{};
  const Environment& environment = options_.environment;
  std::string sought;
  if (options_.profile.empty()) {
    if (std::optional<Credentials> found = FromEnvironment(environment)) return *std::move(found);
    sought = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (not set); ";
  }
  SKERRY_ASSIGN(const ProfileSettings profile, ReadProfile(environment, options_.profile));
  if (profile.credentials) return *profile.credentials;
  sought += profile.account + " (no keys)";
  // An endpoint that somebody named but that fails may work later. Where the usual address of instances does not
  // answer, this is none.
  const bool instance_named = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").has_value();
  bool may_come = false;
  const auto ask = [&](std::string_view what, bool named,
                       const Result<std::optional<Credentials>>& answer) -> std::optional<Credentials> {
    if (answer && *answer) return **answer;
    may_come = may_come || (named && !answer);
    sought += fmt::format("; {} ({})", what, answer ? "not named or switched off" : answer.error().message);
    return std::nullopt;
  };
  if (auto found = ask("container endpoint", true, FromContainer(environment, http_))) return *std::move(found);
  if (options_.custom_endpoint && !instance_named) {
    sought += "; instance endpoint (not asked, since the server is not Amazon's)";
  } else if (auto found = ask("instance endpoint", instance_named, FromInstance(environment, http_))) {
    return *std::move(found);
  }
  return Fail(
      may_come ? Code::kUnavailable : Code::kInvalid,
      "no credentials for S3: looked at {}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or "
      "say anonymous=true for a public bucket",
      sought);
}

}  // namespace skerry
