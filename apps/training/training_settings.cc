// The table of all options of a training program.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "apps/common/text.h"
#include "apps/training/device_options.h"
#include "apps/training/exchange_settings.h"
#include "apps/training/options.h"
#include "data/image_dataset.h"

namespace laconic {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr auto kModelGroup = "Model and data", kTrainGroup = "Training", kSaveGroup = "Saving", kOutputGroup = "Output";

Every every(const std::string& text, const std::string& where) {
  const bool in_steps = text.size() > 2 && text.compare(text.size() - 2, 2, "it") == 0;
  const std::string number = in_steps ? text.substr(0, text.size() - 2) : text;
  const auto count = number_from<std::int64_t>(number);
  if (count && *count > kMostOf<std::int64_t>) whole<std::int64_t>(number, where, 1);  // says how many may be
  if (!count || *count < 1) refuse("'" + text + "' is not a period", where, "give epochs, as 2, or steps, as 200it");
  return {*count, in_steps};
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

void add_photo_settings(Settings& s, TrainOptions& o) {
  s.whole_number<int>("image-size", "S", o.image_size, 1, "pixels of a side that the model sees [its own]", false);
  s.value("color-jitter", "B[,C[,S]]", "brightness, contrast and saturation vary by so much,\nas 0.4,0.4,0.4",
          [&o](const std::string& text, const std::string& where) {
            float* const all[] = {&o.colors.brightness, &o.colors.contrast, &o.colors.saturation};
            std::size_t begin = 0, i = 0;
            for (; i < 3 && begin <= text.size(); ++i) {
              const std::size_t end = std::min(text.find(',', begin), text.size());
              *all[i] = static_cast<float>(real(text.substr(begin, end - begin), where, 0, 1, "0.4,0.4,0.4"));
              begin = end + 1;
            }
            if (begin <= text.size()) refuse("'" + text + "' has more than three numbers", where, "give 0.4,0.4,0.4");
          });
  s.whole_number<int>("max-bad", "K", o.max_bad, 0, "damaged files that are passed over");
}

void add_prediction_settings(Settings& s, TrainOptions& o) {
  s.text("labels", "FILE", o.labels,
         "names of the classes, one a line [labels.txt beside the\nweights, or labels.txt or synsets.txt beside the "
         "data]");
  s.value("predict", "IMAGE ...", "say what these are, by --init or --resume, and leave",
          [&o](const std::string& text, const std::string&) { o.predict.push_back(text); })
      .takes = Setting::Takes::words;
}

void add_text_settings(Settings& s, TrainOptions& o, bool gpt) {
  s.value(
      "tokens", "KIND",
      std::string("words, chars, bpe:SIZE (byte pairs, trained on the text),\nbpe:PATH (tokenizer.json and others) or "
                  "numbers[:SIZE]\n(the data are token numbers) [") +
          (gpt ? "chars]" : "words]"),
      [&o](const std::string& text, const std::string&) { o.tokens = Tokens::parse(text).text(); });
  if (gpt) {
    for (const auto& [name, value, help] :
         {std::tuple{"layers", &o.layers, "of attention and what follows it [the model's own]"},
          {"heads", &o.heads, "of each attention [the model's own]"},
          {"width", &o.width, "numbers by which a token is known [the model's own]"},
          {"block", &o.block, "tokens of a block, the most that it looks back\n[the model's own]"}})
      s.value(name, "N", help, [to = value](const std::string& text, const std::string& where) {
        constexpr int kMost = 65536;  // several times as many still are an int
        *to = whole<int>(text, where, 1);
        if (*to > kMost) refuse(text + " are more than a model may have", where, concat("give at most ", kMost));
      });
    s.flag("no-shuffle", o.images.shuffle, "each worker reads the blocks of its part in their order", false);
    s.text("export", "FILE|DIR", o.export_path,
           "at the end write GPT-2's weights as Hugging Face has them\n(safetensors), and config.json beside");
  } else {
    s.whole_number<std::int64_t>("bptt", "T", o.bptt, 1, "words of each stream in one step");
    for (const auto& [name, help, tied] : {std::tuple{"tied", "the decoder's weight is the embedding's", true},
                                           {"untied", "it is one of its own", false}})
      s.value(name, "", help, [&o, tied = tied](const std::string&, const std::string&) { o.tied = tied; }).takes =
          Setting::Takes::nothing;
  }
  s.real_number("dropout", "P", o.dropout, 0, 0.99, "0.5", "chance of dropping an activation [the model's own]");
  s.whole_number<std::int64_t>("generate", "N", o.generate.words, 0, "write so many tokens at the end", false);
  s.real_number("temperature", "X", o.generate.temperature, 0, inf, "0.8", "of that; 0 writes the likeliest tokens");
  s.text("prompt", "TEXT", o.generate.prompt, "it goes on from this");
}

/// Returns the model of that name. Of another program's one that program is named.
std::string model_from(const std::string& text, const std::string& where, const std::vector<std::string>& models) {
  const auto has = [&](const std::vector<std::string>& all) { return std::ranges::find(all, text) != all.end(); };
  if (!has(models))
    for (const Program& other : programs())
      if (has(other.models))
        refuse("'" + text + "' is a model of " + other.name, where,
               "take that program, or one of " + join(models, ", "));
  return one_of(text, where, models, "model");
}

/// What a program's task reads.
struct Reads {
  explicit Reads(const Program& p)
      : own(p.task != nullptr),
        blocks(!own && p.reads == Program::Reads::blocks),
        text(blocks || (!own && p.reads == Program::Reads::text)),
        photos(!own && p.reads == Program::Reads::photographs) {}
  bool own, blocks, text, photos;
};

void add_model_settings(Settings& s, TrainOptions& o, const Program& program, const Reads& reads) {
  s.group(kModelGroup, Scope::model);
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  if (!reads.own)
    s.value("preset", "NAME,..", "options that belong together, as defaults for the others:\n" + wrapped(names),
            [&o](const std::string& text, const std::string& where) {
              for (const Preset* preset : presets_named(text, where)) o.presets.push_back(preset);
            })
        .takes = Setting::Takes::repeated;
  if (!reads.own)
    s.value("model", "NAME", wrapped(program.models) + " [" + o.model + "]",
            [&o, models = program.models](const std::string& text, const std::string& where) {
              o.model = model_from(text, where, models);
            });
  names.clear();
  for (const ImageDatasetKind& kind : image_datasets()) names.push_back(kind.name);
  s.text(
      "data", reads.own ? "DIR|FILE" : "DIR|FILE|synthetic", o.data,
      (reads.own      ? "what is learned from"
       : reads.text   ? "a folder with train, valid and test text, or one text\nfile"
       : reads.photos ? "a folder with train and val: folders of classes, lists\nof files, or packs; or TRAIN,VAL; or "
                        "one pack"
                      : "where the images are, or NAME[:DIR] of another data set,\n" + wrapped(names)) +
          (reads.own ? std::string(o.data.empty() ? "" : " [" + o.data + "]")
                     : "; synthetic: made up here\n[" + o.data + "]"));
  s.text("init", "FILE|DIR", o.trainer.init, "start from these weights (safetensors)");
  if (reads.text) {
    add_text_settings(s, o, reads.blocks);
  } else {
    s.flag("no-shuffle", o.images.shuffle, "read the samples in the order of the file", false);
    if (!reads.own) s.flag("no-augment", o.no_augment, "do not crop and flip images");
    if (reads.photos) add_photo_settings(s, o);
    if (!reads.own) add_prediction_settings(s, o);
    s.flag("new-head", o.trainer.new_head, "the output layer begins anew: --init of other classes");
  }
  s.flag("no-dropout", o.trainer.dropout, "keep every activation while training", false);
  const auto offers = [&](bool ModelInfo::*option) {
    return !reads.own && std::any_of(models_of_zoo().begin(), models_of_zoo().end(), [&](const ModelInfo& m) {
      return m.*option && std::find(program.models.begin(), program.models.end(), m.name) != program.models.end();
    });
  };
  if (offers(&ModelInfo::has_v1))
    s.flag("resnet-v1", o.zoo.resnet_v1,
           "resnet50, 101: the stride in the first 1x1 convolution\nof a block, as published, not in its 3x3");
  if (offers(&ModelInfo::has_auxiliary_heads))
    s.flag("auxiliary-heads", o.zoo.auxiliary_heads, "googlenet: losses of inner layers too, while training");
}

void add_learning_settings(Settings& s, TrainOptions& o, const Reads& reads) {
  s.group(kTrainGroup, Scope::model);
  s.whole_number<std::int64_t>("epochs", "E", o.trainer.epochs, 0, "passes over the training set");
  s.whole_number<std::int64_t>("steps", "S", o.trainer.steps, 0,
                               "updates since the start of training, instead of --epochs;\ncosine falls over the "
                               "epochs all the same, if these are\nmore: so a training may stop, and go on later");
  s.whole_number<std::int64_t>("epoch-steps", "K", o.trainer.epoch_steps, 1,
                               "an epoch ends after K updates: goes quickly through\nall phases of a long training, "
                               "to time them");
  s.whole_number<std::int64_t>("eval-every", "E", o.trainer.eval_every, 0,
                               "evaluate after every E epochs, and at the end;\n0: never");
  s.whole_number<int>("batch", "B", o.batch, 1,
                      reads.blocks ? "blocks of text per worker and step"
                      : reads.text ? "streams of text per worker"
                                   : "samples per worker and step");
  std::vector<std::string> optimizer_names;
  for (const OptimizerKind& kind : optimizers()) optimizer_names.push_back(kind.name);
  s.choice("optimizer", o.trainer.optimizer.name, optimizer_names, "update rule");
  const std::string rate = o.lr ? fmt::format("{}; ", *o.lr) : o.lr_per_256 ? "by --lr-per-256; " : "";
  s.real_number("lr", "X", o.lr, 0, inf, "0.1", "learning rate [" + rate + "0.001 with adam, adamw]");
  s.real_number("lr-per-256", "X", o.lr_per_256, 0, inf, "0.1",
                "the same for 256 samples a step, scaled to those of all\n"
                "workers: --lr X (workers x batch x accumulate) / 256" +
                    (o.lr_per_256 ? fmt::format(" [{}]", *o.lr_per_256) : std::string()));
  s.real_number("momentum", "X", o.momentum, 0, 1, "0.9", "of sgd's velocity");
  s.flag("nesterov", o.trainer.optimizer.nesterov, "look ahead along the momentum");
  s.value("betas", "B1,B2",
          fmt::format("of adam and adamw: what a step leaves of the moments\n[{:g},{:g}]", o.trainer.optimizer.beta1,
                      o.trainer.optimizer.beta2),
          [&o](const std::string& text, const std::string& where) {
            const std::size_t comma = text.find(',');
            if (comma == std::string::npos) refuse("'" + text + "' is one number", where, "give two, as 0.9,0.99");
            o.trainer.optimizer.beta1 = real(text.substr(0, comma), where, 0, 1, "0.9,0.99");
            o.trainer.optimizer.beta2 = real(text.substr(comma + 1), where, 0, 1, "0.9,0.99");
          });
  s.real_number("weight-decay", "X", o.weight_decay, 0, inf, "5e-4", "pull of the weights to zero");
  s.flag("no-decay-norm-bias", o.trainer.optimizer.decay.norm_and_bias, "no weight decay on biases and normalisation",
         false);
  if (!reads.own && !reads.text)
    s.real_number("label-smoothing", "X", o.images.label_smoothing, 0, 1, "0.1", "spread over the other classes");
  s.value(
      "clip", "norm:X|value:X|none",
      "limit the gradient's length, or each of its elements" +
          (o.trainer.clip.kind == Clip::Kind::norm ? fmt::format(" [norm:{:g}]", o.trainer.clip.limit) : std::string()),
      Settings::into(o.trainer.clip, Clip::parse));
  std::vector<std::string> names;
  for (const Schedule::Kind& kind : schedules()) names.push_back(kind.form);
  s.value(
      "schedule", "RULE",
      wrapped(names) + ";\nwarmup:W+ in front; in epochs, or in steps as 500it\n[" + o.trainer.schedule.text() + "]",
      [&o](const std::string& text, const std::string&) { o.trainer.schedule = Schedule::parse(text); });
  s.whole_number<std::int64_t>("accumulate", "K", o.trainer.accumulate, 1, "micro-batches per update");
  s.flag("checkpoint-activations", o.trainer.checkpoint_activations,
         "keep fewer activations and compute them again in\nbackward: larger batches fit; the same bits")
      .hidden = reads.text && !reads.blocks;  // settle_texts() says why not
  s.whole_number<std::uint64_t>("seed", "N", o.trainer.seed, 0, "of all random numbers");
  s.either("on-nan", o.trainer.skip_nan, "stop", "skip", "when the loss is not a number [stop]");
  s.whole_number<int>("repeat", "R", o.repeat, 1, "runs with seeds N, N+1, ...");
}

void add_worker_settings(Settings& s, TrainOptions& o, const Reads& reads) {
  s.group(kNetGroup, Scope::model);
  s.whole_number<int>("workers", "N", o.workers, 1, "threads that train together [1]; processes: laconic launch");
  s.flag("alone", o.alone, "no rank of mpirun, srun or another launcher: this process\ntrains by itself");
  s.flag("compute-only", o.compute_only,
         "what computing takes by itself: workers exchange nothing,\nand nothing is kept but a log; options of the "
         "exchange have\nno effect");
  s.group(kNetGroup, Scope::exchange);
  add_exchange_settings(s, o, o.trainer.plan, o.trainer.overlap, o.trainer.codec_feedback);
  s.group(kNetGroup, Scope::exchange);
  s.text("plan", "FILE|auto", o.trainer.plan_file,
         "what travels how, instead of by these options;\n--dry-run --json writes one; auto: network and layers are\n"
         "measured, and the fastest is taken");
  s.value("allow", "WHAT,..",
          "what --plan auto may do to sums: exact, 16bit,\nbounded:2^-10; or take instead of them sparse[:D]:\n"
          "--sync redsync with this --density, rounds[:H]: --sync\nrounds with this --every [exact]",
          Settings::into(o.trainer.allowed, dist::Allowed::parse));
  s.text("calibration", "measure|cache|FILE", o.trainer.calibration.from,
         "where --plan auto has the network's figures from: measured\nnow, or in the last 24 hours and kept in "
         "~/.cache/laconic;\nor FILE, of laconic calibrate --save [measure]");
  s.value("reduce", "mean|sum", "of the workers' gradients [mean]",
          [&o](const std::string& text, const std::string& where) {
            o.trainer.mean = one_of(text, where, {"mean", "sum"}) == "mean";
          });
  s.group(kNetGroup, Scope::model);
  s.whole_number<int>("threads", "T", o.threads, 1, "kernel threads per worker [cores that it may use / workers here]",
                      false);
  if (!reads.text)
    s.whole_number<int>("data-threads", "D", o.images.data_threads, 0, "threads per worker that prepare batches");
  s.value("device", "cpu|cuda[:I]",
          "where the model lives and is computed; cuda: of processes\neach its own GPU, workers of one share cuda:0 [" +
              o.device + "]",
          Settings::into(o.device, checked_device));
  s.choice("precision", o.precision, {"fp32", "tf32", "bf16"},
           "of products on a GPU; all else is float32, but\nbf16 rounds a convolution's result too");
  s.group(kNetGroup, Scope::exchange);
  const auto every_steps = [&s](const char* name, std::int64_t& target, std::int64_t usual, const char* help) {
    s.value(name, "[K]", help, [&target, usual](const std::string& text, const std::string& where) {
       target = text.empty() ? usual : whole<std::int64_t>(text, where, 1);
     }).takes = Setting::Takes::maybe;
  };
  every_steps("audit", o.trainer.audit_every, 1, "check every K steps [1] that all workers hold the same bits");
  every_steps("ledger", o.trainer.ledger_every, 100,
              "where the bytes of each layer go, measured every K\n"
              "steps [100], as a table at the end and in --log, --json");
  s.group(kNetGroup, Scope::model);
  s.real_number("timeout", "S", o.timeout, 0.001, 1e9, "300", "seconds until a silent worker counts as lost");

  s.group(kCodecGroup, Scope::exchange);
  s.value("tos", "none|BYTE", "IP type of service of the packets between MPI processes\n[none; with --codec 0x28]",
          Settings::into(o.type_of_service, type_of_service));
}

void add_output_settings(Settings& s, TrainOptions& o) {
  s.group(kSaveGroup, Scope::output);
  s.text("save", "DIR", o.trainer.save, "write weights and a checkpoint there at the end");
  s.flag("overwrite", o.trainer.overwrite, "also if that holds checkpoints or weights");
  s.value("save-every", "K[it]", "and every K epochs, or K steps", Settings::into(o.trainer.save_every, every));
  s.whole_number<int>("keep", "M", o.trainer.keep, 1, "checkpoints that stay there, the newest");
  s.value("resume", "[PATH]", "go on from this checkpoint, or from the newest in --save",
          [&o](const std::string& text, const std::string&) { o.resume = true, o.resume_path = text; })
      .takes = Setting::Takes::maybe;
  s.flag("eval-only", o.eval_only, "measure the weights of --init or --resume, and leave");

  s.group(kOutputGroup, Scope::output);
  s.text("log", "FILE", o.log, "one line of JSON per step");
  s.text("trace", "FILE", o.trace, "what ran when, for `laconic report` and ui.perfetto.dev");
  s.text("tensorboard", "DIR", o.tensorboard, "figures of steps and evaluations for TensorBoard");
  s.text("report", "FILE.html", o.report, "a page about the training, with --log's and --trace's figures");
  s.value("live", "[SECONDS]", "that page also while it trains, as often; a browser renews it [10]",
          [&o](const std::string& text, const std::string& where) {
            o.live = text.empty() ? 10 : real(text, where, 0.01, 1e6, "10");
          })
      .takes = Setting::Takes::maybe;
  s.value("trace-steps", "A:B", "only of the steps A to B, and of the one after",
          Settings::into(o.trainer.trace_steps, step_range));
  s.text("dump-gradients", "DIR", o.trainer.dump_gradients,
         "worker 0's own gradients, and residuals that elements\nare chosen from, at steps 1, 10, 100, ...: a file of\n"
         "float32 for each parameter, DIR/step-000100/NAME.f32");
  s.flag("quiet", o.quiet, "the result alone");
  s.flag("json", o.json, "the result as one JSON object, on the last line");
  s.flag("dry-run", o.dry_run, "say what would be done, and leave");
}

}  // namespace

void add_settings(Settings& s, TrainOptions& o, const Program& program) {
  const Reads reads(program);
  add_model_settings(s, o, program, reads);
  if (program.settings) program.settings(s);
  add_learning_settings(s, o, reads);
  add_worker_settings(s, o, reads);
  add_output_settings(s, o);
}

}  // namespace laconic
