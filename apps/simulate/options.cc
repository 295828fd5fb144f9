#include "apps/simulate/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>

#include "apps/command_line.h"
#include "apps/look/log_file.h"
#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "core/base/parse.h"
#include "dist/predict/calibration_file.h"
#include "dist/predict/simulation.h"

namespace laconic {
namespace {

constexpr const char* kWhat =
    "What a training step takes with more workers, or on another network. Strategy, plan, messages and their order are "
    "those of a training; only time is virtual, and nothing is sent.";

/// "1,2,8": these; "1..64": 1, 2, 4, ... and 64; "a,b;c,d": what stands between semicolons.
std::vector<std::string> values_in(const std::string& list, const std::string& where) {
  if (const auto dots = list.find(".."); dots != std::string::npos) {
    const auto first = number_from<std::int64_t>(list.substr(0, dots)),
               last = number_from<std::int64_t>(list.substr(dots + 2));
    if (first && last && *first >= 1 && *last <= std::int64_t{1} << 60) {
      require<UsageError>(*first <= *last, "'", list, "' ends before it begins (", where, "): give 2..1024");
      std::vector<std::string> all;
      const std::int64_t end = *last;
      for (std::int64_t n = *first; n < end; n = std::min(end, 2 * n)) all.push_back(std::to_string(n));
      all.push_back(std::to_string(end));
      return all;
    }
  }
  return split(list, list.find(';') == std::string::npos ? ',' : ';');
}

std::vector<int> numbers_of_workers(const std::string& text, const std::string& where) {
  std::vector<int> all;
  for (const std::string& word : values_in(text, where)) {
    const auto n = number_from<int>(word);
    require<UsageError>(n && *n >= 1 && *n <= 65536, "'", word, "' is no number of workers (", where,
                        "): give 1 to 65536, as 2,4,8 or 2..1024");
    all.push_back(*n);
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

/// "10gbit", as a link's rate is written.
dist::LinkSpec rate_in(const std::string& text, const std::string& where) {
  try {
    if (text.find(',') == std::string::npos) return dist::LinkSpec::parse(text + ",0s", where);
  } catch (const UsageError&) {
  }
  refuse(concat("'", text, "' is no rate of a link"), where, "give one from 1kbit to 10000gbit, as 10gbit");
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
  o.batch = log.plan.value("batch", o.batch) * std::max(1, log.run.value("accumulate", 1));
  take_over(o, std::move(replayed), path);
}

/// Takes over what a file of laconic calibrate tells.
void replay_calibration(SimulateOptions& o, const std::string& path) {
  dist::CalibrationFile file = dist::CalibrationFile::read(path);
  if (!file.model.empty()) o.model = file.model, o.classes = file.classes, o.batch = file.batch;
  take_over(o, {dist::slowest(file.ranks), std::move(file.layers)}, path);
}

/// How often each layer has travelled, from a log's last ledger.
std::map<std::string, dist::LayerShare> layer_shares(const std::string& path, const std::string& where) {
  const LogFile log = LogFile::read(path);
  std::map<std::string, dist::LayerShare> shares;
  try {
    for (const nlohmann::json& row : log.ledger.at("parameters")) {
      const double steps = row.at("exchanges"), sent = row.at("times_sent"), came = row.at("times_received");
      if (!(steps > 0 && sent >= 0 && sent <= steps && came >= 0 && came <= steps))
        throw DataError(concat(path, " counts more of a layer's messages than there were steps (", where,
                               "): name a file that --log has written."));
      shares[row.at("parameter")] = {sent / steps, came / steps};
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError(concat(path, " does not tell how often layers were sent (", where,
                           "): train with --sync layerdrop, --ledger and --log."));
  }
  return shares;
}

void add_settings(Settings& s, SimulateOptions& o, std::string& replayed, std::string& calibration) {
  s.group("What is trained", Scope::model);
  s.text("model", "NAME", o.model, "a model of the zoo [" + o.model + "]");
  s.whole_number<int>("classes", "K", o.classes, 1, "outputs [the model's own]", false);
  s.whole_number<int>("batch", "B", o.batch, 1, "samples of a worker");
  s.text("compute", "HOW", o.compute,
         "measured: here, now; gflops:X; or FILE, of laconic bench\nlayers --json [" + o.compute + "]");
  s.whole_number<int>("threads", "T", o.threads, 1, "of a worker, where computing is measured");
  s.value("workers", "N,..", "as 2,4,8, or 2..1024, which doubles [1..64]",
          Settings::into(o.workers, numbers_of_workers));
  s.value("straggle", "SHARE",
          "each step of a worker takes longer by a share, drawn\nexponentially with this mean, as 0.1 [0]",
          [&o](const std::string& text, const std::string& where) { o.straggling = real(text, where, 0, 100, "0.1"); });
  s.value("message-time", "TIME", "of a core, to send or take a message, as 10us [5us]",
          Settings::into(o.message_seconds, seconds_in));
  s.value("sum-rate", "GB/S", "in which a core adds gradients, as 8 [measured here]",
          [&o](const std::string& text, const std::string& where) {
            o.bytes_added_a_second = 1e9 * real(text, where, 1e-6, 1e6, "8");
          });
  s.value("cores", "own|shared", "messages are worked on by a core of their own, or by those\nthat compute [own]",
          [&o](const std::string& text, const std::string& where) {
            o.shares_cores = one_of(text, where, {"own", "shared"}) == "shared";
          });
  s.text("replay", "LOG", replayed,
         "model, batch, computing, cores and network are those of a\ntraining with --plan auto --log LOG");
  s.text("calibration", "FILE", calibration,
         "cores and network are those that laconic calibrate --save\nhas measured, and the model, if it was told one");
  add_exchange_settings(s, o, o.plan, o.overlap, o.codec_feedback);
  Setting& link = *s.find("link");
  link.help =
      "each worker's cable, to a switch that is never busy, as\n10gbit,20us; headers of TCP take 4 % [1gbit,100us]";
  s.group(kNetGroup, Scope::exchange);
  s.value("rate", "RATE", "of the link, in place of the one that --link or the log names,\nas 10gbit",
          Settings::into(o.rate, rate_in));
  s.value("nic", "none|inceptionn",
          "--codec inceptionn runs in INCEPTIONN's network cards, and\ntakes no time of a core [none]",
          [&o](const std::string& text, const std::string& where) {
            o.in_card = one_of(text, where, {"none", "inceptionn"}) == "inceptionn";
          });
  s.group("Parameter servers (--sync ps, layerdrop, slimdp)", Scope::exchange);
  s.value("layer-shares", "LOG",
          "layers travel as often as a training with --sync layerdrop\n--ledger --log LOG has sent them [1 - R]",
          Settings::into(o.layer_shares, layer_shares));
  s.group(kCodecGroup, Scope::exchange);
  s.value("payload-bits", "B",
          "of each value behind the codec, 32 over the ratio of\nlaconic inspect codec [what the codec expects]",
          [&o](const std::string& text, const std::string& where) {
            o.payload_bits = real(text, where, 0, 34, "5.7");
            if (*o.payload_bits == 0) refuse("a codec of no bits sends nothing", where, "give more than 0, as 5.7");
          });
  s.group("Output", Scope::output);
  s.text("sweep", "NAME=LIST", o.sweep,
         "a row for each value of a setting, as density=0.001,0.01;\nsemicolons part values with commas; "
         "workers=2..1024 is\nwhat --workers does");
  s.value("vs", "\"LABEL: OPTIONS\"", "a set: these options behind the others; may be given again",
          [&o](const std::string& text, const std::string&) { o.sets.push_back(text); })
      .takes = Setting::Takes::repeated;
  s.flag("json", o.json, "one object, on the last line");
  s.flag("markdown", o.markdown, "a table for docs");
}

/// A command line that has been read, value by value. Whether they go together is for checked() to say.
struct Words {
  /// throws UsageError for a value that its setting refuses; DataError for a log that cannot be read
  explicit Words(const std::vector<std::string>& words) {
    options.workers = numbers_of_workers("1..64", "`workers`");
    options.link = dist::LinkSpec::parse("1gbit,100us", "`link`");
    std::string replayed, calibration;
    add_settings(settings, options, replayed, calibration);
    CLI::App app(kWhat, "laconic simulate");
    Texts texts;
    laconic::bind(app, settings, texts);  // unqualified, std::bind would match better
    done = parse_tool(app, words).has_value();
    if (done) return;
    const auto given = [&](const char* name) {
      return std::ranges::any_of(texts, [name](const auto& setting) { return setting.first == name; });
    };
    if (given("replay") && given("calibration"))
      refuse("both say what was measured", "`replay` and `calibration`", "leave one of them out");
    for (const auto& [name, text] : texts) {  // the others differ from it
      if (name == "replay") replay(options, text);
      if (name == "calibration") replay_calibration(options, text);
    }
    for (const auto& [name, text] : texts) {
      if (name == "model") options.classes = 0;
      settings.set(name, text);
    }
  }
  Words(const Words&) = delete;  // the settings refer to the options
  Words& operator=(const Words&) = delete;

  SimulateOptions options{};
  Settings settings{};
  bool done = false;  ///< that was all (--help)
};

void check_codec(const SimulateOptions& o) {
  const std::string& codec = o.plan.codec;
  if (const auto refusal = o.method->refuses("codec"); codec != "none" && refusal)
    refuse(refusal->what, "`codec`", refusal->advice);
  require<UsageError>(!o.codec_feedback || codec != "none",
                      "without a codec nothing is lost (`codec-feedback`): add `codec`, or leave it out");
  if (o.payload_bits && codec == "none")
    refuse("without a codec every value has 32 bits", "`payload-bits`", "add `codec`, or leave it out");
  if (!o.in_card) return;
  if (codec.rfind("inceptionn", 0) != 0 || codec.rfind("inceptionn:rel", 0) == 0)
    refuse("INCEPTIONN's card has no other codec than its own", "`nic`", "add `codec` inceptionn:2^-10");
  if (o.codec_feedback) refuse("a card keeps nothing of what it loses", "`codec-feedback`", "leave it out, or `nic`");
  if (o.per_host > 0)
    refuse("what stays on a host passes no network card", "`nic` with `ranks-per-host`", "leave one of them out");
}

SimulateOptions checked(const Words& words) {
  SimulateOptions o = words.options;
  const Settings& settings = words.settings;
  if (settings.given("link") || o.rate) o.own_link = true;
  if (o.rate) o.link->bits_per_second = o.rate->bits_per_second;
  if (o.replayed && settings.given("compute"))
    o.replayed = std::make_shared<SimulateOptions::Replayed>(SimulateOptions::Replayed{o.replayed->group, {}});
  for (const char* name : {"model", "classes", "batch", "threads"})
    if (o.replayed && !o.replayed->times.layers.empty() && settings.given(name))
      refuse(settings.given("replay") ? "computing is that of the log" : "computing is that of the calibration",
             concat("`", name, "`"), "leave it out, or give `compute` too");
  o.make_method(settings);
  dist::require_on_ghosts(*o.method);
  check_codec(o);
  o.network();  // checks them
  const auto found = dist::find_allreduce(o.plan.allreduce);
  require<UsageError>(!found || found->kind.carrier == dist::Carrier::messages, "`allreduce` ", o.plan.allreduce,
                      " is not ours, and nobody here knows what it sends: take one of ours, as ring");
  return o;
}

/// Returns the name of the setting that --sweep names, and its values.
std::pair<std::string, std::vector<std::string>> swept(const Words& common) {
  const std::string& text = common.options.sweep;
  const auto equals = text.find('=');
  require<UsageError>(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), "'", text,
                      "' is no setting with values (`sweep`): give NAME=LIST, as density=0.001,0.01");
  const std::string name = text.substr(0, equals);
  const auto can_be = [](const Setting& s) { return s.scope != Scope::output && s.takes != Setting::Takes::nothing; };
  const Setting* const setting = common.settings.find(name);
  if (setting == nullptr) {
    std::vector<std::string> names;
    for (const Setting& s : common.settings.all())
      if (can_be(s)) names.push_back(s.name);
    refuse_unknown("setting", name, "`sweep`", names);
  }
  if (!can_be(*setting))
    refuse("`" + name + "` has no values to go through", "`sweep`", "take one that has, as density");
  return {name, values_in(text.substr(equals + 1), "`sweep`")};
}

bool gives(const std::vector<std::string>& words, const std::string& option) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == option || word.rfind(option + "=", 0) == 0; });
}

}  // namespace

