#include "apps/training/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <tuple>
#include <utility>

#include "apps/command_line.h"
#include "apps/training/device_options.h"
#include "apps/training/exchange_settings.h"
#include "apps/common/text.h"
#include "apps/common/version.h"
#include "core/base/processor.h"
#include "compress/codecs.h"
#include "data/image_dataset.h"

namespace laconic {
namespace {

/// INCEPTIONN's network card knows by it that packets are compressed (its section VI-B).
constexpr int kCodecTypeOfService = 0x28;

[[noreturn]] void unknown(const CLI::App& app, const std::string& word, const std::string& where) {
  if (word.rfind('-', 0) != 0)
    refuse("'" + word + "' belongs to no option", where, "options look like --epochs 3; see --help");
  refuse_option(app, word, where);
}

/// The option that a message of CLI11 speaks of.
std::string option_in(const std::string& text) {
  const auto at = text.find("--");
  if (at == std::string::npos) return "command line";
  return text.substr(at, text.find_first_of(" :,=", at) - at);
}

/// Returns what words of a command line give; nothing if that was all (--help and --version print and are done).
std::optional<Texts> texts_in(std::vector<std::string> words, const Settings& settings, const Program& program) {
  CLI::App app(program.summary, program.name);
  format_help(app, 34);
  app.allow_extras();  // refused below, with a suggestion
  app.allow_config_extras(CLI::config_extras_mode::error);
  Texts texts;
  bind(app, settings, texts);
  add_config_file(app, "Output");
  app.set_version_flag("--version", version_text())->description("which laconic this is")->group("Output");
  app.set_help_flag("-h,--help", "this text")->group("Output");
  // Not left to CLI11, some versions of which read both files before they count them.
  const auto names_a_file = [](const std::string& word) { return word == "--config" || word.starts_with("--config="); };
  if (std::count_if(words.begin(), words.end(), names_a_file) > 1)
    refuse("there are two files of options", "--config", "give one");
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(app, program.examples);
    return std::nullopt;
  } catch (const CLI::Success& done) {
    app.exit(done, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::FileError&) {
    refuse(app.get_option("--config")->as<std::string>() + " could not be read", "--config", "check the path");
  } catch (const CLI::ConfigError& e) {
    const std::string text = e.what(), name = text.substr(text.rfind(' ') + 1);
    if (const auto dot = name.find('.'); dot != std::string::npos)
      refuse("options have no sections, as [" + name.substr(0, dot) + "]", "--config", "leave that line out");
    unknown(app, "--" + name, "--config");
  } catch (const CLI::ArgumentMismatch& e) {
    refuse("a value is missing", option_in(e.what()), "give one; see --help");
  } catch (const CLI::ParseError& e) {
    refuse(e.what(), option_in(e.what()), "see --help");
  }
  const auto extras = app.remaining();
  if (!extras.empty()) unknown(app, extras.front(), "command line");
  return texts;
}

/// Whether --compute-only leaves the setting its effect: not that of the exchange, nor of outputs other than a log.
bool has_effect_on_computing(const Setting& s) {
  return s.scope == Scope::model || (s.scope == Scope::output &&
                                     (s.name == "log" || s.name == "quiet" || s.name == "json" || s.name == "dry-run"));
}

/// Sets what texts give, but for what has no effect.
void set_all(Settings& settings, const Texts& texts, bool compute_only) {
  for (const auto& [name, text] : texts)
    if (!compute_only || has_effect_on_computing(*settings.find(name))) settings.set(name, text);
}

/// Takes words of a command line as defaults.
void set_defaults(TrainOptions& options, const Program& program, const std::vector<std::string>& words,
                  bool compute_only) {
  Settings settings;
  add_settings(settings, options, program);
  set_all(settings, *texts_in(words, settings, program), compute_only);
}

/// What the options of a program start from when it trains this model; "": its own one.
TrainOptions defaults_of(const Program& program, const std::string& model, bool compute_only) {
  TrainOptions o;
  o.model = program.task ? program.name : program.models.at(0);
  if (program.reads == Program::Reads::images) o.trainer.epochs = 10, o.batch = 32, o.lr = 0.1f;
  if (program.reads == Program::Reads::images && !program.task) o.data = image_dataset(program.images).folder;
  set_defaults(o, program, shell_words(program.options, "options of " + program.name), compute_only);
  if (!model.empty()) o.model = model;
  if (program.of_model) program.of_model(o);
  return o;
}

/// Returns the model that presets are for; `otherwise` if they name none.
std::string model_of_presets(const std::vector<const Preset*>& presets, const Program& program, std::string otherwise) {
  const auto has = [&](const std::string& model) {
    return std::ranges::find(program.models, model) != program.models.end();
  };
  std::string model = std::move(otherwise);
  for (const Preset* preset : presets) {
    if (preset->words[0] != "--model") continue;
    model = has(preset->words[1]) ? preset->words[1] : preset->small;
    if (!has(model))
      refuse(fmt::format("{} is for {}, which {} does not have", preset->name, preset->words[1], program.name),
             "--preset", "name another with --model, or take another program");
  }
  return model;
}

/// Takes the words of presets as further defaults, but for the model.
void apply_presets(TrainOptions& options, const Program& program, const std::vector<const Preset*>& presets,
                   bool compute_only) {
  for (const Preset* preset : presets) {
    const std::size_t first = preset->words[0] == "--model" ? 2 : 0;
    set_defaults(options, program, {preset->words.begin() + first, preset->words.end()}, compute_only);
  }
}

/// Sets what follows from the codec, and refuses what makes no sense with it.
void settle_codec(TrainOptions& o) {
  const bool codec = o.trainer.plan.codec != "none";
  if (const auto refusal = o.method->refuses("codec"); codec && refusal)
    refuse(refusal->what, "`codec`", refusal->advice);
  o.trainer.codec_feedback |= compress::traits_of(o.trainer.plan.codec).remembers;
  if (o.trainer.codec_feedback && !codec && o.trainer.plan_file.empty() && !o.resume)
    refuse("without a codec nothing is lost", "`codec-feedback`", "add `codec`, or leave it out");
  if (!o.type_of_service && codec) o.type_of_service = kCodecTypeOfService;
  if (o.type_of_service == -1) o.type_of_service.reset();
}

/// Refuses numbers that many times the cores could not bear: the training would crash, or never end.
void require_bearable(const TrainOptions& o) {
  const std::int64_t cores = cpu::available_cores();
  const std::string these = plural(cores, "core");
  const std::int64_t threads = std::max<std::int64_t>(64, 4 * cores), ranks = std::max<std::int64_t>(64, 64 * cores);
  for (const auto& [name, count] : {std::pair{"--threads", o.threads}, {"--data-threads", o.images.data_threads}})
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
  if (!optimizer_kind(o.trainer.optimizer.name).has_momentum)
    refuse_given({"momentum", "nesterov"}, "--optimizer " + o.trainer.optimizer.name + " has no use for it",
                 "leave it out, or take --optimizer sgd");
  if (!optimizer_kind(o.trainer.optimizer.name).has_betas)
    refuse_given({"betas"}, "--optimizer " + o.trainer.optimizer.name + " has no use for them",
                 "leave them out, or take --optimizer adam");
  if (!o.trainer.plan_file.empty())
    refuse_given({"allreduce", "fusion", "chunk", "codec"}, "a plan says what travels how", "leave it out, or --plan");
  if (o.trainer.plan_file != kAutomatic)
    refuse_given({"allow"}, "only --plan auto chooses", "leave it out, or add --plan auto");
  if (o.trainer.plan_file != kAutomatic && (!o.method->traits().asks_network || o.link))
    refuse_given({"calibration"}, "only --plan auto goes by what the network is like",
                 "leave it out, or add --plan auto");
  if (o.no_augment) refuse_given({"color-jitter"}, "--no-augment leaves colours alone", "leave one of the two out");
  if (!o.trainer.dropout) refuse_given({"dropout"}, "--no-dropout drops nothing", "leave one of the two out");
  if (o.eval_only)
    refuse_given({"trace", "trace-steps", "report", "live", "tensorboard", "dump-gradients", "save-every"},
                 "--eval-only makes no step", "leave one of the two out");
  if (o.report.empty()) refuse_given({"live"}, "there is no page to write while it trains", "add --report FILE.html");
  if (!o.predict.empty())
    refuse_given({"eval-only", "log", "trace", "report", "live", "tensorboard", "dump-gradients", "save-every",
                  "repeat", "dry-run", "link"},
                 "--predict trains nothing", "leave one of the two out");
  if (o.type_of_service && dist::ranks_under_mpirun() == 0)
    refuse_given({"tos"}, "messages between threads are no packets",
                 "start processes with `laconic launch`, or leave it out");
}

/// --lr as given, or by the linear scaling rule (Goyal et al. 2017, "Accurate, large minibatch SGD", section 2.1).
void settle_learning_rate(const Settings& settings, TrainOptions& o) {
  const bool given = settings.given("lr"), scaled = settings.given("lr-per-256");
  if (given && scaled) refuse("the two contradict each other", "--lr and --lr-per-256", "leave one of them out");
  const std::optional<double> own = optimizer_kind(o.trainer.optimizer.name).lr;
  if (!given && o.lr_per_256 && (scaled || (!own && !o.lr))) {
    const int here = dist::ranks_under_mpirun();
    const int workers = o.workers.value_or(here > 0 ? here - o.servers.value_or(0) : 1);
    o.lr = *o.lr_per_256 * static_cast<float>(workers) * static_cast<float>(o.batch) *
           static_cast<float>(o.trainer.accumulate) / 256.0f;
    o.trainer.lr_rule = concat(*o.lr_per_256, " per 256 samples");
  } else if (!given && own) {
    o.lr = static_cast<float>(*own);
  } else if (!o.lr) {
    refuse(o.trainer.optimizer.name + " has no rate of its own here", "--lr", "give one, as --lr 0.1");
  }
}

/// Refuses two outputs with one path: the later would be written over the earlier.
void refuse_one_path_for_two(const TrainOptions& o) {
  std::map<std::filesystem::path, const char*> written;
  for (const auto& [path, name] :
       {std::pair{&o.log, "--log"}, {&o.trace, "--trace"}, {&o.report, "--report"}, {&o.export_path, "--export"}}) {
    std::error_code error;
    const auto where = std::filesystem::weakly_canonical(std::filesystem::absolute(*path, error), error);
    if (path->empty() || path->starts_with("/dev/") || error) continue;
    if (const auto [other, is_new] = written.emplace(where, name); !is_new)
      refuse("two outputs would be written to " + *path, concat(other->second, " and ", name),
             "give each its own file");
  }
}

void settle_texts(const Settings& settings, const TrainOptions& o, bool gpt) {
  if (!gpt && settings.given("tied") && settings.given("untied"))
    refuse("the two contradict each other", "--tied and --untied", "leave one of them out");
  if (o.trainer.checkpoint_activations && !gpt)
    refuse("a language model has no segments to compute again: its step is one LSTM's and the logits, which are kept",
           "--checkpoint-activations", "less --bptt or --batch takes less memory");
  for (const char* name : {"temperature", "prompt"})
    if (settings.given(name) && o.generate.words == 0)
      refuse("nothing is to be written", std::string("--") + name, "add --generate 200");
  const std::filesystem::path folder = std::filesystem::path(o.export_path).parent_path();
  if (!o.export_path.empty() && !folder.empty() && !std::filesystem::is_directory(folder))
    refuse("there is no folder " + folder.string(), "--export", "make it, or name another file");
}

/// Sets what follows from what was given, and refuses what makes no sense together.
void settle(const Settings& settings, TrainOptions& o, const Program& program) {
  if (settings.given("epochs") && !settings.given("steps")) o.trainer.steps.reset();
  if (o.compute_only) o.sync = "none";
  if (std::error_code none; std::filesystem::is_directory(o.export_path, none))
    o.export_path = (std::filesystem::path(o.export_path) / "model.safetensors").string();
  o.model_given = settings.given("model");
  if (const auto alias = program.aliases.find(o.model); alias != program.aliases.end()) o.model = alias->second;
  for (const Setting& setting : settings.all())
    if (setting.scope == Scope::model && setting.given && setting.name != "steps" && setting.name != "epochs" &&
        setting.name != "timeout" && setting.name != "compute-only" && setting.name != "alone")
      o.computing += concat(setting.name, "=", setting.given_as, "\n");

  o.make_method(settings);
  settle_codec(o);
  require_bearable(o);
  refuse_idle(settings, o);
  refuse_one_path_for_two(o);
  checked_precision(o.precision, o.device, "--precision");
  settle_learning_rate(settings, o);  // now the number of servers is known, and so that of workers
  const int servers = o.servers.value_or(0), started = dist::ranks_under_mpirun() - servers;
  const dist::TrainingFacts facts = facts_of(trainer_options(o), o.workers.value_or(std::max(1, started)), servers);
  o.method->check(facts), o.trainer.allowed.check(facts);
  if (const Setting* link = settings.find("link"); link && link->given_as == "none")
    o.link_of.clear(), o.per_host = 0, o.link_between.reset();
  if (o.link_of.size() > 0 && !o.link)
    refuse("there is no link to make an exception from", "--link-of", "add --link, as --link 100mbit,1ms");
  if ((o.per_host > 0 || o.link_between) && !o.link)
    refuse("no network is emulated inside the hosts", "--ranks-per-host and --link-between",
           "add --link, as --link 100gbit,2us");
  if (o.link) o.network();  // checks them
  if (o.link && dist::ranks_under_mpirun() > 0)
    refuse("a link is emulated between threads only, and these are MPI processes", "--link",
           "use --workers without mpirun, or a real network");
  const int ranks = o.workers.value_or(1) + servers;
  if (o.link && ranks == 1) refuse("one worker has nobody to talk to", "--link", "add --workers 4");
  for (const auto& [rank, spec] : o.link_of)
    if (rank >= ranks)
      refuse(fmt::format("there is no worker {}", rank), "--link-of", fmt::format("ranks are 0 to {}", ranks - 1));
  const TrainerOptions& t = o.trainer;
  if (t.trace_steps && o.trace.empty()) refuse("nothing is traced", "--trace-steps", "add --trace FILE");
  if (o.resume && o.resume_path.empty() && t.save.empty())
    refuse("there is no place to resume from", "--resume", "give a checkpoint, or --save DIR to take its newest");
  if (t.new_head && t.init.empty())
    refuse("there are no weights to take the other layers from", "--new-head", "add --init FILE");
  if (t.new_head && (o.eval_only || !o.predict.empty()))
    refuse("a head that has learned nothing says nothing", "--new-head", "train first, or leave it out");
  if (o.resume && !t.init.empty())
    refuse("weights come from a checkpoint or from a file", "--resume and --init", "leave one of them out");
  for (const auto& [needs, name] : {std::pair{t.save_every.has_value(), "--save-every"},
                                    {t.overwrite, "--overwrite"},
                                    {t.keep != TrainerOptions().keep, "--keep"}})
    if (needs && t.save.empty()) refuse("there is no place to save to", name, "add --save DIR");
  for (const auto& [needs, name, what] :
       {std::tuple{o.eval_only, "--eval-only", "measure"}, {!o.predict.empty(), "--predict", "predict by"}})
    if (needs && t.init.empty() && !o.resume)
      refuse(concat("there are no weights to ", what), name, "add --init FILE or --resume PATH");
  if (!o.predict.empty() && dist::ranks_under_mpirun() > 1)
    refuse("one process says it all", "--predict", "start the program without `laconic launch` or mpirun");
  if (program.reads == Program::Reads::images && !o.labels.empty() && o.predict.empty())
    refuse("names are asked for in predictions only", "--labels", "add --predict IMAGE, or leave it out");
  const bool gpt = program.reads == Program::Reads::blocks;
  if ((gpt || program.reads == Program::Reads::text) && !program.task) settle_texts(settings, o, gpt);
}

}  // namespace

TrainerOptions trainer_options(const TrainOptions& o) {
  TrainerOptions t = o.trainer;
  t.model_name = o.model, t.own_settings = o.own_settings;
  t.lr = *o.lr;
  t.optimizer.momentum = optimizer_kind(t.optimizer.name).has_momentum ? o.momentum : 0.0;
  t.optimizer.decay.weight_decay = o.weight_decay;
  if (o.link) {
    t.latency_seconds = std::chrono::duration<double>(o.slower_link().latency).count();
    t.seconds_per_byte = 8.0 / static_cast<double>(o.slower_link().bits_per_second);
  }
  t.device = device_named(o.device);
  if (o.resume) t.resume = o.resume_path.empty() ? t.save : o.resume_path;
  t.resume_if_any = o.resume_path.empty() && !o.eval_only;
  if (o.eval_only) t.save.clear();
  t.told_alike = concat("\neval-only=", o.eval_only, "\ndry-run=", o.dry_run, "\nrepeat=", o.repeat);
  return t;
}

GivenOptions::GivenOptions(const std::vector<std::string>& words) {
  TrainOptions unused;
  Settings settings;
  add_settings(settings, unused, mnist_program());
  for (const bool with_file : {true, false}) {
    CLI::App app;
    app.set_help_flag();
    app.allow_extras();
    bind(app, std::as_const(settings), texts_);
    if (with_file) add_config_file(app, "Output");
    app.allow_config_extras(CLI::config_extras_mode::ignore_all);
    try {
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
      return;
    } catch (const CLI::Error&) {
    } catch (const UsageError&) {
    }
    texts_.clear();
  }
}

std::optional<std::string> GivenOptions::value(const std::string& name) const {
  const auto last = std::find_if(texts_.rbegin(), texts_.rend(), [&](const auto& text) { return text.first == name; });
  return last == texts_.rend() ? std::nullopt : std::optional(last->second);
}

std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const Program& program) try {
  TrainOptions first = defaults_of(program, "", false);
  Settings asked;
  add_settings(asked, first, program);
  const std::optional<Texts> given = texts_in({argv + 1, argv + argc}, asked, program);
  if (!given) return std::nullopt;
  set_all(asked, *given, false);
  if (first.alone) dist::leave_world();
  if (first.compute_only)
    for (const char* name : {"eval-only", "resume", "predict"})
      if (asked.given(name))
        refuse("--compute-only times a training from its beginning", std::string("--") + name,
               "leave one of the two out");
  // Now the model, the presets and --compute-only are known, and with them what the other options start from.
  const std::string model = asked.given("model") ? first.model : model_of_presets(first.presets, program, first.model);
  TrainOptions options = defaults_of(program, model, first.compute_only);
  options.command = shell_line({argv, argv + argc});
  apply_presets(options, program, first.presets, first.compute_only);
  Settings settings;
  add_settings(settings, options, program);
  set_all(settings, *given, first.compute_only);
  if (program.settings) {
    Settings own;
    program.settings(own);
    options.own_settings = own.fingerprint();
  }
  settle(settings, options, program);
  return options;
} catch (const UsageError& e) {
  throw UsageError(Settings::as_options(e.what()));
}

}  // namespace laconic
