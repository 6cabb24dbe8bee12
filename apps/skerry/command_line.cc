#include "command_line.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "terminal.h"
#include "version.h"

#include "skerry/base/parallel.h"
#include "skerry/base/text.h"

namespace skerry {
namespace {

CLI::App* App(void* app) { return static_cast<CLI::App*>(app); }

}  // namespace

Command& Command::Positional(const std::string& name, std::string& target, const std::string& help) {
  App(app_)->add_option(name, target, help)->required();
  return *this;
}
Command& Command::Positional(const std::string& name, std::vector<std::string>& targets, const std::string& help) {
  App(app_)->add_option(name, targets, help)->required();
  return *this;
}
Command& Command::OptionalPositional(const std::string& name, std::string& target, const std::string& help) {
  App(app_)->add_option(name, target, help);
  return *this;
}
Command& Command::Required(const std::string& flags, std::string& target, const std::string& help) {
  App(app_)->add_option(flags, target, help)->required();
  return *this;
}
Command& Command::Option(const std::string& flags, std::string& target, const std::string& help) {
  App(app_)->add_option(flags, target, help);
  return *this;
}
Command& Command::Option(const std::string& flags, std::optional<uint64_t>& target, const std::string& help) {
  // CLI11 would read -1 as 2^64 - 1.
  const auto digits_only = [](const std::string& text) {
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::string() : fmt::format("'{}' is not a whole number of 0 or more", text);
  };
  App(app_)->add_option(flags, target, help)->check(digits_only);
  return *this;
}
Command& Command::Option(const std::string& flags, std::vector<std::string>& targets, const std::string& help) {
  App(app_)->add_option(flags, targets, help)->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}
Command& Command::Choice(const std::string& flags, std::string& target, std::vector<std::string> choices,
                         const std::string& help) {
  App(app_)->add_option(flags, target, help)->check(CLI::IsMember(std::move(choices)))->capture_default_str();
  return *this;
}
Command& Command::Flag(const std::string& flags, bool& target, const std::string& help) {
  App(app_)->add_flag(flags, target, help);
  return *this;
}
Command& Command::Check(std::function<std::string()> check) {
  // Not where a command below this one was chosen.
  App(app_)->parse_complete_callback([app = App(app_), check = std::move(check)] {
    if (!app->get_subcommands().empty()) return;
    if (const std::string wrong = check(); !wrong.empty()) throw CLI::ValidationError(wrong);
  });
  return *this;
}
Command& Command::Example(const std::string& text) {
  App(app_)->footer("Example:\n  " + text);
  return *this;
}

struct CommandLine::Impl {
  CLI::App app{"Skerry ships lossless sparse weight patches from one RL trainer to rollout fleets anywhere.", "skerry"};
  CommonOptions common;
  std::function<Status(const CommonOptions&)> chosen;
};

CommandLine::CommandLine() : impl_(std::make_unique<Impl>()) {
  impl_->app.require_subcommand(1);
  impl_->app.set_version_flag("--version", fmt::format("skerry {}", kProgramVersion));
  impl_->app.footer(
      "Exit status: 0 ok, 1 operation failed, 2 usage, 3 conflict, 4 corrupt data, 5 unavailable.\n"
      "`skerry COMMAND --help` shows options and an example.");
}
CommandLine::~CommandLine() = default;

Command CommandLine::Add(const std::string& name, const std::string& summary,
                         std::function<Status(const CommonOptions&)> run) {
  const size_t space = name.find(' ');
  CLI::App* above = space == std::string::npos ? &impl_->app : impl_->app.get_subcommand(name.substr(0, space));
  CLI::App* sub = above->add_subcommand(name.substr(space + 1), summary);
  sub->add_flag("--json", impl_->common.json, "Print one JSON document on standard output")->group("Common");
  sub->add_option("--threads", impl_->common.threads, "Worker threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->group("Common");
  sub->add_flag("--no-progress", impl_->common.no_progress, "No progress line on a terminal")->group("Common");
  // CLI11 calls those of the commands below first.
  sub->callback([this, sub, run = std::move(run)] {
    if (sub->get_subcommands().empty()) impl_->chosen = run;
  });
  return Command(sub);
}

int ExitStatus(Code code) {
  switch (code) {
    case Code::kConflict: return 3;
    case Code::kCorrupt: return 4;
    case Code::kUnavailable: return 5;
    default: return 1;
  }
}

int CommandLine::Main(int argc, char** argv) {
  const auto is_asked = [&](const CLI::App* sub) { return sub->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && impl_->app.get_subcommands(is_asked).empty()) {
    fmt::print(stderr, "skerry: unknown command '{}'\nTry 'skerry --help'.\n", Printable(argv[1]));
    return 2;
  }
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return impl_->app.exit(error);  // --help, --version
    fmt::print(stderr, "skerry: {}\nTry 'skerry {}--help'.\n", Printable(error.what()),
               argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + " " : "");
    return 2;
  }
  if (impl_->common.threads == 0) impl_->common.threads = DefaultThreads();
  const Status status = impl_->chosen(impl_->common);
  if (status) return 0;
  if (impl_->common.json && !JsonWasPrinted()) {
    const nlohmann::ordered_json error = {
        {"error", {{"code", CodeName(status.error().code)}, {"message", status.error().message}}}};
    fmt::print("{}\n", error.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  fmt::print(stderr, "skerry: {}\n", Printable(status.error().message));
  return ExitStatus(status.error().code);
}

}  // namespace skerry
