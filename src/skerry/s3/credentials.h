// Who signs, and where those keys come from.
#ifndef SKERRY_S3_CREDENTIALS_H_
#define SKERRY_S3_CREDENTIALS_H_

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "skerry/base/clock.h"
#include "skerry/base/result.h"
#include "skerry/http/client.h"

namespace skerry {

// Text that is not for people: printing it (fmt, streams) gives "***".
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  const std::string& Reveal() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const Secret&) const = default;

 private:
  std::string text_;
};
inline std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

struct Credentials {
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;  // of temporary credentials
  std::optional<std::chrono::system_clock::time_point> expires;
  std::string origin;  // "environment variables", "profile default of ~/.aws/credentials"

  // No key id: requests go unsigned.
  bool IsAnonymous() const { return access_key_id.empty(); }
  // "AKIA… from environment variables".
  std::string Describe() const;
};
std::ostream& operator<<(std::ostream& out, const Credentials& credentials);

// An environment variable that is set and not empty.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment ProcessEnvironment();

struct CredentialOptions {
  bool anonymous = false;
  std::string profile;  // empty: AWS_PROFILE, else "default"
  // The server is not Amazon's: the host's own AWS role means nothing to it, so the instance endpoint is asked only
  // where AWS_EC2_METADATA_SERVICE_ENDPOINT names it.
  bool custom_endpoint = false;
  Environment environment = ProcessEnvironment();
  const Clock* clock = &Clock::System();
};

// The first of these that has keys:
//   1. anonymous, when the options say so
//   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (not when the options name a profile)
//   3. the profile in AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, AWS_CONFIG_FILE or ~/.aws/config
//   4. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
//   5. the instance's endpoint (IMDSv2), unless AWS_EC2_METADATA_DISABLED is true
// Thread-safe. What was found is kept; temporary keys are fetched again kRefreshBefore their end.
class CredentialSource {
 public:
  static constexpr std::chrono::minutes kRefreshBefore{5};

  explicit CredentialSource(CredentialOptions options);

  // kInvalid when there are none, listing where they were sought.
  Result<Credentials> Get();
  // After the server said that the keys have expired: the next Get fetches anew. False where that can't help.
  bool Refresh();

 private:
  Result<Credentials> Find();

  const CredentialOptions options_;
  HttpClient http_;
  std::mutex mutex_;
  std::optional<Credentials> kept_;  // guarded by mutex_
};

}  // namespace skerry

template <>
struct fmt::formatter<skerry::Secret> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const skerry::Secret&, Context& context) const {
    return fmt::formatter<std::string_view>::format("***", context);
  }
};
template <>
struct fmt::formatter<skerry::Credentials> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const skerry::Credentials& credentials, Context& context) const {
    return fmt::formatter<std::string_view>::format(credentials.Describe(), context);
  }
};

#endif  // SKERRY_S3_CREDENTIALS_H_
