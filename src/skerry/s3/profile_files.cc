#include "skerry/s3/profile_files.h"

#include <algorithm>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/text.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Empty when there is no such file.
Result<IniSections> ReadIni(const std::string& path) {
  Result<Bytes> bytes = ReadFile(path, kMaxFileBytes);
  if (!bytes && bytes.error().code == Code::kNotFound) return IniSections();
  if (!bytes) return tl::unexpected<Error>(std::move(bytes).error());
  Result<IniSections> sections = ParseIni(AsText(*bytes));
  if (!sections) return Annotate(std::move(sections).error(), path);
  return sections;
}

const std::string* Find(const std::map<std::string, std::string>& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() || found->second.empty() ? nullptr : &found->second;
}

// Ways to get keys that this program does not have.
std::string UnsupportedWay(const std::map<std::string, std::string>& settings) {
  for (const std::string name : {"role_arn", "credential_process", "sso_session", "sso_start_url", "login_session"}) {
    if (settings.contains(name)) return name;
  }
  return "";
}

}  // namespace

Result<IniSections> ParseIni(std::string_view text) {
  IniSections sections;
  std::string section;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = Trim(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t close = line.find(']');
      if (close == std::string_view::npos) return Fail(Code::kInvalid, "line {}: a section without ]", number);
      section = Trim(line.substr(1, close - 1));
      sections[section];
      continue;
    }
    if (whole[0] == ' ' || whole[0] == '\t') continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Fail(Code::kInvalid, "line {}: no = in it", number);
    sections[section][Lower(Trim(line.substr(0, equals)))] = Trim(line.substr(equals + 1));
  }
  return sections;
}

Result<ProfileSettings> ReadProfile(const Environment& environment, std::string_view profile) {
  ProfileSettings found;
  found.name = profile.empty() ? environment("AWS_PROFILE").value_or("default") : std::string(profile);
  const std::string folder = environment("HOME").value_or("") + "/.aws/";
  const std::string credentials_file = environment("AWS_SHARED_CREDENTIALS_FILE").value_or(folder + "credentials");
  const std::string config_file = environment("AWS_CONFIG_FILE").value_or(folder + "config");
  SKERRY_ASSIGN(IniSections credentials, ReadIni(credentials_file));
  SKERRY_ASSIGN(IniSections config, ReadIni(config_file));

  const std::string in_config =
      found.name == "default" && config.contains("default") ? "default" : "profile " + found.name;
  found.account = fmt::format("profile {} in {} and {}", Printable(found.name), credentials_file, config_file);
  const std::pair<std::string, const std::map<std::string, std::string>*> places[] = {
      {credentials_file, &credentials[found.name]}, {config_file, &config[in_config]}};
  for (const auto& [file, settings] : places) {
    if (const std::string* region = Find(*settings, "region"); region && !found.region) found.region = *region;
    const std::string* id = Find(*settings, "aws_access_key_id");
    const std::string* secret = Find(*settings, "aws_secret_access_key");
    if (id && secret && !found.credentials) {
      const std::string* token = Find(*settings, "aws_session_token");
      found.credentials = Credentials{.access_key_id = *id,
                                      .secret_access_key = Secret(*secret),
                                      .session_token = Secret(token ? *token : ""),
                                      .expires = std::nullopt,
                                      .origin = fmt::format("profile {} of {}", Printable(found.name), file)};
    }
    if (const std::string way = UnsupportedWay(*settings); !way.empty() && !found.credentials) {
      found.account += fmt::format(" (uses {}, which this program does not do)", way);
    }
  }
  return found;
}

}  // namespace skerry
