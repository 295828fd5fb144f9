#include "apps/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <set>
#include <thread>

#include "apps/command_line.h"
#include "apps/config_file.h"
#include "apps/device_options.h"
#include "apps/photo_options.h"
#include "apps/presets.h"
#include "apps/text_options.h"
#include "compress/codecs.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

constexpr auto kModelGroup = "Model and data", kTrainGroup = "Training", kNetGroup = "Workers and network",
               kSaveGroup = "Saving", kOutputGroup = "Output";

Every every(const std::string& text, const std::string& where) {
  const bool in_steps = text.size() > 2 && text.compare(text.size() - 2, 2, "it") == 0;
  const auto count = number_from<std::int64_t>(in_steps ? text.substr(0, text.size() - 2) : text);
  if (!count || *count < 1) refuse("'" + text + "' is not a period", where, "give epochs, as 2, or steps, as 200it");
  return {*count, in_steps};
}

Clip clip(const std::string& text, const std::string& where) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const float limit = colon == std::string::npos ? 0 : number_from<float>(text.substr(colon + 1)).value_or(0);
  if ((kind != "norm" && kind != "value") || limit <= 0)
    refuse("'" + text + "' is not a clipping rule", where, "give norm:X or value:X with X above 0, as norm:5");
  return {kind == "norm" ? Clip::Kind::norm : Clip::Kind::value, limit};
}

/// What INCEPTIONN's network card knows packets to be compressed by (its section VI-B).
constexpr int kCodecTypeOfService = 0x28;

