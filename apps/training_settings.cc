// The table of all options of a training program.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "apps/device_options.h"
#include "apps/options.h"
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

/// Adds the settings of all methods, for the one that `sync` will name. Methods share a setting of one name.
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
  const auto named = [](const std::string& name, const std::string& summary) {
    return fmt::format("\n{:<18}{}", name, summary);
  };
  std::string ways = "how gradients are joined [" + o.sync + "]";
  for (const std::string& name : syncs) ways += named(name, dist::methods().make(name)->summary());
  s.value("sync", "NAME", ways,
          [&o, syncs](const std::string& text, const std::string& where) { o.sync = one_of(text, where, syncs); });
  std::string sums = "how sums travel [ring]";
  for (const dist::AllreduceKind& kind : dist::allreduces()) sums += named(kind.form(), kind.summary);
  sums += named("hybrid", "butterfly for convolutions and small ones");
  sums += named("hybrid-printed", "the other way round, as its paper prints it");
  s.value("allreduce", "NAME", sums,
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
  s.value("codec", "NAME",
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

}  // namespace laconic
