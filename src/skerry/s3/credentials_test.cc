#include "skerry/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "skerry/s3/credential_endpoints.h"
#include "skerry/s3/profile_files.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::system_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct FakeClock : Clock {
  system_clock::time_point now = *ParseIsoTime("2026-01-01T00:00:00Z");
  system_clock::time_point Now() const override { return now; }
};

class CredentialSourceTest : public testing::Test {
 protected:
  CredentialSourceTest() { std::filesystem::create_directories(home_ + "/.aws"); }
  ~CredentialSourceTest() override { std::filesystem::remove_all(home_); }

  void Write(const std::string& name, std::string_view text) { std::ofstream(home_ + "/.aws/" + name) << text; }
  Environment FromVariables() {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(std::string(name));
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
  }
  CredentialSource Source(std::string profile = "", bool custom_endpoint = false) {
    return CredentialSource({.anonymous = false,
                             .profile = std::move(profile),
                             .custom_endpoint = custom_endpoint,
                             .environment = FromVariables(),
                             .clock = &clock_});
  }

  const std::string home_ =
      testing::TempDir() + "credentials-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  // No test asks the real services of the host.
  std::map<std::string, std::string> variables_ = {{"HOME", home_}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  FakeClock clock_;
};

std::string Keys(std::string_view id, std::string_view expiration) {
  return fmt::format(
      R"({{"Code":"Success","AccessKeyId":"{}","SecretAccessKey":"hidden","Token":"t","Expiration":"{}"}})", id,
      expiration);
}

TEST_F(CredentialSourceTest, TakesTheEnvironmentFirst) {
  Write("credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=x\n");
  variables_["AWS_ACCESS_KEY_ID"] = "ENV";
  variables_["AWS_SECRET_ACCESS_KEY"] = "secret";
  variables_["AWS_SESSION_TOKEN"] = "token";
  const Credentials found = Must(Source().Get());
  EXPECT_EQ(found.access_key_id, "ENV");
  EXPECT_EQ(found.secret_access_key.Reveal(), "secret");
  EXPECT_EQ(found.session_token.Reveal(), "token");
  EXPECT_EQ(Must(Source("default").Get()).access_key_id, "FILE")
      << "a profile that is named goes before the environment";
}

TEST_F(CredentialSourceTest, ReadsProfilesOfBothFiles) {
  Write("credentials",
        "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key = sa=b\n\n[other]\nAWS_ACCESS_KEY_ID=B\n"
        "aws_secret_access_key=sb\naws_session_token=tb\n");
  Write("config",
        "[default]\nregion = eu-west-1\n[profile third]\naws_access_key_id=C\naws_secret_access_key=sc\n"
        "s3 =\n  max_concurrent_requests = 20\nregion=eu-north-1\n");
  EXPECT_EQ(Must(Source().Get()).access_key_id, "A");
  EXPECT_EQ(Must(Source().Get()).secret_access_key.Reveal(), "sa=b");
  EXPECT_EQ(Must(Source("other").Get()).session_token.Reveal(), "tb");
  EXPECT_EQ(Must(Source("third").Get()).access_key_id, "C");
  variables_["AWS_PROFILE"] = "other";
  EXPECT_EQ(Must(Source().Get()).access_key_id, "B");
  EXPECT_EQ(Must(ReadProfile(FromVariables(), "third")).region, "eu-north-1");
  EXPECT_EQ(Must(ReadProfile(FromVariables(), "default")).region, "eu-west-1");
}

TEST_F(CredentialSourceTest, NamesTheLineOfAMalformedFileButNotItsText) {
  Write("credentials", "[default]\naws_secret_access_key: hunter2\n");
  EXPECT_THAT(Source().Get(), Fails(Code::kInvalid, AllOf(HasSubstr("line 2"), Not(HasSubstr("hunter2")))));
}

TEST_F(CredentialSourceTest, ListsWhereItLookedInVain) {
  Write("config", "[profile p]\nrole_arn = arn:aws:iam::1:role/x\n");
  EXPECT_THAT(
      Source("p").Get(),
      Fails(Code::kInvalid, AllOf(HasSubstr("profile p in"), HasSubstr("role_arn"), HasSubstr("container endpoint"),
                                  HasSubstr("instance endpoint (not named or switched off)"))));
  EXPECT_THAT(Source().Get(), Fails(Code::kInvalid, HasSubstr("AWS_ACCESS_KEY_ID")));
}

TEST_F(CredentialSourceTest, AsksTheContainersEndpointWithItsToken) {
  HttpServer server([](const ReceivedRequest&) { return Answer(200, Keys("CONTAINER", "2026-01-01T06:00:00Z")); });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url() + "/creds";
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Basic abc";
  const Credentials found = Must(Source().Get());
  EXPECT_EQ(found.access_key_id, "CONTAINER");
  EXPECT_EQ(found.session_token.Reveal(), "t");
  EXPECT_EQ(server.requests().at(0).Header("Authorization"), "Basic abc");
  Write("token", "from file\n");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = home_ + "/.aws/token";
  Must(Source().Get());
  EXPECT_EQ(server.requests().at(1).Header("Authorization"), "from file");
}

TEST_F(CredentialSourceTest, AsksTheInstanceInTheSecondVersionOfItsProtocol) {
  HttpServer server([](const ReceivedRequest& request) {
    if (request.method == "PUT" && request.target == "/latest/api/token") return Answer(200, "imds-token");
    if (request.Header("X-aws-ec2-metadata-token") != "imds-token") return Answer(401);
    if (request.target == "/latest/meta-data/iam/security-credentials/") return Answer(200, "my-role\n");
    if (request.target == "/latest/meta-data/iam/security-credentials/my-role") {
      return Answer(200, Keys("ROLE", "2026-01-01T06:00:00Z"));
    }
    return Answer(404);
  });
  variables_["AWS_EC2_METADATA_DISABLED"] = "false";
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.url() + "/";
  EXPECT_EQ(Must(Source("", /*custom_endpoint=*/true).Get()).access_key_id, "ROLE");
  variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_THAT(Source().Get(), Fails(Code::kInvalid));
}

TEST_F(CredentialSourceTest, DoesNotAskTheInstanceForKeysOfAnotherServer) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  EXPECT_THAT(Source("", /*custom_endpoint=*/true).Get(), Fails(Code::kInvalid, HasSubstr("not asked")));
}

