#include "skerry/http/listen_address.h"

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ListenAddress, IsReadAsItIsPrinted) {
  for (const char* text : {"127.0.0.1:8090", "[::1]:8090", "10.1.2.3:0", "[2001:db8::7]:65535", "0.0.0.0:1"}) {
    EXPECT_EQ(Must(ParseListenAddress(text)).ToString(), text);
  }
  EXPECT_EQ(Must(ParseListenAddress("[::1]:8090")), (ListenAddress{.host = "::1", .port = 8090}));
}

TEST(ListenAddress, HasShortForms) {
  EXPECT_EQ(Must(ParseListenAddress("localhost:80")).ToString(), "127.0.0.1:80");
  EXPECT_EQ(Must(ParseListenAddress(":8090")).ToString(), "0.0.0.0:8090");
}

TEST(ListenAddress, SaysWhatIsWrongWithIt) {
  const auto fails = [](const char* text, const char* why) {
    EXPECT_THAT(ParseListenAddress(text), Fails(Code::kInvalid, AllOf(HasSubstr(text), HasSubstr(why)))) << text;
  };
  fails("", "has no port");
  fails("127.0.0.1", "has no port");
  fails("127.0.0.1:", "port \"\"");
  fails("127.0.0.1:65536", "port \"65536\"");
  fails("127.0.0.1:-1", "port \"-1\"");
  fails("127.0.0.1:80x", "port \"80x\"");
  fails("::1:8090", "brackets");
  fails("[127.0.0.1]:80", "no IP address");
  fails("[]:80", "no IP address");
  fails("[::1:80", "no IP address");
  fails("agent.example:80", "no IP address");
  fails("1.2.3:80", "no IP address");
}

TEST(ListenAddress, KnowsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[0:0:0:0:0:0:0:1]:1", "localhost:1"}) {
    EXPECT_TRUE(Must(ParseListenAddress(text)).IsLoopback()) << text;
  }
  for (const char* text : {":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1"}) {
    EXPECT_FALSE(Must(ParseListenAddress(text)).IsLoopback()) << text;
  }
}

}  // namespace
}  // namespace skerry