/// 0 to 255, also as 0x28; none is -1.
int type_of_service(const std::string& text, const std::string& option) {
  if (text == "none") return -1;
  const bool hex = text.rfind("0x", 0) == 0;
  int value = -1;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  if (result.ec != std::errc() || result.ptr != end || value < 0 || value > 255)
    refuse("'" + text + "' is no type of service", option, "give a byte, as 0x28, or none");
  return value;
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

const char* version() { return LACONIC_VERSION; }

namespace {

/// What can be set of any method, for the one that `sync` will name. What several have under one name is one setting.
void add_method_settings(Settings& s, TrainOptions& o) {
  std::set<std::string> known;
  for (const std::string& name : dist::methods().names()) {
    const std::unique_ptr<dist::Method> method = dist::methods().make(name);
    Settings own;
    method->settings(own);
    for (const Setting& setting : own.all()) {
      if (!known.insert(setting.name).second) continue;
      s.group(setting.group.empty() ? name : setting.group, Scope::exchange);
      Setting& option = s.value(setting.name, setting.type, setting.help,
                                [&o, name = setting.name](const std::string& text, const std::string&) {
                                  o.method_settings.emplace_back(name, text);
                                });
      option.takes = setting.takes, option.hidden = setting.hidden;
    }
  }
}

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

}  // namespace

void add_settings(Settings& s, TrainOptions& o, const AppDefaults& defaults) {
  const double inf = std::numeric_limits<double>::infinity();

  s.group(kModelGroup, Scope::model);
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  s.value("preset", "NAME,..", "options that belong together, as defaults for the others:\n" + wrapped(names),
          [&o](const std::string& text, const std::string& where) {
            for (const Preset* preset : presets_named(text, where)) o.presets.push_back(preset->name);
          })
      .takes = Setting::Takes::repeated;
  s.value("model", "NAME", wrapped(defaults.models) + " [" + o.model + "]",
          [&o, models = defaults.models](const std::string& text, const std::string& where) {
            o.model = one_of(text, where, models, "model");
          });
  s.text(
      "data", "DIR|FILE|synthetic", o.data,
      std::string(defaults.reads_text ? "a folder with train, valid and test text, or one text\nfile"
                  : defaults.reads_photos
                      ? "a folder with train and val: folders of classes, lists\nof files, or packs; or TRAIN,VAL; or "
                        "one pack"
                      : "where the images are") +
          "; synthetic: made up here\n[" + o.data + "]");
  s.text("init", "FILE", o.init, "start from these weights (safetensors)");
  if (defaults.reads_text) {
    add_text_options(s, o);
  } else {
    s.flag("no-shuffle", o.no_shuffle, "read the samples in the order of the file");
    s.flag("no-augment", o.no_augment, "do not crop and flip images");
    if (defaults.reads_photos) add_photo_options(s, o);
  }
  s.flag("no-dropout", o.no_dropout, "keep every activation while training");
  const auto offers = [&](bool ModelInfo::*option) {
    return std::any_of(models_of_zoo().begin(), models_of_zoo().end(), [&](const ModelInfo& m) {
      return m.*option && std::find(defaults.models.begin(), defaults.models.end(), m.name) != defaults.models.end();
    });
  };
  if (offers(&ModelInfo::has_v1))
    s.flag("resnet-v1", o.resnet_v1,
           "resnet50, 101: the stride in the first 1x1 convolution\nof a block, as published, not in its 3x3");
  if (offers(&ModelInfo::has_auxiliary_heads))
    s.flag("auxiliary-heads", o.auxiliary_heads, "googlenet: losses of inner layers too, while training");

  s.group(kTrainGroup, Scope::model);
  s.whole_number<std::int64_t>("epochs", "E", o.epochs, 0, "passes over the training set");
  s.value("steps", "S", "updates since the start of training; instead of --epochs",
          [&o](const std::string& text, const std::string& where) { o.steps = whole<std::int64_t>(text, where, 0); });
  s.whole_number<int>("batch", "B", o.batch, 1,
                      defaults.reads_text ? "streams of text per worker" : "samples per worker and step");
  s.choice("optimizer", o.optimizer, {"sgd", "adam", "adamw"}, "update rule");
  s.value("lr", "X",
          fmt::format("learning rate [{}; 0.001 with adam, adamw]",
                      defaults.options.lr ? fmt::format("{}", *defaults.options.lr) : "by --lr-per-256"),
          [&o, inf](const std::string& text, const std::string& where) {
            o.lr = static_cast<float>(real(text, where, 0, inf, "0.1"));
          });
  s.value("lr-per-256", "X",
          "the same for 256 samples a step, scaled to those of all\n"
          "workers: --lr X (workers x batch x accumulate) / 256" +
              (defaults.options.lr_per_256 ? fmt::format(" [{}]", *defaults.options.lr_per_256) : std::string()),
          [&o, inf](const std::string& text, const std::string& where) {
            o.lr_per_256 = static_cast<float>(real(text, where, 0, inf, "0.1"));
          });
  s.real_number("momentum", "X", o.momentum, 0, 1, "0.9", "of sgd's velocity");
  s.flag("nesterov", o.nesterov, "look ahead along the momentum");
  s.real_number("weight-decay", "X", o.weight_decay, 0, inf, "5e-4", "pull of the weights to zero");
  s.flag("no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on biases and normalisation");
  if (!defaults.reads_text)
    s.real_number("label-smoothing", "X", o.label_smoothing, 0, 1, "0.1", "spread over the other classes");
  s.value("clip", "norm:X|value:X",
          "limit the gradient's length, or each of its elements" +
              (o.clip.kind == Clip::Kind::norm ? fmt::format(" [norm:{:g}]", o.clip.limit) : std::string()),
          [&o](const std::string& text, const std::string& where) { o.clip = clip(text, where); });
  s.text("schedule", "RULE", o.schedule,
         "const, step:EVERY,FACTOR, multistep:A,B,..,FACTOR, exp:F, cosine,\n"
         "plateau:PATIENCE,FACTOR; warmup:W+ in front;\n"
         "in epochs, or in steps as 500it [" +
             o.schedule + "]");
  s.whole_number<int>("accumulate", "K", o.accumulate, 1, "micro-batches per update");
  s.flag("checkpoint-activations", o.checkpoint_activations,
         "keep fewer activations and compute them again in\nbackward: larger batches fit; the same bits")
      .hidden = defaults.reads_text;  // settle_text_options() says why not
  s.whole_number<std::uint64_t>("seed", "N", o.seed, 0, "of all random numbers");
  s.choice("on-nan", o.on_nan, {"stop", "skip"}, "when the loss is not a number");
  s.whole_number<int>("repeat", "R", o.repeat, 1, "runs with seeds N, N+1, ...");

  s.group(kNetGroup, Scope::model);
  s.value("workers", "N", "threads that train together [1]; processes: laconic launch",
          [&o](const std::string& text, const std::string& where) { o.workers = whole<int>(text, where, 1); });
  s.flag("alone", o.alone,
         "what computing takes alone: each worker by itself, and\nnothing kept but a log; options of the exchange have "
         "no\neffect");
  s.group(kNetGroup, Scope::exchange);
  const std::vector<std::string> syncs = dist::methods().names();
  s.value("sync", "NAME", wrapped(syncs) + ":\nhow gradients are joined; none: each worker alone [" + o.sync + "]",
          [&o, syncs](const std::string& text, const std::string& where) { o.sync = one_of(text, where, syncs); });
  s.value("allreduce", "NAME",
          "how sums travel: ring, butterfly, doubling; by groups of\nG: hierarchical:G (rings in groups and between "
          "them),\n"
          "ring-tree:G (rings in groups, aggregators above),\ntree:G (aggregators only); mpi; nccl (a GPU each);\n"
          "hybrid (butterfly for convolutions and small ones),\nhybrid-printed [ring]",
          [&o](const std::string& text, const std::string&) { dist::set_allreduce(o.plan, text); });
  s.value("overlap", "none|backward|forward",
          "sums travel after backward, during it, or also\nduring the next forward [forward]",
          [&o](const std::string& text, const std::string&) { o.overlap = dist::overlap_named(text); });
  s.value("fusion", "none|copy:SIZE|lazy:SIZE", "small neighbours travel together, copied or not\n[lazy:1MiB]",
          [&o](const std::string& text, const std::string&) { dist::set_fusion(o.plan, text); });
  s.value("chunk", "none|SIZE",
          "larger weights, except of convolutions, travel\nin chunks of rows [4MiB; whole with redsync and\n"
          "its neighbours]",
          [&o](const std::string& text, const std::string&) { dist::set_chunk(o.plan, text); });
  s.text("plan", "FILE", o.plan_file, "what travels how, instead of by these options;\n--dry-run --json writes one");
  s.choice("reduce", o.reduce, {"mean", "sum"}, "of the workers' gradients");
  s.group(kNetGroup, Scope::model);
  s.whole_number<int>("threads", "T", o.threads, 1, "kernel threads per worker [cores / workers here]", false);
  if (!defaults.reads_text)
    s.whole_number<int>("data-threads", "D", o.data_threads, 0, "threads per worker that prepare batches");
  s.value("device", "cpu|cuda[:I]",
          "where the model lives and is computed; cuda: of processes\neach its own GPU, workers of one share cuda:0 [" +
              o.device + "]",
          [&o](const std::string& text, const std::string& where) { o.device = checked_device(text, where); });
  s.choice("precision", o.precision, {"fp32", "tf32", "bf16"},
           "of products on a GPU; all else is float32, but\nbf16 rounds a convolution's result too");
  s.group(kNetGroup, Scope::exchange);
  s.value("audit", "[K]", "check every K steps [1] that all workers hold the same bits",
          [&o](const std::string& text, const std::string& where) {
            o.audit = text.empty() ? 1 : whole<std::int64_t>(text, where, 1);
          })
      .takes = Setting::Takes::maybe;
  s.value("ledger", "[K]",
          "where the bytes of each layer go, measured every K\n"
          "steps [100], as a table at the end and in --log, --json",
          [&o](const std::string& text, const std::string& where) {
            o.ledger = text.empty() ? 100 : whole<std::int64_t>(text, where, 1);
          })
      .takes = Setting::Takes::maybe;
  s.value("link", "RATE,LATENCY[,JITTER]", "emulate a network between the workers, as 100mbit,1ms",
          [&o](const std::string& text, const std::string& where) { o.link = dist::LinkSpec::parse(text, where); });
  s.value("link-of", "RANK=RATE,LATENCY", "another link for this worker; may be given again",
          [&o](const std::string& text, const std::string& where) {
            const auto equals = text.find('=');
            const auto rank = number_from<int>(text.substr(0, equals));
            if (equals == std::string::npos || !rank || *rank < 0)
              refuse("'" + text + "' names no worker", where, "give RANK=RATE,LATENCY, as 2=10mbit,5ms");
            o.link_of[*rank] = dist::LinkSpec::parse(text.substr(equals + 1), where);
          })
      .takes = Setting::Takes::repeated;
  s.group(kNetGroup, Scope::model);
  s.real_number("timeout", "S", o.timeout, 0.001, 1e9, "300", "seconds until a silent worker counts as lost");

  s.group("Codecs (--sync allreduce, ps, layerdrop, slimdp)", Scope::exchange);
  std::vector<std::string> codecs{"none"};
  for (const compress::CodecKind& kind : compress::codecs()) codecs.push_back(kind.form);
  s.value(
      "codec", "NAME",
      "what sums pass through on every hop, or what goes up to\nservers and comes down: " + wrapped(codecs) +
              "\n(BITS of trunc are cut off, 2^E of inceptionn is the error\nbound, onebit has feedback) [none]",
      [&o](const std::string& text, const std::string&) { dist::set_codec(o.plan, text); });
  s.flag("codec-feedback", o.codec_feedback, "what encoding loses is added when it encodes again");
  s.value(
      "tos", "none|BYTE", "IP type of service of the packets between MPI processes\n[none; with --codec 0x28]",
      [&o](const std::string& text, const std::string& where) { o.type_of_service = type_of_service(text, where); });
  s.group("Parameter servers (--sync ps, layerdrop, slimdp)", Scope::exchange);
  s.value("servers", "K|colocated", "further ranks that serve and train nothing, or every\nworker serves a part [1]",
          [&o](const std::string& text, const std::string& where) {
            const auto count = number_from<int>(text);
            if (text != "colocated" && (!count || *count < 1))
              refuse("'" + text + "' is no number of servers", where, "give one, as " + where + " 1, or colocated");
            o.servers = count.value_or(0);
          });
  add_method_settings(s, o);

  s.group(kSaveGroup, Scope::output);
  s.text("save", "DIR", o.save, "write weights and a checkpoint there at the end");
  s.flag("overwrite", o.overwrite, "also if that holds another training's");
  s.value("save-every", "K[it]", "and every K epochs, or K steps",
          [&o](const std::string& text, const std::string& where) { o.save_every = every(text, where); });
  s.value("resume", "[PATH]", "go on from this checkpoint, or from the newest in --save",
          [&o](const std::string& text, const std::string&) { o.resume = true, o.resume_path = text; })
      .takes = Setting::Takes::maybe;
  s.flag("eval-only", o.eval_only, "measure the weights of --init or --resume, and leave");

  s.group(kOutputGroup, Scope::output);
  s.text("log", "FILE", o.log, "one line of JSON per step");
  s.text("trace", "FILE", o.trace, "what ran when, for ui.perfetto.dev");
  s.text("dump-gradients", "DIR", o.dump_gradients,
         "worker 0's own gradients, and residuals that elements\nare chosen from, at steps 1, 10, 100, ...: a file of\n"
         "float32 for each parameter, DIR/step-000100/NAME.f32");
  s.flag("quiet", o.quiet, "no progress");
  s.flag("json", o.json, "the result as one JSON object, on the last line");
  s.flag("dry-run", o.dry_run, "say what would be done, and leave");
}

namespace {

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

/// What presets say, as further defaults. `own_model`: --model is given.
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

/// What follows from the codec, and what makes no sense with it.
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

/// What was given, and what is left open until all defaults are known. `settle`: they are.
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
  add_config_file(app, kOutputGroup);
  app.set_version_flag("--version", std::string("laconic ") + version())
      ->description("which laconic this is")
      ->group(kOutputGroup);
  app.set_help_flag("-h,--help", "this text")->group(kOutputGroup);
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
