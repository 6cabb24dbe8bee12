#include <algorithm>
#include <cmath>
#include <iterator>

#include "absorb_report.h"
#include "skerry/base/text.h"
#include "terminal.h"

namespace skerry {
namespace {

// One colour a view, in the order of ServedViews(): told apart also by who sees few colours, on light and on dark
// ground.
constexpr const char* kColours[] = {"#4477aa", "#66ccee", "#228833", "#88aa22", "#b89a00",
                                    "#ee6677", "#aa3377", "#aa7744", "#888888"};

constexpr const char* kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>skerry absorb</title>
<style>
:root{color-scheme:light dark;--ground:#fff;--ink:#1b2430;--faint:#d6dbe2;--soft:#5c6773}
@media (prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#e4e8ed;--faint:#39424d;--soft:#9aa5b1}}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--ground);color:var(--ink);font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .2rem}p{margin:.3rem 0}.soft{color:var(--soft)}
svg{display:block;width:100%;max-width:44rem;height:auto}svg text{fill:var(--ink);font:11px system-ui,sans-serif}
.grid{stroke:var(--faint);stroke-width:1}.keys{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.9rem}
.keys i{display:inline-block;width:1rem;height:.25rem;margin-right:.35rem;vertical-align:middle;border-radius:2px}
.keys i.dot{width:.55rem;height:.55rem;border-radius:50%}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--faint)}
th:first-child,td:first-child{text-align:left}
</style></head><body>
)html";

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

const char* ColourOf(const ServedView& view) { return kColours[std::distance(ServedViews().data(), &view)]; }

struct Series {
  std::string name, colour;
  std::vector<std::pair<double, double>> points;
  bool dots = false;
};

// A plot with a logarithmic vertical axis of shares. Points at 0 are left out.
class SharePlot {
 public:
  SharePlot(std::string x_name, std::vector<Series> series) : x_name_(std::move(x_name)), series_(std::move(series)) {
    for (const Series& one : series_) {
      for (const auto& [x, y] : one.points) {
        if (y <= 0) continue;
        left_ = std::min(left_, x);
        right_ = std::max(right_, x);
        low_ = std::min(low_, std::floor(std::log10(y)));
        high_ = std::max(high_, std::ceil(std::log10(y)));
      }
    }
    low_ = std::max(low_, high_ - 8);  // what is rarer is not worth the room
    if (high_ <= low_) high_ = low_ + 1;
    if (right_ <= left_) right_ = left_ + 1;
  }

  std::string Svg(const std::string& label) const {
    if (left_ > right_) return "<p>Nothing changes.</p>\n";
    std::string svg =
        fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight, Escaped(label));
    for (double power = low_; power <= high_; ++power) {
      const double y = Y(std::pow(10, power));
      svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                         kWidth - kRight, y, y);
      svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g} %</text>\n", kLeft - 6, y + 4,
                         std::pow(10, power + 2));
    }
    const double each = std::max(1.0, std::ceil((right_ - left_) / 8));
    for (double x = std::ceil(left_); x <= right_; x += each) {
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", X(x),
                         kHeight - kBottom + 16, x);
    }
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + kWidth - kRight) / 2,
                       kHeight - 4, Escaped(x_name_));
    for (const Series& one : series_) svg += one.dots ? Dots(one) : Line(one);
    return svg + "</svg>\n" + Keys();
  }

 private:
  static constexpr double kWidth = 460, kHeight = 300, kLeft = 64, kRight = 10, kTop = 10, kBottom = 38;

  double X(double x) const { return kLeft + (x - left_) / (right_ - left_) * (kWidth - kLeft - kRight); }
  double Y(double share) const {
    const double at = (std::max(std::log10(share), low_) - low_) / (high_ - low_);
    return kHeight - kBottom - at * (kHeight - kBottom - kTop);
  }
  bool IsShown(double share) const { return share > 0 && std::log10(share) >= low_; }

  std::string Line(const Series& one) const {
    std::string path;
    bool pen_down = false;
    for (const auto& [x, y] : one.points) {
      if (IsShown(y)) path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", X(x), Y(y));
      pen_down = IsShown(y);
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"><title>{}</title></path>\n",
                       path, one.colour, Escaped(one.name));
  }
  std::string Dots(const Series& one) const {
    std::string dots;
    for (const auto& [x, y] : one.points) {
      if (!IsShown(y)) continue;
      dots +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{} {:g}: {}</title></circle>\n",
                      X(x), Y(y), one.colour, Escaped(one.name), x, FinePercent(y));
    }
    return dots;
  }
  std::string Keys() const {
    std::string keys = "<div class=\"keys\">";
    for (const Series& one : series_) {
      keys += fmt::format("<span><i{} style=\"background:{}\"></i>{}</span>", one.dots ? " class=\"dot\"" : "",
                          one.colour, Escaped(one.name));
    }
    return keys + "</div>\n";
  }

  std::string x_name_;
  std::vector<Series> series_;
  double left_ = INFINITY, right_ = -INFINITY, low_ = INFINITY, high_ = -INFINITY;
};

