// The files of the AWS command line: sections of "name = value" lines.
#ifndef SKERRY_S3_PROFILE_FILES_H_
#define SKERRY_S3_PROFILE_FILES_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/s3/credentials.h"

namespace skerry {

using IniSections = std::map<std::string, std::map<std::string, std::string>>;

// Comments begin with '#' or ';'; indented lines (nested settings) are passed over. Names of settings in lower case.
// kInvalid names the line, never its text: it may hold a secret.
Result<IniSections> ParseIni(std::string_view text);

// What a profile says, from the credentials file first, then the config file (where it is "[profile NAME]").
struct ProfileSettings {
  std::string name;
  std::optional<Credentials> credentials;
  std::optional<std::string> region;
  // Where it was looked for, and what stood there that this program does not do (roles, sign-on, helpers).
  std::string account;
};
// `profile` empty: AWS_PROFILE, else "default". A missing file is no error; an unreadable or malformed one is.
Result<ProfileSettings> ReadProfile(const Environment& environment, std::string_view profile);

}  // namespace skerry

#endif  // SKERRY_S3_PROFILE_FILES_H_
