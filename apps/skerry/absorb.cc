#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absorb_report.h"
#include "commands.h"
#include "open_board.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/base/temporary.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

constexpr uint64_t kMostMeanSteps = 256;  // of --steps A-B
constexpr uint64_t kMostVersions = 256;   // of --versions A-B
constexpr uint64_t kUsualVersions = 30;   // the newest, without --versions
constexpr uint64_t kAllStepsUpTo = 64;    // as far all steps are shown, also those before the first of the mean

struct Arguments {
  std::string checkpoint, lr, optimizer = "adamw", beta1 = "0.9", beta2 = "0.999", epsilon = "1e-8", masters = "served";
  std::string views_of = "served";
  std::string signal, gradient_norm = "1", steps = "10-30", link = "1Gbit", board, run, versions, html;
  std::vector<std::string> views, trust_keys;
  std::optional<uint64_t> warmup;
  bool totals = false;
};

std::optional<double> NumberOf(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> CountOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "10-30", or "10" for "10-10".
std::optional<std::pair<uint64_t, uint64_t>> RangeOf(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = CountOf(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : CountOf(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

// Bits per second of "1Gbit", "20Mbit/s", "125MB".
std::optional<double> LinkOf(std::string text) {
  if (text.ends_with("/s")) text.resize(text.size() - 2);
  double bits = 0;
  for (const auto& [unit, of_unit] : {std::pair("bit", 1.0), std::pair("B", 8.0)}) {
    if (!text.ends_with(unit)) continue;
    text.resize(text.size() - std::string_view(unit).size());
    bits = of_unit;
    break;
  }
  if (bits == 0 || text.empty()) return std::nullopt;
  for (const auto& [prefix, factor] :
       {std::pair('k', 1e3), std::pair('M', 1e6), std::pair('G', 1e9), std::pair('T', 1e12)}) {
    if (text.back() != prefix) continue;
    text.pop_back();
    bits *= factor;
    break;
  }
  const std::optional<double> number = NumberOf(text);
  if (!number || *number <= 0) return std::nullopt;
  return *number * bits;
}

struct Parsed {
  Settings settings;
  std::pair<uint64_t, uint64_t> steps;
  std::optional<std::pair<uint64_t, uint64_t>> versions;
  double link = 0;
  std::vector<const ServedView*> views;
};

Result<Parsed> Parse(const Arguments& args) {
  Parsed parsed;
  Settings& settings = parsed.settings;
  settings.masters = args.masters == "served" ? Masters::kServed : Masters::kSettled;
  settings.views_of = args.views_of == "served" ? ViewsOf::kServed : ViewsOf::kMasters;
  settings.signal = UsualSignal(settings.masters);
  settings.warmup = args.warmup.value_or(0);
  const auto number = [](const char* flag, const std::string& text, double& target) -> Status {
    const std::optional<double> value = NumberOf(text);
    if (!value) return Fail(Code::kInvalid, "{}: '{}' is no number", flag, text);
    target = *value;
    return {};
  };
  SKERRY_TRY(number("--lr", args.lr, settings.lr));
  SKERRY_TRY(number("--beta1", args.beta1, settings.beta1));
  SKERRY_TRY(number("--beta2", args.beta2, settings.beta2));
  SKERRY_TRY(number("--eps", args.epsilon, settings.epsilon));
  SKERRY_TRY(number("--gradient-norm", args.gradient_norm, settings.gradient_norm));
  if (!args.signal.empty()) SKERRY_TRY(number("--signal", args.signal, settings.signal));
  SKERRY_TRY(
      CheckTraining({.lr = settings.lr, .beta1 = settings.beta1, .beta2 = settings.beta2, .signal = settings.signal}));
  if (!(settings.epsilon > 0)) return Fail(Code::kInvalid, "--eps: {} is not above 0", args.epsilon);
  if (!(settings.gradient_norm > 0))
    return Fail(Code::kInvalid, "--gradient-norm: {} is not above 0", args.gradient_norm);
  const auto steps = RangeOf(args.steps);
  if (!steps || steps->second > kMostSteps || steps->second - steps->first >= kMostMeanSteps) {
    return Fail(Code::kInvalid, "--steps: '{}' is not A-B, two steps from 1 to {} with at most {} from A to B",
                args.steps, kMostSteps, kMostMeanSteps);
  }
  parsed.steps = *steps;
  if (!args.versions.empty()) {
    parsed.versions = RangeOf(args.versions);
    if (!parsed.versions || parsed.versions->second - parsed.versions->first >= kMostVersions) {
      return Fail(Code::kInvalid, "--versions: '{}' is not A-B, two versions from 1 on with at most {} from A to B",
                  args.versions, kMostVersions);
    }
  }
  const auto link = LinkOf(args.link);
  if (!link) return Fail(Code::kInvalid, "--link: '{}' is no rate like 20Mbit, 1Gbit or 125MB (a second)", args.link);
  parsed.link = *link;
  for (const std::string& name : args.views) {
    const ServedView* view = FindServedView(name);
    if (view == nullptr) return Fail(Code::kInvalid, "--view: {} is none that is known", name);
    if (std::find(parsed.views.begin(), parsed.views.end(), view) == parsed.views.end()) parsed.views.push_back(view);
  }
  if (args.board.empty() != args.run.empty()) return Fail(Code::kInvalid, "--board and --run belong together");
  if (!args.versions.empty() && args.board.empty()) return Fail(Code::kInvalid, "--versions needs --board and --run");
  if (parsed.views.empty()) {
    for (const ServedView& view : ServedViews()) parsed.views.push_back(&view);
  }
  return parsed;
}

size_t IndexOf(std::vector<const ServedView*>& views, const ServedView* view) {
  const auto found = std::find(views.begin(), views.end(), view);
  if (found != views.end()) return static_cast<size_t>(found - views.begin());
  views.push_back(view);
  return views.size() - 1;
}

// What the run serves itself: it is that of most of the checkpoint's weights.
const ServedView* OwnView(const Layout& layout) {
  uint64_t bf16 = 0, fp16 = 0;
  for (const LayoutTensor& tensor : layout.tensors()) {
    (tensor.dtype == DType::kF16 ? fp16 : bf16) += tensor.units();
  }
  return FindServedView(fp16 > bf16 ? "fp16" : "bf16");
}

// The run as it was named, and where that names no view, its further views that are known.
Result<std::vector<MeasuredRun>> ReadRuns(const Board& board, const Arguments& args, const Parsed& parsed,
                                          const Layout& layout, std::vector<const ServedView*>& views) {
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  const uint64_t newest = at.head.version.number();
  if (newest == 0) return Fail(Code::kInvalid, "run {} has version 0 only: nothing changed yet", run);
  std::pair<uint64_t, uint64_t> versions{newest > kUsualVersions ? newest - kUsualVersions + 1 : 1, newest};
  if (parsed.versions) versions = *parsed.versions;
  std::vector<std::pair<RunId, const ServedView*>> wanted;
  if (run.IsView()) {
    const ServedView* view = FindServedView(run.view());
    if (view == nullptr)
      return Fail(Code::kInvalid, "view {} of run {} is none that is known", run.view(), run.whole_name());
    wanted.emplace_back(run, view);
  } else {
    wanted.emplace_back(run, OwnView(layout));
    for (const ViewHead& view : at.head.views) {
      if (const ServedView* known = FindServedView(view.view)) {
        SKERRY_ASSIGN(const RunId of_view, run.View(view.view));
        wanted.emplace_back(of_view, known);
      }
    }
  }
  std::vector<MeasuredRun> runs;
  for (const auto& [id, view] : wanted) {
    MeasuredRun& measured =
        runs.emplace_back(MeasuredRun{.run = id, .view = IndexOf(views, view), .versions = {}, .moves = {}});
    SKERRY_ASSIGN(measured.versions, ReadMeasured(board, id, Version(versions.first), Version(versions.second)));
  }
  return runs;
}

// A folder that goes away with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Make() {
    std::error_code error;
    const Path parent = std::filesystem::temp_directory_path(error);
    if (error) return Fail(Code::kIo, "no folder for temporary files: {}", error.message());
    std::string name = (parent / "skerry-absorb-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return Fail(Code::kIo, "can't make a folder in {}", parent.string());
    return ScratchFolder(name);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const Path& path() const { return path_; }

 private:
  explicit ScratchFolder(Path path) : path_(std::move(path)) {}
  Path path_;
};

// All steps of which something is said, each once, rising.
std::vector<StepRange> RangesOf(const AbsorbReport& report) {
  std::set<StepRange> ranges{{0, 1}};
  for (uint64_t step = report.last_step <= kAllStepsUpTo ? 1 : report.first_step; step <= report.last_step; ++step) {
    ranges.insert({step - 1, step});
  }
  for (const MeasuredRun& run : report.measured) {
    for (const MeasuredVersion& version : run.versions) ranges.insert(version.steps);
  }
  return {ranges.begin(), ranges.end()};
}

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(Parsed parsed, Parse(args));
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Checkpoint checkpoint, OpenSettledCheckpoint(args.checkpoint));
  AbsorbReport report;
  report.checkpoint = args.checkpoint;
  report.optimizer = args.optimizer;
  report.settings = parsed.settings;
  std::tie(report.first_step, report.last_step) = parsed.steps;
  report.link_bits_per_second = parsed.link;
  std::optional<Board> board;
  if (!args.board.empty()) {
    SKERRY_ASSIGN(board, OpenBoard(args.board, args.trust_keys));
    SKERRY_ASSIGN(report.measured, ReadRuns(*board, args, parsed, checkpoint.layout(), parsed.views));
  }
  SKERRY_ASSIGN(report.census, TakeCensus(checkpoint, parsed.views, common.threads, *progress));
  if (report.census.weights == 0) {
    return Fail(Code::kInvalid,
                "{}: no tensor of it is BF16, F16 or F32: absorb wants the weights that are trained, not codes",
                args.checkpoint);
  }
  const std::vector<StepRange> ranges = RangesOf(report);
  SKERRY_ASSIGN(const Moves moves, MovesOf(report.settings, report.census, ranges));
  SKERRY_ASSIGN(report.predictions, Predict(report.census, moves, report.settings, common.threads));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool shown = ranges[i].to == 1 || report.last_step <= kAllStepsUpTo || ranges[i].to >= report.first_step;
    if (ranges[i].to == ranges[i].from + 1 && ranges[i].to <= report.last_step && shown) report.steps.push_back(i);
  }
  for (MeasuredRun& run : report.measured) {
    for (const MeasuredVersion& version : run.versions) {
      const auto found = std::lower_bound(ranges.begin(), ranges.end(), version.steps);
      run.moves.push_back(static_cast<size_t>(found - ranges.begin()));
    }
    if (args.totals) continue;
    SKERRY_ASSIGN(const ScratchFolder scratch, ScratchFolder::Make());
    SKERRY_TRY(ReadDetails(*board, run.run, run.versions, scratch.path(), common.threads, *progress));
  }
  if (!args.html.empty()) SKERRY_TRY(WriteFileAtomically(args.html, AsBytes(AbsorbHtml(report))));
  if (common.json) {
    PrintJson(AbsorbJson(report));
    return {};
  }
  for (const std::string& warning : checkpoint.warnings()) PrintWarning(warning);
  PrintAbsorb(report);
  return {};
}

}  // namespace

