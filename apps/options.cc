#include "apps/options.h"

#include <iostream>
#include <limits>
#include <thread>

#include "apps/config_file.h"
#include "apps/device_options.h"
#include "apps/option_family.h"
#include "apps/photo_options.h"
#include "apps/presets.h"
#include "apps/text_options.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

constexpr auto kModelGroup = "Model and data", kTrainGroup = "Training", kNetGroup = "Workers and network",
               kSaveGroup = "Saving", kOutputGroup = "Output";

Every every(const std::string& text, const std::string& option) {
  const bool in_steps = text.size() > 2 && text.compare(text.size() - 2, 2, "it") == 0;
  const auto count = number_from<std::int64_t>(in_steps ? text.substr(0, text.size() - 2) : text);
  if (!count || *count < 1) refuse("'" + text + "' is not a period", option, "give epochs, as 2, or steps, as 200it");
  return {*count, in_steps};
}

Clip clip(const std::string& text, const std::string& option) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const float limit = colon == std::string::npos ? 0 : number_from<float>(text.substr(colon + 1)).value_or(0);
  if ((kind != "norm" && kind != "value") || limit <= 0)
    refuse("'" + text + "' is not a clipping rule", option, "give norm:X or value:X with X above 0, as norm:5");
  return {kind == "norm" ? Clip::Kind::norm : Clip::Kind::value, limit};
}

/// "a, b, c", broken into lines that fit beside the options' names.
std::string wrapped(const std::vector<std::string>& words) {
  std::string text;
  std::size_t line = 0;
  for (const auto& word : words) {
    if (!text.empty()) text += line + word.size() > 48 ? (line = 0, ",\n") : ", ";
    text += word;
    line += word.size() + 2;
  }
  return text;
}

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

const std::vector<OptionFamily>& option_families() {
  static const std::vector<OptionFamily> families{codec_options(), sparse_options(), server_options()};
  return families;
}

const char* version() { return LACONIC_VERSION; }

