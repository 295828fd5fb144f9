#include "apps/simulate/options.h"

#include <CLI/CLI.hpp>

#include "apps/command_line.h"
#include "apps/log_file.h"
#include "apps/subcommand.h"
#include "apps/text.h"
#include "core/parse.h"
#include "dist/planner/calibration_file.h"
#include "dist/planner/simulation.h"

namespace laconic {
namespace {

constexpr const char* kWhat =
    "What a training step takes with more workers, or on another network. Strategy, plan, messages and their order are "
    "those of a training; only time is virtual, and nothing is sent.";

/// "1,2,8": these; "1..64": 1, 2, 4, ... and 64.
std::vector<int> numbers_of_workers(const std::string& text, const std::string& where) {
  const auto number = [&](const std::string& word) {
    const auto n = number_from<int>(word);
    require<UsageError>(n && *n >= 1 && *n <= 65536, "'", word, "' is no number of workers (", where,
                        "): give 1 to 65536, as 2,4,8 or 2..1024");
    return *n;
  };
  std::vector<int> all;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    const int first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
    require<UsageError>(first <= last, "'", text, "' ends before it begins (", where, "): give 2..1024");
    for (int n = first; n < last; n *= 2) all.push_back(n);
    all.push_back(last);
    return all;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    all.push_back(number(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return all;
}

/// "10us", as a link's latency is written.
double seconds_in(const std::string& time, const std::string& where) {
  try {
    return std::chrono::duration<double>(dist::LinkSpec::parse("1gbit," + time, where).latency).count();
  } catch (const UsageError&) {
    throw UsageError(concat("'", time, "' is no time (", where, "): give a number and its unit, as 10us or 1ms"));
  }
}

/// Takes over network and computing, as far as they were measured.
void take_over(SimulateOptions& o, SimulateOptions::Replayed measured, const std::string& path) {
  if (measured.group.workers > 1) {  // else there was no network
    o.workers = {measured.group.workers};
    o.link = measured.group.network("none").links.all, o.own_link = false;
  }
  if (!measured.times.layers.empty()) o.compute = "that of " + path;
  o.replayed = std::make_shared<SimulateOptions::Replayed>(std::move(measured));
}

/// Takes over what a log tells.
void replay(SimulateOptions& o, const std::string& path) {
  const LogFile log = LogFile::read(path);
  require<DataError>(log.plan.is_object() && log.plan.contains("layers") && log.plan.contains("measured"), path,
                     " has no measured plan (--replay): train with --plan auto, more than one worker, and --log.");
  SimulateOptions::Replayed replayed{dist::calibration_from(log.plan["measured"].dump(), path),
                                     dist::layer_times_from(log.plan["layers"].dump(), path)};
  o.model = log.run.value("model", o.model), o.classes = log.plan.value("classes", 0);
  o.batch = log.plan.value("batch", o.batch);
  take_over(o, std::move(replayed), path);
}

/// Takes over what a file of laconic calibrate tells.
void replay_calibration(SimulateOptions& o, const std::string& path) {
  dist::CalibrationFile file = dist::CalibrationFile::read(path);
  if (!file.model.empty()) o.model = file.model, o.classes = file.classes, o.batch = file.batch;
  take_over(o, {dist::slowest(file.ranks), std::move(file.layers)}, path);
}

void add_settings(Settings& s, SimulateOptions& o, std::string& replayed, std::string& calibration) {
  s.group("What is trained", Scope::model);
  s.text("model", "NAME", o.model, "a model of the zoo [" + o.model + "]");
  s.whole_number<int>("classes", "K", o.classes, 1, "outputs [the model's own]", false);
  s.whole_number<int>("batch", "B", o.batch, 1, "samples of a worker");
  s.text("compute", "HOW", o.compute,
         "measured: here, now; gflops:X; or FILE, of laconic bench\nlayers --json [" + o.compute + "]");
  s.whole_number<int>("threads", "T", o.threads, 1, "of a worker, where computing is measured");
  s.value("workers", "N,..", "as 2,4,8, or 2..1024 by twos [1..64]",
          [&o](const std::string& text, const std::string& where) { o.workers = numbers_of_workers(text, where); });
  s.value("straggle", "SHARE",
          "each step of a worker takes longer by a share, drawn\nexponentially with this mean, as 0.1 [0]",
          [&o](const std::string& text, const std::string& where) { o.straggling = real(text, where, 0, 100, "0.1"); });
  s.value("message-time", "TIME", "of a core, to send or take a message, as 10us [5us]",
          [&o](const std::string& text, const std::string& where) { o.message_seconds = seconds_in(text, where); });
  s.value("cores", "own|shared", "messages are worked on by a core of their own, or by those\nthat compute [own]",
          [&o](const std::string& text, const std::string& where) {
            o.shares_cores = one_of(text, where, {"own", "shared"}) == "shared";
          });
  s.text("replay", "LOG", replayed,
         "model, batch, computing, cores and network are those of a\ntraining with --plan auto --log LOG");
  s.text("calibration", "FILE", calibration,
         "cores and network are those that laconic calibrate --save\nhas measured, and the model, if it was told one");
  add_exchange_settings(s, {.sync = o.sync,
                            .method_settings = o.method_settings,
                            .plan = o.plan,
                            .overlap = o.overlap,
                            .codec_feedback = o.codec_feedback,
                            .servers = o.servers,
                            .link = o.link,
                            .link_of = o.link_of});
  Setting& link = *s.find("link");
  link.help =
      "each worker's cable, to a switch that is never busy, as\n10gbit,20us; headers of TCP take 4 % [1gbit,100us]";
  s.group("Output", Scope::output);
  s.value("vs", "\"LABEL: OPTIONS\"", "a set: these options behind the others; may be given again",
          [&o](const std::string& text, const std::string&) { o.sets.push_back(text); })
      .takes = Setting::Takes::repeated;
  s.text("svg", "FILE", o.svg, "draw samples a second over workers, a curve for each set");
  s.flag("json", o.json, "one object, on the last line");
  s.flag("markdown", o.markdown, "a table for docs");
}

/// Nothing if that was all.
std::optional<SimulateOptions> parsed(const std::vector<std::string>& words) {
  SimulateOptions o;
  o.workers = numbers_of_workers("1..64", "`workers`");
  o.link = dist::LinkSpec::parse("1gbit,100us", "`link`");
  Settings settings;
  std::string replayed, calibration;
  add_settings(settings, o, replayed, calibration);
  CLI::App app(kWhat, "laconic simulate");
  Texts texts;
  laconic::bind(app, settings, texts);  // unqualified, std::bind would match better
  if (parse_tool(app, words)) return std::nullopt;
  for (const auto& [name, text] : texts) {  // the others differ from it
    if (name == "replay") replay(o, text);
    if (name == "calibration") replay_calibration(o, text);
  }
  for (const auto& [name, text] : texts) {
    if (name == "model") o.classes = 0;
    settings.set(name, text);
  }
  if (settings.given("link")) o.own_link = true;
  if (settings.given("replay") && settings.given("calibration"))
    refuse("both say what was measured", "`replay` and `calibration`", "leave one of them out");
  if (o.replayed && settings.given("compute"))
    o.replayed = std::make_shared<SimulateOptions::Replayed>(SimulateOptions::Replayed{o.replayed->group, {}});
  for (const char* name : {"model", "classes", "batch", "threads"})
    if (o.replayed && !o.replayed->times.layers.empty() && settings.given(name))
      refuse(settings.given("replay") ? "computing is that of the log" : "computing is that of the calibration",
             concat("`", name, "`"), "leave it out, or give `compute` too");
  o.method = make_method(settings, o.sync, o.method_settings);
  dist::require_on_ghosts(*o.method);
  if (const auto refusal = o.method->refuses("codec"); o.plan.codec != "none" && refusal)
    refuse(refusal->what, "`codec`", refusal->advice);
  if (o.method->traits().servers && !o.servers) o.servers = 1;
  require<UsageError>(!o.codec_feedback || o.plan.codec != "none",
                      "without a codec nothing is lost (`codec-feedback`): add `codec`, or leave it out");
  const auto found = dist::find_allreduce(o.plan.allreduce);
  require<UsageError>(!found || found->kind.carrier == dist::Carrier::messages, "`allreduce` ", o.plan.allreduce,
                      " is not ours, and nobody here knows what it sends: take one of ours, as ring");
  return o;
}

/// "label: --options": its label, and its words.
std::pair<std::string, std::vector<std::string>> labelled(const std::string& text) {
  const auto colon = text.find(':');
  const bool has = colon != std::string::npos && colon > 0 && text[0] != '-';
  return {has ? text.substr(0, colon) : text, shell_words(has ? text.substr(colon + 1) : text, "--vs")};
}

}  // namespace

std::vector<SimulateOptions> simulate_options(const std::vector<std::string>& arguments) try {
  std::optional<SimulateOptions> common = parsed(arguments);
  if (!common) return {};
  if (common->sets.empty()) return {*std::move(common)};
  std::vector<SimulateOptions> all;
  for (const std::string& set : common->sets) {
    auto [label, more] = labelled(set);
    std::vector<std::string> words = arguments;
    words.insert(words.end(), more.begin(), more.end());
    all.push_back(parsed(words).value());
    all.back().label = label;
  }
  return all;
} catch (const UsageError& e) {
  throw UsageError(Settings::as_options(e.what()));
}

}  // namespace laconic
