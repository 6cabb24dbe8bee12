#include "skerry/engine/child_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace skerry {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Closed with the object.
struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void Close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
  int number;
};

// The process's environment with some variables set, in the form that exec wants.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& added) {
    for (const auto& [name, value] : added) texts_.push_back(name + "=" + value);
    const auto replaced = [&](std::string_view entry) {
      return std::any_of(added.begin(), added.end(),
                         [&](const auto& variable) { return entry.substr(0, entry.find('=')) == variable.first; });
    };
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!replaced(*entry)) pointers_.push_back(*entry);
    }
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

Result<pid_t> Start(const std::string& command, const Environment& environment, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&usual, signal);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  std::string shell = "/bin/sh", flag = "-c", text = command;
  char* const arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  pid_t child = -1;
  const int failure = ::posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environment.get());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Fail(Code::kIo, "cannot start /bin/sh: {}", std::strerror(failure));
  return child;
}

// Takes what is in the pipe; false at its end.
bool Drain(int pipe, std::string& tail) {
  char block[4096];
  while (true) {
    const ssize_t got = ::read(pipe, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    tail.append(block, static_cast<size_t>(got));
    if (tail.size() > kOutputTail) tail.erase(0, tail.size() - kOutputTail);
  }
}

// Until the process ends or `end` has come; true when it ended.
bool WaitForEnd(int process, int pipe, SteadyTime end, std::string& tail) {
  bool open = true;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd watched[] = {{.fd = process, .events = POLLIN}, {.fd = open ? pipe : -1, .events = POLLIN}};
    const int ready = ::poll(watched, 2, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && watched[1].revents != 0) open = Drain(pipe, tail);
    if (ready > 0 && watched[0].revents != 0) return true;
    if (ready == 0 && left <= 0) return false;
  }
}

}  // namespace

Result<CommandOutcome> RunCommand(const std::string& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment,
                                  std::chrono::milliseconds time) {
  const SteadyTime end = std::chrono::steady_clock::now() + time;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Fail(Code::kIo, "cannot make a pipe: {}", std::strerror(errno));
  Descriptor output(ends[0]), input(ends[1]);
  ::fcntl(output.number, F_SETFL, O_NONBLOCK);
  SKERRY_ASSIGN(const pid_t child, Start(command, Environment(environment), input.number));
  input.Close();
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  CommandOutcome outcome;
  outcome.timed_out = process.number < 0 || !WaitForEnd(process.number, output.number, end, outcome.output);
  if (outcome.timed_out) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Drain(output.number, outcome.output);
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

}  // namespace skerry