void add_options(CLI::App& app, TrainOptions& o, const AppDefaults& defaults) {
  const double inf = std::numeric_limits<double>::infinity();
  OptionAdder add(app);

  add.group(kModelGroup);
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  add.values("--preset", "NAME,..", "options that belong together, as defaults for the others:\n" + wrapped(names),
             [&o](const std::string& text, const std::string& option) {
               for (const Preset* preset : presets_named(text, option)) o.presets.push_back(preset->name);
             });
  add.value("--model", "NAME", wrapped(defaults.models) + " [" + o.model + "]",
            [&o, models = defaults.models](const std::string& text, const std::string& option) {
              o.model = one_of(text, option, models, "model");
            });
  add.text("--data", "DIR|FILE|synthetic", o.data,
           std::string(defaults.reads_text ? "a folder with train, valid and test text, or one text\nfile"
                       : defaults.reads_photos
                           ? "a folder with train and val: folders of classes, lists\nof files, or packs; or TRAIN,VAL; or "
                             "one pack"
                           : "where the images are") +
               "; synthetic: made up here\n[" + o.data + "]");
  add.text("--init", "FILE", o.init, "start from these weights (safetensors)");
  if (defaults.reads_text) {
    add_text_options(add, o);
  } else {
    add.flag("--no-shuffle", o.no_shuffle, "read the samples in the order of the file");
    add.flag("--no-augment", o.no_augment, "do not crop and flip images");
    if (defaults.reads_photos) add_photo_options(add, o);
  }
  add.flag("--no-dropout", o.no_dropout, "keep every activation while training");
  const auto offers = [&](bool ModelInfo::*option) {
    return std::any_of(models_of_zoo().begin(), models_of_zoo().end(), [&](const ModelInfo& m) {
      return m.*option && std::find(defaults.models.begin(), defaults.models.end(), m.name) != defaults.models.end();
    });
  };
  if (offers(&ModelInfo::has_v1))
    add.flag("--resnet-v1", o.resnet_v1,
             "resnet50, 101: the stride in the first 1x1 convolution\nof a block, as published, not in its 3x3");
  if (offers(&ModelInfo::has_auxiliary_heads))
    add.flag("--auxiliary-heads", o.auxiliary_heads, "googlenet: losses of inner layers too, while training");

  add.group(kTrainGroup);
  add.whole_number<std::int64_t>("--epochs", "E", o.epochs, 0, "passes over the training set");
  add.value(
      "--steps", "S", "updates since the start of training; instead of --epochs",
      [&o](const std::string& text, const std::string& option) { o.steps = whole<std::int64_t>(text, option, 0); });
  add.whole_number<int>("--batch", "B", o.batch, 1,
                        defaults.reads_text ? "streams of text per worker" : "samples per worker and step");
  add.choice("--optimizer", o.optimizer, {"sgd", "adam", "adamw"}, "update rule");
  add.value("--lr", "X",
            fmt::format("learning rate [{}; 0.001 with adam, adamw]",
                        defaults.options.lr ? fmt::format("{}", *defaults.options.lr) : "by --lr-per-256"),
            [&o, inf](const std::string& text, const std::string& option) {
              o.lr = static_cast<float>(real(text, option, 0, inf, "0.1"));
            });
  add.value("--lr-per-256", "X",
            "the same for 256 samples a step, scaled to those of all\n"
            "workers: --lr X (workers x batch x accumulate) / 256" +
                (defaults.options.lr_per_256 ? fmt::format(" [{}]", *defaults.options.lr_per_256) : std::string()),
            [&o, inf](const std::string& text, const std::string& option) {
              o.lr_per_256 = static_cast<float>(real(text, option, 0, inf, "0.1"));
            });
  add.real_number("--momentum", "X", o.momentum, 0, 1, "0.9", "of sgd's velocity");
  add.flag("--nesterov", o.nesterov, "look ahead along the momentum");
  add.real_number("--weight-decay", "X", o.weight_decay, 0, inf, "5e-4", "pull of the weights to zero");
  add.flag("--no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on biases and normalisation");
  if (!defaults.reads_text)
    add.real_number("--label-smoothing", "X", o.label_smoothing, 0, 1, "0.1", "spread over the other classes");
  add.value("--clip", "norm:X|value:X", "limit the gradient's length, or each of its elements" +
                (o.clip.kind == Clip::Kind::norm ? fmt::format(" [norm:{:g}]", o.clip.limit) : std::string()),
            [&o](const std::string& text, const std::string& option) { o.clip = clip(text, option); });
  add.text("--schedule", "RULE", o.schedule,
           "const, step:EVERY,FACTOR, multistep:A,B,..,FACTOR, exp:F, cosine,\n"
           "plateau:PATIENCE,FACTOR; warmup:W+ in front;\n"
           "in epochs, or in steps as 500it [" +
               o.schedule + "]");
  add.whole_number<int>("--accumulate", "K", o.accumulate, 1, "micro-batches per update");
  CLI::Option* recompute =
      add.flag("--checkpoint-activations", o.checkpoint_activations,
               "keep fewer activations and compute them again in\nbackward: larger batches fit; the same bits");
  if (defaults.reads_text) recompute->group("");  // settle_text_options() says why not
  add.whole_number<std::uint64_t>("--seed", "N", o.seed, 0, "of all random numbers");
  add.choice("--on-nan", o.on_nan, {"stop", "skip"}, "when the loss is not a number");
  add.whole_number<int>("--repeat", "R", o.repeat, 1, "runs with seeds N, N+1, ...");

  add.group(kNetGroup);
  add.value("--workers", "N", "threads that train together [1]; processes: laconic launch",
            [&o](const std::string& text, const std::string& option) { o.workers = whole<int>(text, option, 1); });
  std::vector<std::string> syncs{"none", "allreduce"};
  for (const OptionFamily& family : option_families())
    syncs.insert(syncs.end(), family.syncs.begin(), family.syncs.end());
  add.value("--sync", "NAME", wrapped(syncs) + ":\nhow gradients are joined; none: each worker alone [" + o.sync + "]",
            [&o, syncs](const std::string& text, const std::string& option) { o.sync = one_of(text, option, syncs); });
  add.value("--allreduce", "NAME",
            "how sums travel: ring, butterfly, doubling; by groups of\nG: hierarchical:G (rings in groups and between "
            "them),\n"
            "ring-tree:G (rings in groups, aggregators above),\ntree:G (aggregators only); mpi; nccl (a GPU each);\n"
            "hybrid (butterfly for convolutions and small ones),\nhybrid-printed [ring]",
            [&o](const std::string& text, const std::string&) { dist::set_allreduce(o.plan, text); });
  add.value("--overlap", "none|backward|forward",
            "sums travel after backward, during it, or also\nduring the next forward [forward]",
            [&o](const std::string& text, const std::string&) { o.overlap = dist::overlap_named(text); });
  add.value("--fusion", "none|copy:SIZE|lazy:SIZE", "small neighbours travel together, copied or not\n[lazy:1MiB]",
            [&o](const std::string& text, const std::string&) { dist::set_fusion(o.plan, text); });
  add.value("--chunk", "none|SIZE",
            "larger weights, except of convolutions, travel\nin chunks of rows [4MiB; whole with redsync and\n"
            "its neighbours]",
            [&o](const std::string& text, const std::string&) { dist::set_chunk(o.plan, text); });
  add.text("--plan", "FILE", o.plan_file,
           "what travels how, instead of by these options;\n--dry-run --json writes one");
  add.choice("--reduce", o.reduce, {"mean", "sum"}, "of the workers' gradients");
  add.whole_number<int>("--threads", "T", o.threads, 1, "kernel threads per worker [cores / workers here]", false);
  if (!defaults.reads_text)
    add.whole_number<int>("--data-threads", "D", o.data_threads, 0, "threads per worker that prepare batches");
  add.value(
      "--device", "cpu|cuda[:I]",
      "where the model lives and is computed; cuda: of processes\neach its own GPU, workers of one share cuda:0 [" +
          o.device + "]",
      [&o](const std::string& text, const std::string& option) { o.device = checked_device(text, option); });
  add.choice("--precision", o.precision, {"fp32", "tf32", "bf16"},
             "of products on a GPU; all else is float32, but\nbf16 rounds a convolution's result too");
  add.value("--audit", "[K]", "check every K steps [1] that all workers hold the same bits",
            [&o](const std::string& text, const std::string& option) {
              o.audit = text.empty() ? 1 : whole<std::int64_t>(text, option, 1);
            })
      ->expected(0, 1);
  add.value("--link", "RATE,LATENCY[,JITTER]", "emulate a network between the workers, as 100mbit,1ms",
            [&o](const std::string& text, const std::string& option) { o.link = dist::LinkSpec::parse(text, option); });
  add.values("--link-of", "RANK=RATE,LATENCY", "another link for this worker; may be given again",
             [&o](const std::string& text, const std::string& option) {
               const auto equals = text.find('=');
               const auto rank = number_from<int>(text.substr(0, equals));
               if (equals == std::string::npos || !rank || *rank < 0)
                 refuse("'" + text + "' names no worker", option, "give RANK=RATE,LATENCY, as 2=10mbit,5ms");
               o.link_of[*rank] = dist::LinkSpec::parse(text.substr(equals + 1), option);
             });
  add.real_number("--timeout", "S", o.timeout, 0.001, 1e9, "300", "seconds until a silent worker counts as lost");

  for (const OptionFamily& family : option_families()) family.add(add, o);

  add.group(kSaveGroup);
  add.text("--save", "DIR", o.save, "write weights and a checkpoint there at the end");
  add.flag("--overwrite", o.overwrite, "also if that holds another training's");
  add.value("--save-every", "K[it]", "and every K epochs, or K steps",
            [&o](const std::string& text, const std::string& option) { o.save_every = every(text, option); });
  add.value("--resume", "[PATH]", "go on from this checkpoint, or from the newest in --save",
            [&o](const std::string& text, const std::string&) { o.resume = true, o.resume_path = text; })
      ->expected(0, 1);
  add.flag("--eval-only", o.eval_only, "measure the weights of --init or --resume, and leave");

  add.group(kOutputGroup);
  add.text("--log", "FILE", o.log, "one line of JSON per step");
  add.text("--trace", "FILE", o.trace, "what ran when, for ui.perfetto.dev");
  add.text(
      "--dump-gradients", "DIR", o.dump_gradients,
      "worker 0's own gradients, and residuals that elements\nare chosen from, at steps 1, 10, 100, ...: a file of\n"
      "float32 for each parameter, DIR/step-000100/NAME.f32");
  add.flag("--quiet", o.quiet, "no progress");
  add.flag("--json", o.json, "the result as one JSON object, on the last line");
  add.flag("--dry-run", o.dry_run, "say what would be done, and leave");
  add_config_file(app, kOutputGroup);
  app.set_version_flag("--version", std::string("laconic ") + version())
      ->description("which laconic this is")
      ->group(kOutputGroup);
  app.set_help_flag("-h,--help", "this text")->group(kOutputGroup);
}

