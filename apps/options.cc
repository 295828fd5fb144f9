#include "apps/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "apps/command_line.h"
#include "apps/config_file.h"
#include "apps/device_options.h"
#include "apps/photo_options.h"
#include "apps/presets.h"
#include "apps/text_options.h"
#include "compress/codecs.h"

namespace laconic {
namespace {

/// INCEPTIONN's network card knows by it that packets are compressed (its section VI-B).
constexpr int kCodecTypeOfService = 0x28;

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

[[noreturn]] void unknown(const CLI::App& app, const std::string& word, const std::string& where) {
  if (word.rfind('-', 0) != 0)
    refuse("'" + word + "' belongs to no option", where, "options look like --epochs 3; see --help");
  const std::string name = word.substr(0, word.find('='));
  const std::string close = nearest(name, option_names(app));
  refuse("unknown option '" + name + "'", where,
         close.empty() ? "see --help" : "did you mean " + close + "? See --help");
}

/// The option that a message of CLI11 speaks of.
std::string option_in(const std::string& text) {
  const auto at = text.find("--");
  if (at == std::string::npos) return "command line";
  return text.substr(at, text.find_first_of(" :,=", at) - at);
}

}  // namespace

const char* version() { return LACONIC_VERSION; }

namespace {

/// The first method that has such a setting; "" if none has.
std::string method_with(const std::string& setting) {
  for (const std::string& name : dist::methods().names()) {
    Settings own;
    const std::unique_ptr<dist::Method> method = dist::methods().make(name);
    method->settings(own);
    if (own.find(setting) != nullptr) return name;
  }
  return "";
}

/// Makes the method, and refuses what it has no use for.
void settle_method(const Settings& s, TrainOptions& o) {
  const std::shared_ptr<dist::Method> method = dist::methods().make(o.sync);
  o.method = method;
  Settings own;
  method->settings(own);
  for (const auto& [name, text] : o.method_settings)
    if (Setting* const setting = own.find(name)) setting->set(text);
  for (const Setting& setting : s.all()) {
    if (!setting.given || own.find(setting.name) != nullptr) continue;
    if (const std::string other = method_with(setting.name); !other.empty())
      refuse("`sync` " + o.sync + " has no use for it", setting.quoted(), "leave it out, or take `sync` " + other);
    if (setting.name == "codec") continue;  // settle_codec
    if (const auto refusal = o.method->refuses(setting.name)) refuse(refusal->what, setting.quoted(), refusal->advice);
  }
  if (o.method->traits().servers && !o.servers) o.servers = 1;
}

/// Sets defaults by the words of a command line. What is `skipped` has no effect.
void set_defaults(AppDefaults& defaults, const std::vector<std::string>& words, const Skipped& skipped) {
  TrainOptions options = defaults.options;
  Settings settings;
  add_settings(settings, options, defaults);
  for (std::size_t i = 0; i < words.size(); ++i) {
    using Takes = Setting::Takes;
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    Setting* const setting = name.starts_with("--") ? settings.find(name.substr(2)) : nullptr;
    require<UsageError>(setting != nullptr, "'", words[i], "' is no option");
    const bool follows = i + 1 < words.size() && !words[i + 1].starts_with("--");
    std::string value;
    if (equals != name.npos)
      value = words[i].substr(equals + 1);
    else if (setting->takes != Takes::nothing && (follows || setting->takes != Takes::maybe)) {
      require<UsageError>(i + 1 < words.size(), "a value is missing (", name, ")");
      value = words[++i];
    }
    if (!skipped || !skipped(*setting)) setting->set(value);
  }
  defaults.options = std::move(options);
}

/// Takes the words of presets as further defaults. `own_model`: --model is given.
void apply_presets(AppDefaults& defaults, const std::vector<std::string>& names, bool own_model,
                   const Skipped& skipped) {
  for (const std::string& name : names) {
    std::vector<std::string> words = preset_named(name, "--preset").words;
    if (words[0] == "--model") {
      if (!own_model && std::find(defaults.models.begin(), defaults.models.end(), words[1]) == defaults.models.end())
        refuse(fmt::format("{} is for {}, which {} does not have", name, words[1], defaults.program), "--preset",
               "name another with --model, or take another program");
      if (own_model) words.erase(words.begin(), words.begin() + 2);
    }
    set_defaults(defaults, words, skipped);
  }
}

/// Sets what follows from the codec, and refuses what makes no sense with it.
void settle_codec(TrainOptions& o) {
  const bool codec = o.plan.codec != "none";
  if (const auto refusal = o.method->refuses("codec"); codec && refusal)
    refuse(refusal->what, "`codec`", refusal->advice);
  o.codec_feedback |= compress::traits_of(o.plan.codec).remembers;
  if (o.codec_feedback && !codec && o.plan_file.empty() && !o.resume)
    refuse("without a codec nothing is lost", "`codec-feedback`", "add `codec`, or leave it out");
  if (!o.type_of_service && codec) o.type_of_service = kCodecTypeOfService;
  if (o.type_of_service == -1) o.type_of_service.reset();
}

/// Refuses numbers that many times the cores could not bear: the training would crash, or never end.
void require_bearable(const TrainOptions& o) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::string these = fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
  const std::int64_t threads = std::max<std::int64_t>(64, 4 * cores), ranks = std::max<std::int64_t>(64, 64 * cores);
  for (const auto& [name, count] : {std::pair{"--threads", o.threads}, {"--data-threads", o.data_threads}})
    if (count > threads)
      refuse(fmt::format("{} threads are more than {} can use", count, these), name,
             fmt::format("give at most {}", threads));
  if (dist::ranks_under_mpirun() > 0) return;
  const std::int64_t workers = o.workers.value_or(1), servers = o.servers.value_or(0);
  if (workers + servers > ranks)
    refuse(servers == 0 ? fmt::format("{} workers are more than {} can bear in one process", workers, these)
                        : fmt::format("{} workers and servers are more than {} can bear in one process",
                                      workers + servers, these),
           servers > workers ? "--servers" : "--workers", fmt::format("give at most {}", ranks));
}

/// Options that are given, and that others leave without effect.
void refuse_idle(const Settings& settings, const TrainOptions& o) {
  const auto refuse_given = [&](std::initializer_list<const char*> names, const std::string& what,
                                const std::string& advice) {
    for (const char* name : names)
      if (settings.given(name)) refuse(what, std::string("--") + name, advice);
  };
  if (o.optimizer != "sgd")
    refuse_given({"momentum", "nesterov"}, "--optimizer " + o.optimizer + " has no use for it",
                 "leave it out, or take --optimizer sgd");
  if (!o.plan_file.empty())
    refuse_given({"allreduce", "fusion", "chunk", "codec"}, "a plan says what travels how", "leave it out, or --plan");
  if (o.no_augment) refuse_given({"color-jitter"}, "--no-augment leaves colours alone", "leave one of the two out");
  if (o.no_dropout) refuse_given({"dropout"}, "--no-dropout drops nothing", "leave one of the two out");
  if (o.eval_only)
    refuse_given({"trace", "dump-gradients", "save-every"}, "--eval-only makes no step", "leave one of the two out");
}

/// --lr as given, or by the linear scaling rule (Goyal et al. 2017, "Accurate, large minibatch SGD", section 2.1).
void settle_learning_rate(const Settings& settings, TrainOptions& o, const AppDefaults& defaults) {
  const bool scaled = settings.given("lr-per-256");
  if (o.lr && scaled) refuse("the two contradict each other", "--lr and --lr-per-256", "leave one of them out");
  if (o.lr) return;
  if (o.lr_per_256 && (scaled || (o.optimizer == "sgd" && !defaults.options.lr))) {
    const int here = dist::ranks_under_mpirun();
    const int workers = o.workers.value_or(here > 0 ? here - o.servers.value_or(0) : 1);
    o.lr = *o.lr_per_256 * static_cast<float>(workers) * static_cast<float>(o.batch) * static_cast<float>(o.accumulate) /
           256.0f;
    return;
  }
  o.lr = o.optimizer == "sgd" ? *defaults.options.lr : 0.001f;
}

/// Options as they were given.
struct Parsed {
  TrainOptions options;
  bool own_model = false;
};

std::optional<Parsed> parse(int argc, const char* const* argv, const AppDefaults& defaults, bool settle,
                            const Skipped& skipped = nullptr) {
  TrainOptions options = defaults.options;
  options.lr.reset();
  CLI::App app(defaults.description, defaults.program);
  app.get_formatter()->column_width(34);
  app.allow_extras();  // refused below, with a suggestion
  app.allow_config_extras(CLI::config_extras_mode::error);
  Settings settings;
  add_settings(settings, options, defaults);
  bind(app, settings, skipped);
  add_config_file(app, "Output");
  app.set_version_flag("--version", std::string("laconic ") + version())
      ->description("which laconic this is")
      ->group("Output");
  app.set_help_flag("-h,--help", "this text")->group("Output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(app, defaults.footer);
    return std::nullopt;
  } catch (const CLI::Success& done) {
    app.exit(done, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::FileError&) {
    refuse("the file of options could not be read", "--config", "check the path");
  } catch (const CLI::ConfigError& e) {
    const std::string text = e.what();
    unknown(app, "--" + text.substr(text.rfind(' ') + 1), "--config");
  } catch (const CLI::ArgumentMismatch& e) {
    refuse("a value is missing", option_in(e.what()), "give one; see --help");
  } catch (const CLI::ParseError& e) {
    refuse(e.what(), option_in(e.what()), "see --help");
  }
  const auto extras = app.remaining();
  if (!extras.empty()) unknown(app, extras.front(), "command line");

  const bool own_model = settings.given("model");
  if (!settle) return Parsed{std::move(options), own_model};
  if (settings.given("epochs") && !settings.given("steps")) options.steps.reset();
  if (options.alone) options.sync = "none";
  for (const Setting& setting : settings.all())
    if (setting.scope == Scope::model && setting.given && setting.name != "steps" &&
        setting.name != "epochs" && setting.name != "timeout" && setting.name != "alone")
      options.computing += concat(setting.name, "=", setting.given_as, "\n");

  settle_method(settings, options);
  settle_codec(options);
  require_bearable(options);
  refuse_idle(settings, options);
  checked_precision(options.precision, options.device, "--precision");
  settle_learning_rate(settings, options, defaults);  // now the number of servers is known, and so that of workers
  const int servers = options.servers.value_or(0), started = dist::ranks_under_mpirun() - servers;
  options.method->check(facts_of(trainer_options(options), options.workers.value_or(std::max(1, started)), servers));
  if (options.link_of.size() > 0 && !options.link)
    refuse("there is no link to make an exception from", "--link-of", "add --link, as --link 100mbit,1ms");
  if (options.link && dist::ranks_under_mpirun() > 0)
    refuse("a link is emulated between threads only, and these are MPI processes", "--link",
           "use --workers without mpirun, or a real network");
  const int ranks = options.workers.value_or(1) + options.servers.value_or(0);
  if (options.link && ranks == 1)
    refuse("one worker has nobody to talk to", "--link", "add --workers 4");
  for (const auto& [rank, spec] : options.link_of)
    if (rank >= ranks)
      refuse(fmt::format("there is no worker {}", rank), "--link-of", fmt::format("ranks are 0 to {}", ranks - 1));
  if (options.resume && options.resume_path.empty() && options.save.empty())
    refuse("there is no place to resume from", "--resume", "give a checkpoint, or --save DIR to take its newest");
  if (options.resume && !options.init.empty())
    refuse("weights come from a checkpoint or from a file", "--resume and --init", "leave one of them out");
  if (options.save_every && options.save.empty())
    refuse("there is no place to save to", "--save-every", "add --save DIR");
  if (options.overwrite && options.save.empty())
    refuse("there is no place to save to", "--overwrite", "add --save DIR");
  if (options.eval_only && options.init.empty() && !options.resume)
    refuse("there are no weights to measure", "--eval-only", "add --init FILE or --resume PATH");
  if (defaults.reads_text) settle_text_options(settings, options);
  if (defaults.reads_photos) settle_photo_options(settings, options);
  return Parsed{std::move(options), own_model};
}

}  // namespace

TrainerOptions trainer_options(const TrainOptions& o) {
  TrainerOptions t;
  t.epochs = o.epochs;
  t.steps = o.steps;
  t.lr = *o.lr;
  t.optimizer = {.name = o.optimizer,
                 .momentum = o.optimizer == "sgd" ? o.momentum : 0.0,
                 .dampening = 0,
                 .nesterov = o.nesterov,
                 .decay = {.weight_decay = o.weight_decay, .norm_and_bias = !o.no_decay_norm_bias}};
  t.schedule = Schedule::parse(o.schedule);
  t.clip = o.clip;
  t.accumulate = o.accumulate;
  t.seed = o.seed;
  t.dropout = !o.no_dropout;
  t.checkpoint_activations = o.checkpoint_activations;
  t.ledger_every = o.ledger;
  t.dump_gradients = o.dump_gradients;
  t.plan = o.plan;
  t.plan_file = o.plan_file;
  t.codec_feedback = o.codec_feedback;
  if (o.link) {
    t.latency_seconds = std::chrono::duration<double>(o.link->latency).count();
    t.seconds_per_byte = 8.0 / static_cast<double>(o.link->bits_per_second);
  }
  t.overlap = o.overlap;
  t.mean = o.reduce == "mean";
  t.device = device_named(o.device);
  t.skip_nan = o.on_nan == "skip";
  t.audit_every = o.audit.value_or(0);
  t.init = o.init;
  if (!o.eval_only) t.save = o.save;
  t.overwrite = o.overwrite;
  t.save_every = o.save_every;
  if (o.resume) t.resume = o.resume_path.empty() ? o.save : o.resume_path;
  t.resume_if_any = o.resume_path.empty() && !o.eval_only;
  t.told_alike = concat("\neval-only=", o.eval_only, "\ndry-run=", o.dry_run, "\nrepeat=", o.repeat);
  return t;
}

std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const AppDefaults& defaults) try {
  AppDefaults first = defaults;
  set_defaults(first, defaults.words, nullptr);
  const auto given = parse(argc, argv, first, false);
  if (!given) return std::nullopt;
  AppDefaults others = defaults;
  if (defaults.of_model && given->options.model != defaults.options.model) {
    others.options.model = given->options.model;
    others.of_model(others.options);
  }
  Skipped skipped;
  if (given->options.alone)
    skipped = [](const Setting& s) {
      const bool told = s.name == "log" || s.name == "quiet" || s.name == "json" || s.name == "dry-run";
      return s.scope == Scope::exchange || (s.scope == Scope::output && !told);
    };
  set_defaults(others, defaults.words, skipped);
  apply_presets(others, given->options.presets, given->own_model, skipped);
  const auto parsed = parse(argc, argv, others, true, skipped);
  return parsed ? std::optional(parsed->options) : std::nullopt;
} catch (const UsageError& e) {
  throw UsageError(Settings::as_options(e.what()));
}

}  // namespace laconic