std::string DensityPlot(const AbsorbReport& report) {
  std::vector<Series> all;
  for (size_t v = 0; v < report.views().size(); ++v) {
    const ServedView& view = *report.views()[v].view;
    Series& line = all.emplace_back(Series{.name = std::string(view.name), .colour = ColourOf(view), .points = {}});
    for (const size_t move : report.steps) {
      const ViewStep& step = report.predictions[v].steps[move];
      line.points.emplace_back(static_cast<double>(step.steps.to), report.Density(step.changed));
    }
  }
  for (const MeasuredRun& run : report.measured) {
    const ServedView& view = *report.views()[run.view].view;
    Series& dots = all.emplace_back(
        Series{.name = fmt::format("{}, measured", view.name), .colour = ColourOf(view), .points = {}, .dots = true});
    for (const MeasuredVersion& version : run.versions) {
      const auto steps = static_cast<double>(version.steps.to - version.steps.from);
      dots.points.emplace_back(static_cast<double>(version.steps.to),
                               report.Density(static_cast<double>(version.changed)) / steps);
    }
  }
  return SharePlot("step", std::move(all)).Svg("Share of weights that a step changes, for each view");
}

// Measured points are of the first run whose versions were looked into and whose view is of BF16.
std::string ExponentPlot(const AbsorbReport& report) {
  std::vector<Series> all;
  for (size_t v = 0; v < report.views().size(); ++v) {
    const ServedView& view = *report.views()[v].view;
    Series& line = all.emplace_back(Series{.name = std::string(view.name), .colour = ColourOf(view), .points = {}});
    for (const auto& [power, exponent] : report.predictions[v].exponents) {
      if (static_cast<double>(exponent.weights) < 1e-5 * static_cast<double>(report.census.weights)) continue;
      line.points.emplace_back(power, report.Mean([&](size_t move) { return exponent.shows[move]; }));
    }
  }
  for (const MeasuredRun& run : report.measured) {
    const ServedView& view = *report.views()[run.view].view;
    if (view.codes != ServedView::Codes::kBf16) continue;
    std::map<int, double> changed;
    double steps = 0;
    for (const MeasuredVersion& version : run.versions) {
      if (!version.detail || version.steps.to < report.first_step || version.steps.to > report.last_step) continue;
      steps += static_cast<double>(version.steps.to - version.steps.from);
      for (const auto& [power, count] : version.detail->exponents) changed[power] += static_cast<double>(count);
    }
    if (steps == 0) continue;
    Series& dots = all.emplace_back(
        Series{.name = fmt::format("{}, measured", view.name), .colour = ColourOf(view), .points = {}, .dots = true});
    for (const auto& [power, count] : changed) {
      const auto found = report.predictions[run.view].exponents.find(power);
      if (found == report.predictions[run.view].exponents.end()) continue;
      if (static_cast<double>(found->second.weights) < 1e-5 * static_cast<double>(report.census.weights)) continue;
      // Of the weights that the checkpoint has in it: more may be there by now, where they are small.
      dots.points.emplace_back(power, std::min(1.0, count / steps / static_cast<double>(found->second.weights)));
    }
  }
  return SharePlot("exponent of the weight (2^x)", std::move(all))
      .Svg("Chance that a step shows, by the weight's exponent");
}