void AddAbsorb(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("absorb", "Predict how much a training step changes in each served view",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("CKPT", args->checkpoint, "Checkpoint directory with the weights that are trained (BF16, F16 or F32)")
      .Required("--lr", args->lr, "Learning rate, 1e-6 perhaps")
      .Choice("--optimizer", args->optimizer, {"adamw", "adam"}, "Optimizer (default adamw)")
      .Option("--beta1", args->beta1, "Decay of the gradients' mean (default 0.9)")
      .Option("--beta2", args->beta2, "Decay of their squares' mean (default 0.999)")
      .Option("--eps", args->epsilon, "The optimizer's epsilon (default 1e-8)")
      .Option("--warmup", args->warmup, "Steps over which the learning rate rises (default 0)")
      .Choice("--masters", args->masters, {"served", "settled"},
              "Where the trainer's F32 masters begin: served, at the checkpoint's own numbers; settled, anywhere near "
              "them, since they have been trained for long (default served)")
      .Choice("--views-of", args->views_of, {"served", "masters"},
              "What codes are made of: served, masters rounded to BF16 first; masters, as they are (default served)")
      .Option("--signal", args->signal,
              "How much of a gradient is the same at each step, over its noise (default 1, settled masters 0)")
      .Option("--gradient-norm", args->gradient_norm, "Norm of the whole gradient after clipping (default 1)")
      .Option("--steps", args->steps, "A-B: steps over which means are taken (default 10-30)")
      .Option("--view", args->views,
              "A view to predict: bf16, fp16, fp8-tensor, fp8-channel, fp8-block, mxfp8, mxfp4, nvfp4, nf4; once for "
              "each (default: all)")
      .Option("--link", args->link, "Rate at which patches and checkpoints travel (default 1Gbit)")
      .Option("--board", args->board, kBoardHelp)
      .Option("--run", args->run, "Name of a run whose versions stand beside the prediction; RUN/VIEW: one view of it")
      .Option("--versions", args->versions, "A-B: of the run (default: the newest 30)")
      .Flag("--totals", args->totals, "Of versions only what manifests say: no patch is fetched, nothing told by kind")
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Option("--html", args->html, "Write a report with plots to this file")
      .Check([args] {
        const Result<Parsed> parsed = Parse(*args);
        return parsed ? "" : parsed.error().message;
      })
      .Example("skerry absorb ckpt/base --lr 1e-6 --view bf16 --view fp8-block --html absorb.html");
}

}  // namespace skerry
