// The names of the board's things as types, so that a version can't be passed for a step nor a path for a run.
#ifndef SKERRY_BOARD_NAMES_H_
#define SKERRY_BOARD_NAMES_H_

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "skerry/base/result.h"

namespace skerry {

// The number of a version in its run; 0 is the base.
class Version {
 public:
  // Keys print a version with 9 digits, so that a listing is in order.
  static constexpr uint64_t kMax = 999'999'999;

  constexpr Version() = default;
  constexpr explicit Version(uint64_t number) : number_(number) {}
  // Decimal digits only, at most kMax.
  static Result<Version> Parse(std::string_view text);

  constexpr uint64_t number() const { return number_; }
  constexpr Version Next() const { return Version(number_ + 1); }
  // Not of version 0.
  constexpr Version Previous() const { return Version(number_ - 1); }
  constexpr bool IsBase() const { return number_ == 0; }
  std::string ToString() const { return std::to_string(number_); }

  auto operator<=>(const Version&) const = default;

 private:
  uint64_t number_ = 0;
};

// The name of a run, or of a further view of one, which has versions, patches and anchors of its own: "grpo-1" or
// "grpo-1/fp8-block". Both parts are 1-64 of [A-Za-z0-9._-], not beginning with '.'. A default-constructed RunId names
// no run; nothing that has one can be serialized.
class RunId {
 public:
  static constexpr size_t kMaxPartSize = 64;
  static constexpr size_t kMaxSize = 2 * kMaxPartSize + 1;

  RunId() = default;
  static Result<RunId> Parse(std::string_view text);
  // The view of this run, whatever view of it this is; no name: the run's own.
  Result<RunId> View(std::string_view view) const;

  const std::string& str() const { return name_; }
  bool IsView() const { return name_.find('/') != std::string::npos; }
  // Without the view.
  RunId Whole() const { return RunId(whole_name()); }
  std::string_view whole_name() const { return std::string_view(name_).substr(0, name_.find('/')); }
  // Empty for the run's own.
  std::string_view view() const {
    return std::string_view(name_).substr(std::min(whole_name().size() + 1, name_.size()));
  }
  auto operator<=>(const RunId&) const = default;

 private:
  explicit RunId(std::string_view name) : name_(name) {}
  std::string name_;
};

// For gtest and streams; messages use fmt.
std::ostream& operator<<(std::ostream& out, Version version);
std::ostream& operator<<(std::ostream& out, const RunId& run);

// 32 hexadecimal digits from the operating system's random numbers: ids of boards and publishers, nonces of heads.
std::string RandomToken();

}  // namespace skerry

template <>
struct fmt::formatter<skerry::Version> : fmt::formatter<uint64_t> {
  template <typename Context>
  auto format(skerry::Version version, Context& context) const {
    return fmt::formatter<uint64_t>::format(version.number(), context);
  }
};
template <>
struct fmt::formatter<skerry::RunId> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const skerry::RunId& run, Context& context) const {
    return fmt::formatter<std::string_view>::format(run.str(), context);
  }
};
template <>
struct std::hash<skerry::Version> {
  size_t operator()(skerry::Version version) const { return std::hash<uint64_t>()(version.number()); }
};

#endif  // SKERRY_BOARD_NAMES_H_