std::string BytesBars(const AbsorbReport& report) {
  constexpr double kWidth = 460, kRow = 34, kName = 84, kNumbers = 122;
  double most = 0, least = INFINITY;
  for (size_t v = 0; v < report.views().size(); ++v) {
    most = std::max(most, static_cast<double>(report.views()[v].tensor_bytes));
    least = std::min(least, report.MeanBytes(v));
  }
  const double low = std::floor(std::log10(least)), high = std::log10(std::max(most, 10 * least));
  const auto length = [&](double bytes) {
    return std::max(1.0, (std::log10(std::max(bytes, 1.0)) - low) / (high - low) * (kWidth - kName - kNumbers));
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Bytes of a step's patch and of a whole checkpoint\">\n",
      kWidth, kRow * static_cast<double>(report.views().size()));
  for (size_t v = 0; v < report.views().size(); ++v) {
    const ServedView& view = *report.views()[v].view;
    const double y = kRow * static_cast<double>(v);
    const auto bar = [&](double at, double bytes, double opacity, const char* what) {
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"11\" rx=\"2\" fill=\"{}\" fill-opacity=\"{}\"/>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\">{} {}</text>\n",
          kName, at, length(bytes), ColourOf(view), opacity, kName + length(bytes) + 5, at + 9.5, what,
          HumanBytes(static_cast<uint64_t>(std::llround(bytes))));
    };
    svg += fmt::format("<text x=\"0\" y=\"{:.1f}\">{}</text>\n", y + 18, view.name);
    bar(y + 3, report.MeanBytes(v), 1, "patch");
    bar(y + 16, static_cast<double>(report.views()[v].tensor_bytes), 0.4, "checkpoint");
  }
  return svg + "</svg>\n";
}

std::string KindTable(const AbsorbReport& report) {
  std::string html = "<div class=\"wide\"><table><tr><th>kind</th><th>weights</th>";
  for (const ViewCensus& view : report.views()) html += fmt::format("<th>{}</th>", view.view->name);
  html += "</tr>\n";
  for (size_t kind = 0; kind < kTensorKinds; ++kind) {
    if (report.census.kinds[kind] == 0) continue;
    html += fmt::format("<tr><td>{}</td><td>{}</td>", TensorKindName(static_cast<TensorKind>(kind)),
                        Grouped(report.census.kinds[kind]));
    for (const ViewPrediction& prediction : report.predictions) {
      const double changed = report.Mean([&](size_t move) { return prediction.steps[move].kind_changed[kind]; });
      html += fmt::format("<td>{}</td>", FinePercent(changed / static_cast<double>(report.census.kinds[kind])));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string MeasuredTable(const AbsorbReport& report, const MeasuredRun& run) {
  std::string html = fmt::format(
      "<h2>Run {}, measured beside predicted</h2><div class=\"wide\"><table><tr><th>version</th><th>last step</th>"
      "<th>measured</th><th>predicted</th><th>patch</th><th>predicted patch</th></tr>\n",
      Escaped(run.run.str()));
  for (size_t i = 0; i < run.versions.size(); ++i) {
    const MeasuredVersion& version = run.versions[i];
    const ViewStep& expected = report.predictions[run.view].steps[run.moves[i]];
    html +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", version.version,
                    version.steps.to, FinePercent(report.Density(static_cast<double>(version.changed))),
                    FinePercent(report.Density(expected.changed)), HumanBytes(version.patch_bytes),
                    HumanBytes(static_cast<uint64_t>(std::llround(expected.bytes))));
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string AbsorbHtml(const AbsorbReport& report) {
  const Settings& settings = report.settings;
  const std::string mean = fmt::format("steps {}-{}", report.first_step, report.last_step);
  std::string html = kHead;
  html += fmt::format(
      "<h1>What a training step changes</h1><p>{}: {} weights; {}, lr {:g}, betas {:g} and {:g}; masters {}, signal "
      "{:g}.</p>\n"
      "<p class=\"soft\">A step shows in what engines serve only where a master crosses the boundary of its number's "
      "cell. "
      "Lines are predicted, dots measured.</p>\n",
      Escaped(report.checkpoint), Grouped(report.census.weights), report.optimizer, settings.lr, settings.beta1,
      settings.beta2, settings.masters == Masters::kServed ? "served" : "settled", settings.signal);
  html += "<h2>Share of weights that each step changes</h2>\n" + DensityPlot(report);
  html +=
      fmt::format("<h2>Chance that a step shows, by the weight's exponent ({})</h2>\n", mean) + ExponentPlot(report);
  html +=
      fmt::format("<h2>Bytes of a step ({}), beside a whole checkpoint (logarithmic)</h2>\n", mean) + BytesBars(report);
  html += fmt::format("<h2>Share by kind of tensor ({})</h2>\n", mean) + KindTable(report);
  for (const MeasuredRun& run : report.measured) html += MeasuredTable(report, run);
  return html + "</body></html>\n";
}

}  // namespace skerry
