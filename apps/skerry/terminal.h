// What a person sees: numbers in human units, tables, a progress line.
#ifndef SKERRY_APPS_SKERRY_TERMINAL_H_
#define SKERRY_APPS_SKERRY_TERMINAL_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line.h"
#include "skerry/base/progress.h"

namespace skerry {

// "1.25 MB": decimal units, three digits.
std::string HumanBytes(uint64_t bytes);
// "1,234,567"
std::string Grouped(uint64_t number);
// "0.893 %"
std::string Percent(double fraction);

// All text that they print is made printable first (base/text.h).
// Columns aligned to their widest cell; the first row is the heading; numbers to the right.
void PrintTable(const std::vector<std::vector<std::string>>& rows);
// "name  value" lines.
void PrintFacts(const std::vector<std::pair<std::string, std::string>>& facts);
// "skerry: warning: …" on stderr.
void PrintWarning(std::string_view warning);
// One document a run: an error that comes after it goes to stderr only.
bool JsonWasPrinted();
void PrintJson(const nlohmann::ordered_json& document);

// A line on stderr with stage, bytes, rate and time left, shown only on a terminal and only for work over a second; it
// wipes itself at the end. Silent where `options` say so or stderr is no terminal.
std::unique_ptr<Progress> MakeProgress(const CommonOptions& options);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_TERMINAL_H_
