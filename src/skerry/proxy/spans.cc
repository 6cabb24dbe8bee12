#include "skerry/proxy/spans.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "skerry/engine/weight_label.h"
#include "skerry/proxy/json_members.h"
#include "skerry/proxy/json_scan.h"

namespace skerry {
namespace {

// No more of the shortest fit into the value.
constexpr size_t kMostSpans = kLongestSpans / std::string_view("7:0-1,").size();

// Of the last member of that name, as decoders take it; empty where there is none.
std::string_view ValueOf(std::string_view object, std::string_view name) {
  const auto members = FindMembers(object);
  if (!members) return {};
  const auto found = std::find_if(members->rbegin(), members->rend(), [&](const auto& m) { return m.name == name; });
  return found == members->rend() ? std::string_view() : found->value;
}

// "7:0-12" of one span's text.
std::optional<std::string> SpanText(std::string_view text, std::string_view run) {
  const auto span = nlohmann::json::parse(text, nullptr, false);
  if (!span.is_object()) return std::nullopt;
  const auto version = span.find("version"), start = span.find("start"), end = span.find("end");
  if (version == span.end() || start == span.end() || end == span.end()) return std::nullopt;
  if (!version->is_string() || !start->is_number_unsigned() || !end->is_number_unsigned()) return std::nullopt;
  const auto label = ParseWeightLabel(version->get_ref<const std::string&>());
  const bool is_ours = label && label->version && label->run == run;
  return fmt::format("{}:{}-{}", is_ours ? label->version->ToString() : "?", start->get<uint64_t>(),
                     end->get<uint64_t>());
}

// "7:0-12,8:12-40" of a choice's account.
std::optional<std::string> AccountText(std::string_view account, std::string_view run) {
  const auto spans = FindElements(account, kMostSpans);
  if (!spans) return std::nullopt;
  std::string value;
  for (const std::string_view text : *spans) {
    const auto span = SpanText(text, run);
    if (!span) return std::nullopt;
    value += fmt::format("{}{}", value.empty() ? "" : ",", *span);
  }
  return value;
}

}  // namespace

std::optional<std::string> SpansOf(std::string_view body, std::string_view run) {
  // Most answers have none, and that is seen at once.
  if (body.size() > kLongestSpansBody || body.find("weight_versions") == std::string_view::npos) return std::nullopt;
  const auto choices = FindElements(ValueOf(body, "choices"), kMostSpannedChoices);
  if (!choices) return std::nullopt;
  std::string value;
  bool any = false;
  for (size_t i = 0; i < choices->size(); ++i) {
    if (i > 0) value += ';';
    const std::string_view account = ValueOf((*choices)[i], "weight_versions");
    if (account.empty() || account == "null") continue;
    const auto text = AccountText(account, run);
    if (!text) return std::nullopt;
    any = true;
    value += *text;
    if (value.size() > kLongestSpans) return std::nullopt;
  }
  return any && value.size() <= kLongestSpans ? std::optional(value) : std::nullopt;
}

}  // namespace skerry
