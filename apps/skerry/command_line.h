// The command line behind a plain header: CLI11 costs 17 s a translation unit, so one file pays for it.
#ifndef SKERRY_APPS_SKERRY_COMMAND_LINE_H_
#define SKERRY_APPS_SKERRY_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/result.h"

namespace skerry {

// What every command takes.
struct CommonOptions {
  bool json = false;
  int threads = 0;  // resolved to a number >= 1 before a command runs
  bool no_progress = false;
};

// One subcommand while it is being described. Targets must outlive parsing.
class Command {
 public:
  explicit Command(void* app) : app_(app) {}

  Command& Positional(const std::string& name, std::string& target, const std::string& help);
  Command& Positional(const std::string& name, std::vector<std::string>& targets, const std::string& help);
  Command& OptionalPositional(const std::string& name, std::string& target, const std::string& help);
  Command& Required(const std::string& flags, std::string& target, const std::string& help);
  Command& Option(const std::string& flags, std::string& target, const std::string& help);
  Command& Option(const std::string& flags, std::optional<uint64_t>& target, const std::string& help);
  // May be given several times.
  Command& Option(const std::string& flags, std::vector<std::string>& targets, const std::string& help);
  Command& Choice(const std::string& flags, std::string& target, std::vector<std::string> choices,
                  const std::string& help);
  Command& Flag(const std::string& flags, bool& target, const std::string& help);
  // A check over several options after parsing: returns what is wrong with them, or "". A wrong use exits with
  // status 2.
  Command& Check(std::function<std::string()> check);
  Command& Example(const std::string& text);

 private:
  void* app_;
};

// The program: subcommands, of which one runs.
class CommandLine {
 public:
  CommandLine();
  ~CommandLine();

  // "agent rollback": below the command `agent`, which was added before.
  Command Add(const std::string& name, const std::string& summary, std::function<Status(const CommonOptions&)> run);

  // Parses, runs, prints an error as "skerry: ..." and returns the exit status: 0 ok, 1 operation failed, 2 usage,
  // 3 conflict, 4 corrupt data, 5 unavailable.
  int Main(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

int ExitStatus(Code code);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_COMMAND_LINE_H_
