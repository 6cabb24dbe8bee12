#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "skerry/base/text.h"

namespace skerry {
namespace {

using SteadyClock = std::chrono::steady_clock;

class ProgressLine : public Progress {
 public:
  ~ProgressLine() override { Wipe(); }

  void Begin(std::string_view stage, uint64_t total) override {
    const std::lock_guard lock(mutex_);
    Wipe();
    stage_ = stage;
    total_ = total;
    done_ = 0;
    began_ = last_drawn_ = SteadyClock::now();
  }

  void Advance(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    const auto now = SteadyClock::now();
    const std::chrono::duration<double> running = now - began_;
    if (running.count() < 1.0 || now - last_drawn_ < std::chrono::milliseconds(200)) return;
    last_drawn_ = now;
    const double rate = static_cast<double>(done_) / running.count();
    const double left = rate > 0 && total_ > done_ ? static_cast<double>(total_ - done_) / rate : 0;
    fmt::print(stderr, "\r\033[K{:<9} {:>9} of {:<9} {:>3.0f} %  {}/s  {:.0f} s left", stage_, HumanBytes(done_),
               HumanBytes(total_),
               total_ == 0 ? 100.0 : 100.0 * static_cast<double>(done_) / static_cast<double>(total_),
               HumanBytes(static_cast<uint64_t>(rate)), left);
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  void Wipe() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
    drawn_ = false;
  }

  std::mutex mutex_;
  std::string stage_;
  uint64_t total_ = 0, done_ = 0;
  SteadyClock::time_point began_, last_drawn_;
  bool drawn_ = false;
};

class NoProgress : public Progress {
  void Begin(std::string_view, uint64_t) override {}
  void Advance(uint64_t) override {}
};

bool IsNumber(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 || cell[0] == '-');
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string Grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string Percent(double fraction) { return fmt::format("{:.3f} %", 100 * fraction); }

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string cell = Printable(rows[r][i]);
      const bool right = r == 0 ? rows.size() > 1 && IsNumber(rows[1][i]) : IsNumber(cell);
      if (i > 0) line += "  ";
      line += right ? fmt::format("{:>{}}", cell, widths[i]) : fmt::format("{:<{}}", cell, widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void PrintFacts(const std::vector<std::pair<std::string, std::string>>& facts) {
  size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  for (const auto& [name, value] : facts) fmt::print("{:<{}}  {}\n", name, width, Printable(value));
}

void PrintWarning(std::string_view warning) { fmt::print(stderr, "skerry: warning: {}\n", Printable(warning)); }

namespace {
bool json_printed = false;
}  // namespace

bool JsonWasPrinted() { return json_printed; }

void PrintJson(const nlohmann::ordered_json& document) {
  json_printed = true;
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::unique_ptr<Progress> MakeProgress(const CommonOptions& options) {
  if (options.no_progress || options.json || ::isatty(STDERR_FILENO) == 0) return std::make_unique<NoProgress>();
  return std::make_unique<ProgressLine>();
}

}  // namespace skerry