namespace {

/// What presets say, as further defaults. `own_model`: --model is given.
void apply_presets(AppDefaults& defaults, const std::vector<std::string>& names, bool own_model) {
  TrainOptions options = defaults.options;
  for (const std::string& name : names) {
    std::vector<std::string> words = preset_named(name, "--preset").words;
    if (words[0] == "--model") {
      if (!own_model && std::find(defaults.models.begin(), defaults.models.end(), words[1]) == defaults.models.end())
        refuse(fmt::format("{} is for {}, which {} does not have", name, words[1], defaults.program), "--preset",
               "name another with --model, or take another program");
      if (own_model) words.erase(words.begin(), words.begin() + 2);
    }
    CLI::App app;
    add_options(app, options, defaults);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  }
  defaults.options = std::move(options);
}

/// What many times the cores cannot bear ends in a crash, or never: it is a slip of the pen.
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
void refuse_idle(const CLI::App& app, const TrainOptions& o) {
  const auto refuse_given = [&](std::initializer_list<const char*> names, const std::string& what,
                                const std::string& advice) {
    for (const char* name : names) {
      const CLI::Option* option = app.get_option_no_throw(name);
      if (option != nullptr && option->count() > 0) refuse(what, name, advice);
    }
  };
  if (o.optimizer != "sgd")
    refuse_given({"--momentum", "--nesterov"}, "--optimizer " + o.optimizer + " has no use for it",
                 "leave it out, or take --optimizer sgd");
  if (o.sync == "none")
    refuse_given({"--allreduce", "--overlap", "--fusion", "--chunk", "--plan", "--reduce", "--audit"},
                 "--sync none has no use for it", "leave it out, or take --sync allreduce");
  if (!o.plan_file.empty())
    refuse_given({"--allreduce", "--fusion", "--chunk", "--codec"}, "a plan says what travels how",
                 "leave it out, or --plan");
  if (o.no_augment) refuse_given({"--color-jitter"}, "--no-augment leaves colours alone", "leave one of the two out");
  if (o.no_dropout) refuse_given({"--dropout"}, "--no-dropout drops nothing", "leave one of the two out");
  if (o.eval_only)
    refuse_given({"--trace", "--dump-gradients", "--save-every"}, "--eval-only makes no step",
                 "leave one of the two out");
}

/// --lr as given, or by the linear scaling rule (Goyal et al. 2017, "Accurate, large minibatch SGD", section 2.1).
void settle_learning_rate(const CLI::App& app, TrainOptions& o, const AppDefaults& defaults) {
  const bool scaled = app.count("--lr-per-256") > 0;
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

/// What was given, and what is left open until all defaults are known. `settle`: they are.
struct Parsed {
  TrainOptions options;
  bool own_model = false;
};

std::optional<Parsed> parse(int argc, const char* const* argv, const AppDefaults& defaults, bool settle) {
  TrainOptions options = defaults.options;
  options.lr.reset();
  CLI::App app(defaults.description, defaults.program);
  app.get_formatter()->column_width(34);
  app.allow_extras();  // refused below, with a suggestion
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_options(app, options, defaults);
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

  const bool own_model = app.get_option("--model")->count() > 0;
  if (!settle) return Parsed{std::move(options), own_model};
  if (app.get_option("--epochs")->count() > 0 && app.get_option("--steps")->count() == 0) options.steps.reset();

  for (const OptionFamily& family : option_families()) family.settle(app, options);
  require_bearable(options);
  refuse_idle(app, options);
  checked_precision(options.precision, options.device, "--precision");
  settle_learning_rate(app, options, defaults);  // now the number of servers is known, and so that of workers
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
  if (defaults.reads_text) settle_text_options(app, options);
  if (defaults.reads_photos) settle_photo_options(app, options);
  return Parsed{std::move(options), own_model};
}

}  // namespace

std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const AppDefaults& defaults) {
  const auto given = parse(argc, argv, defaults, false);
  if (!given) return std::nullopt;
  AppDefaults others = defaults;
  if (defaults.of_model && given->options.model != defaults.options.model) {
    others.options.model = given->options.model;
    others.of_model(others.options);
  }
  apply_presets(others, given->options.presets, given->own_model);
  const auto parsed = parse(argc, argv, others, true);
  return parsed ? std::optional(parsed->options) : std::nullopt;
}

}  // namespace laconic
