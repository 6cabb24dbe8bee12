// A shell command with a time limit, whose whole family ends with it.
#ifndef SKERRY_ENGINE_CHILD_COMMAND_H_
#define SKERRY_ENGINE_CHILD_COMMAND_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "skerry/base/result.h"

namespace skerry {

// What is kept of the output's end.
inline constexpr size_t kOutputTail = 2048;

struct CommandOutcome {
  int exit_code = 0;  // 128 + N when signal N ended it, as shells say it
  bool timed_out = false;
  std::string output;  // the end of stdout and stderr together, as it came
};

// Runs `/bin/sh -c command` in a process group of its own, with these variables added to the environment and nothing on
// its standard input. When the time is over the group gets SIGKILL. What a command that ended leaves running in the
// background stays (it may have started the engine anew), and its later output is not waited for. kIo when the command
// could not be started. May be called from any thread.
Result<CommandOutcome> RunCommand(const std::string& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment,
                                  std::chrono::milliseconds time);

}  // namespace skerry

#endif  // SKERRY_ENGINE_CHILD_COMMAND_H_