Simulations simulate_options(const std::vector<std::string>& arguments) {
  const Words common(arguments);
  if (common.done) return {};
  Simulations all;
  const bool sweeps = !common.options.sweep.empty();
  if (sweeps) std::tie(all.axis, all.values) = swept(common);
  std::vector<std::string> sets = common.options.sets;
  if (sets.empty()) sets.emplace_back();
  for (const std::string& set : sets) {
    std::vector<std::string> words = arguments;
    all.sets.emplace_back();
    if (!set.empty()) {
      const auto [label, options] = labelled(set);
      const std::vector<std::string> more = shell_words(options, "--vs");
      if (sweeps && gives(more, "--" + all.axis))
        refuse("the set '" + label + "' gives what is swept", "--" + all.axis, "leave it out of the set");
      for (const char* option : {"--sweep", "--vs", "--help", "--json", "--markdown"})
        if (gives(more, option)) refuse("a set cannot have it", option, "give it beside the sets");
      words.insert(words.end(), more.begin(), more.end());
      all.sets.back().label = label;
    }
    const auto add = [&](const Words& at) {
      const SimulateOptions o = checked(at);
      if (sweeps && all.axis != "workers" && o.workers.size() != 1)
        refuse("a table has one axis, and there are several numbers of workers", "`sweep`",
               "add `workers` with one number, as 16");
      for (const int workers : o.workers) {
        all.sets.back().points.push_back(o);
        all.sets.back().points.back().workers = {workers};
      }
    };
    if (sweeps)
      for (const std::string& value : all.values) {
        std::vector<std::string> here = words;
        here.insert(here.end(), {"--" + all.axis, value});
        add(Words(here));
      }
    else
      add(Words(words));
  }
  if (all.axis == "workers") all.values.clear();  // a set may have its own
  return all;
}

}  // namespace laconic