TEST_F(CredentialSourceTest, CallsAnEndpointThatFailsUnavailable) {
  HttpServer server([](const ReceivedRequest&) { return Answer(503); });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url() + "/creds";
  EXPECT_THAT(Source().Get(), Fails(Code::kUnavailable, HasSubstr("answered 503")));
}

TEST_F(CredentialSourceTest, RenewsTemporaryKeysBeforeTheyEnd) {
  std::atomic<bool> broken = false;
  int served = 0;
  HttpServer server([&](const ReceivedRequest&) {
    if (broken) return Answer(500);
    ++served;
    const char* const end = served == 1 ? "2026-01-01T01:00:00Z" : "2026-01-01T02:00:00Z";
    return Answer(200, Keys("KEY" + std::to_string(served), end));
  });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url() + "/creds";
  CredentialSource source = Source();
  EXPECT_EQ(Must(source.Get()).access_key_id, "KEY1");
  clock_.now = *ParseIsoTime("2026-01-01T00:54:00Z");
  EXPECT_EQ(Must(source.Get()).access_key_id, "KEY1");
  clock_.now = *ParseIsoTime("2026-01-01T00:56:00Z");
  broken = true;
  EXPECT_EQ(Must(source.Get()).access_key_id, "KEY1") << "still good, while the endpoint is away";
  broken = false;
  EXPECT_EQ(Must(source.Get()).access_key_id, "KEY2");
  EXPECT_TRUE(source.Refresh());
  EXPECT_EQ(Must(source.Get()).access_key_id, "KEY3");
  broken = true;
  clock_.now = *ParseIsoTime("2026-01-01T02:00:01Z");
  EXPECT_THAT(source.Get(), Fails(Code::kUnavailable));
}

TEST(Credentials, NeverShowTheirSecrets) {
  const Credentials credentials{.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                .secret_access_key = Secret("hunter2"),
                                .session_token = Secret("hunter3"),
                                .expires = std::nullopt,
                                .origin = "environment variables"};
  std::ostringstream stream;
  stream << credentials << credentials.secret_access_key;
  const std::string all = fmt::format("{} {} {}", credentials, credentials.secret_access_key, stream.str());
  EXPECT_THAT(all, Not(HasSubstr("hunter")));
  EXPECT_THAT(all, Not(HasSubstr("EXAMPLE")));
  EXPECT_EQ(fmt::format("{}", credentials), "AKIA… from environment variables");
  EXPECT_EQ(testing::PrintToString(credentials.secret_access_key), "***");
  EXPECT_EQ(fmt::format("{}", Credentials{}), "no credentials (anonymous)");
}

TEST(CredentialJson, RefusesWhatIsNoneAndShowsNoneOfIt) {
  for (const std::string_view text :
       {"", "[]", "{", R"({"AccessKeyId":"A"})", R"({"AccessKeyId":1,"SecretAccessKey":"s3cret"})"}) {
    EXPECT_THAT(ParseCredentialJson(text), Fails(Code::kUnavailable, Not(HasSubstr("s3cret")))) << text;
  }
}

TEST(IsoTime, IsReadWithAndWithoutFractions) {
  EXPECT_EQ(ParseIsoTime("2015-08-30T12:36:00Z"), system_clock::from_time_t(1440938160));
  EXPECT_EQ(ParseIsoTime("2015-08-30T12:36:00.123Z"), system_clock::from_time_t(1440938160));
  for (const std::string_view bad : {"", "2015-08-30", "2015-08-30T12:36:00", "2015-08-30T12:36:00+02:00", "soon"}) {
    EXPECT_EQ(ParseIsoTime(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace skerry
