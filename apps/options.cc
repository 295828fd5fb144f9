#include "apps/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>

#include "apps/text.h"
#include "core/error.h"

namespace laconic {
namespace {

constexpr auto kModelGroup = "Model and data", kTrainGroup = "Training", kNetGroup = "Workers and network",
               kSparseGroup = "Sending little (--sync redsync and its neighbours)", kSaveGroup = "Saving", kOutputGroup = "Output";

[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& advice) {
  throw UsageError(what + " (" + where + "): " + advice);
}

template <class T>
std::optional<T> number_from(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

/// A whole number of at least `least`.
template <class T>
T whole(const std::string& text, const std::string& option, T least) {
  const auto value = number_from<T>(text);
  if (!value || *value < least)
    refuse(fmt::format("'{}' is not a whole number of at least {}", text, least), option,
           "give one, as " + option + " " + std::to_string(std::max<T>(least, 4)));
  return *value;
}

/// A number in [low, high], or (low, high] if `open`.
double real(const std::string& text, const std::string& option, double low, double high, const std::string& example) {
  const auto value = number_from<double>(text);
  if (!value) refuse("'" + text + "' is not a number", option, "give one, as " + option + " " + example);
  if (*value < low || *value > high)
    refuse(text + " is out of range", option,
           std::isinf(high) ? fmt::format("give a number of at least {}, as {} {}", low, option, example)
                            : fmt::format("give a number from {} to {}, as {} {}", low, high, option, example));
  return *value;
}

std::string one_of(const std::string& text, const std::string& option, const std::vector<std::string>& choices,
                   const std::string& kind = "") {
  for (const auto& choice : choices)
    if (text == choice) return text;
  const std::string close = nearest(text, choices);
  refuse(kind.empty() ? "unknown value '" + text + "'" : "unknown " + kind + " '" + text + "'", option,
         (close.empty() ? "" : "did you mean " + close + "? ") + fmt::format("There are {}.", join(choices, ", ")));
}

Every every(const std::string& text, const std::string& option) {
  const bool in_steps = text.size() > 2 && text.compare(text.size() - 2, 2, "it") == 0;
  const auto count = number_from<std::int64_t>(in_steps ? text.substr(0, text.size() - 2) : text);
  if (!count || *count < 1) refuse("'" + text + "' is not a period", option, "give epochs, as 2, or steps, as 200it");
  return {*count, in_steps};
}

Clip clip(const std::string& text, const std::string& option) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto limit = colon == std::string::npos ? std::nullopt : number_from<float>(text.substr(colon + 1));
  if ((kind != "norm" && kind != "value") || !limit || *limit <= 0)
    refuse("'" + text + "' is not a clipping rule", option, "give norm:X or value:X with X above 0, as norm:5");
  return {kind == "norm" ? Clip::Kind::norm : Clip::Kind::value, *limit};
}

std::string device(const std::string& text, const std::string& option) {
  if (text == "cpu") return text;
  if (text == "cuda" || (text.rfind("cuda:", 0) == 0 && number_from<int>(text.substr(5)).value_or(-1) >= 0))
    refuse("this build has no CUDA", option, "use --device cpu");
  refuse("unknown device '" + text + "'", option, "this build has cpu");
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

/// Adds options to one group at a time. Values come as text, so that what is wrong with one is said in our words.
class Adder {
 public:
  explicit Adder(CLI::App& app) : app_(app) {}
  void group(const char* name) { group_ = name; }

  /// `read(text, "--name")` stores the value or throws UsageError.
  template <class Read>
  CLI::Option* value(const std::string& name, const std::string& type, const std::string& help, Read read) {
    CLI::Option* option = app_.add_option_function<std::string>(
        name, [read, name](const std::string& text) { read(text, name); }, help);
    return option->type_name(type)->group(group_)->take_last();
  }
  /// The same for an option that may be given again: `read` for each.
  template <class Read>
  CLI::Option* values(const std::string& name, const std::string& type, const std::string& help, Read read) {
    CLI::Option* option = app_.add_option_function<std::vector<std::string>>(
        name, [read, name](const std::vector<std::string>& texts) {
          for (const std::string& text : texts) read(text, name);
        }, help);
    return option->type_name(type)->group(group_)->allow_extra_args(false);
  }
  CLI::Option* text(const std::string& name, const std::string& type, std::string& target, const std::string& help) {
    return value(name, type, help, [&target](const std::string& text, const std::string& option) {
      if (text.empty()) refuse("the value is empty", option, "give one, or leave the option out");
      target = text;
    });
  }
  CLI::Option* choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                      const std::string& help) {
    return value(name, join(choices, "|"), with_default(help, target),
                 [&target, choices](const std::string& text, const std::string& option) {
                   target = one_of(text, option, choices);
                 });
  }
  template <class T>
  CLI::Option* whole_number(const std::string& name, const std::string& type, T& target, T least,
                            const std::string& help, bool show = true) {
    return value(name, type, show ? with_default(help, fmt::format("{}", target)) : help,
                 [&target, least](const std::string& text, const std::string& option) {
                   target = whole<T>(text, option, least);
                 });
  }
  template <class T>
  CLI::Option* real_number(const std::string& name, const std::string& type, T& target, double low, double high,
                           const std::string& example, const std::string& help) {
    return value(name, type, with_default(help, fmt::format("{}", target)),
                 [&target, low, high, example](const std::string& text, const std::string& option) {
                   target = static_cast<T>(real(text, option, low, high, example));
                 });
  }
  CLI::Option* flag(const std::string& name, bool& target, const std::string& help) {
    return app_.add_flag(name, target, help)->group(group_);
  }

 private:
  static std::string with_default(const std::string& help, const std::string& value) {
    return (help.empty() ? "" : help + " ") + "[" + value + "]";
  }
  CLI::App& app_;
  std::string group_;
};

/// Options of strategies that send little, where --sync names another one, or one that has no use for them.
void refuse_strangers(const CLI::App& app, const std::string& sync) {
  const dist::SparseMethod* method = dist::sparse_method(sync);
  const auto given = [&](const char* name) { return app.get_option(name)->count() > 0; };
  const auto check = [&](const char* name, const std::string& advice, auto has) {
    if (given(name) && (method == nullptr || !has(*method))) refuse("--sync " + sync + " has no use for it", name, advice);
  };
  using Method = dist::SparseMethod;
  const std::string advice = "leave it out, or add --sync ";
  const auto chooses = [](const Method& m) { return !m.method.has_value(); };
  const auto has_indices = [](const Method& m) { return m.method != compress::Method::random; };
  check("--density", advice + "redsync", [](const Method& m) { return m.has_density; });
  check("--selector", advice + "redsync", chooses);
  check("--qrgc", advice + "redsync", chooses);
  for (const char* name : {"--qrgc-feedback", "--no-qrgc-feedback"}) {
    check(name, advice + "redsync", chooses);
    if (given(name) && !given("--qrgc"))
      refuse("without one sign at a time nothing is left out", name, "add --qrgc, or leave it out");
  }
  if (given("--qrgc-feedback") && given("--no-qrgc-feedback"))
    refuse("the two contradict each other", "--qrgc-feedback and --no-qrgc-feedback", "leave one of them out");
  check("--ledger", advice + "redsync", [](const Method&) { return true; });
  check("--no-mask", advice + "redsync", [](const Method& m) { return m.corrects; });
  check("--warmup", advice + "redsync", [](const Method&) { return true; });
  check("--index-coding", advice + "redsync", has_indices);
  check("--sparse-reduce", advice + "redsync", has_indices);
  check("--threshold", advice + "strom", [](const Method& m) { return m.method == compress::Method::fixed; });
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

void add_options(CLI::App& app, TrainOptions& o, const AppDefaults& defaults) {
  const double inf = std::numeric_limits<double>::infinity();
  Adder add(app);

  add.group(kModelGroup);
  add.value("--model", "NAME", wrapped(defaults.models) + " [" + o.model + "]",
            [&o, models = defaults.models](const std::string& text, const std::string& option) {
              o.model = one_of(text, option, models, "model");
            });
  add.text("--data", "DIR|FILE|synthetic", o.data, "where the images are; synthetic: made up here\n[" + o.data + "]");
  add.text("--init", "FILE", o.init, "start from these weights (safetensors)");
  add.flag("--no-shuffle", o.no_shuffle, "read the samples in the order of the file");
  add.flag("--no-augment", o.no_augment, "do not crop and flip images");
  add.flag("--no-dropout", o.no_dropout, "keep every activation while training");

  add.group(kTrainGroup);
  add.whole_number<std::int64_t>("--epochs", "E", o.epochs, 0, "passes over the training set");
  add.value(
      "--steps", "S", "updates since the start of training; instead of --epochs",
      [&o](const std::string& text, const std::string& option) { o.steps = whole<std::int64_t>(text, option, 0); });
  add.whole_number<int>("--batch", "B", o.batch, 1, "samples per worker and step");
  add.choice("--optimizer", o.optimizer, {"sgd", "adam", "adamw"}, "update rule");
  add.value("--lr", "X", fmt::format("learning rate [{}; 0.001 with adam, adamw]", *defaults.options.lr),
            [&o, inf](const std::string& text, const std::string& option) {
              o.lr = static_cast<float>(real(text, option, 0, inf, "0.1"));
            });
  add.real_number("--momentum", "X", o.momentum, 0, 1, "0.9", "of sgd's velocity");
  add.flag("--nesterov", o.nesterov, "look ahead along the momentum");
  add.real_number("--weight-decay", "X", o.weight_decay, 0, inf, "5e-4", "pull of the weights to zero");
  add.flag("--no-decay-norm-bias", o.no_decay_norm_bias, "no weight decay on biases and normalisation");
  add.real_number("--label-smoothing", "X", o.label_smoothing, 0, 1, "0.1", "spread over the other classes");
  add.value("--clip", "norm:X|value:X", "limit the gradient's length, or each of its elements",
            [&o](const std::string& text, const std::string& option) { o.clip = clip(text, option); });
  add.text("--schedule", "RULE", o.schedule,
           "const, step:EVERY,FACTOR, multistep:A,B,..,FACTOR, exp:F, cosine,\n"
           "plateau:PATIENCE,FACTOR; warmup:W+ in front;\n"
           "in epochs, or in steps as 500it [" +
               o.schedule + "]");
  add.whole_number<int>("--accumulate", "K", o.accumulate, 1, "micro-batches per update");
  add.whole_number<std::uint64_t>("--seed", "N", o.seed, 0, "of all random numbers");
  add.choice("--on-nan", o.on_nan, {"stop", "skip"}, "when the loss is not a number");
  add.whole_number<int>("--repeat", "R", o.repeat, 1, "runs with seeds N, N+1, ...");

  add.group(kNetGroup);
  add.value("--workers", "N", "threads that train together [1]; processes: laconic launch",
            [&o](const std::string& text, const std::string& option) { o.workers = whole<int>(text, option, 1); });
  std::vector<std::string> syncs{"none", "allreduce"};
  for (const dist::SparseMethod& method : dist::sparse_methods()) syncs.push_back(method.name);
  add.value("--sync", "NAME", wrapped(syncs) + ":\nhow gradients are joined; none: each worker alone [" + o.sync + "]",
            [&o, syncs](const std::string& text, const std::string& option) { o.sync = one_of(text, option, syncs); });
  add.value("--allreduce", "NAME",
            "how sums travel: ring, butterfly, doubling,\nhierarchical:G (groups of G), mpi, hybrid (butterfly for\n"
            "convolutions and small ones), hybrid-printed [ring]",
            [&o](const std::string& text, const std::string&) { dist::set_allreduce(o.plan, text); });
  add.value("--overlap", "none|backward|forward", "sums travel after backward, during it, or also\nduring the next forward [forward]",
            [&o](const std::string& text, const std::string&) { o.overlap = dist::overlap_named(text); });
  add.value("--fusion", "none|copy:SIZE|lazy:SIZE", "small neighbours travel together, copied or not\n[lazy:1MiB]",
            [&o](const std::string& text, const std::string&) { dist::set_fusion(o.plan, text); });
  add.value("--chunk", "none|SIZE", "larger linear weights travel in chunks of rows [4MiB]",
            [&o](const std::string& text, const std::string&) { dist::set_chunk(o.plan, text); });
  add.text("--plan", "FILE", o.plan_file, "what travels how, instead of by these options;\n--dry-run --json writes one");
  add.choice("--reduce", o.reduce, {"mean", "sum"}, "of the workers' gradients");
  add.whole_number<int>("--threads", "T", o.threads, 1, "kernel threads per worker [cores / workers here]", false);
  add.whole_number<int>("--data-threads", "D", o.data_threads, 0, "threads per worker that prepare batches");
  add.value("--device", "cpu|cuda[:i]", "where tensors live [cpu]",
            [&o](const std::string& text, const std::string& option) { o.device = device(text, option); });
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

  dist::SparseOptions& sparse = o.sparse;
  add.group(kSparseGroup);
  add.real_number("--density", "D", sparse.density, 0, 1, "0.001", "share of a tensor's elements that is sent");
  add.choice("--selector", sparse.selector, {"paper", "auto", "radix", "trimmed", "search", "sampled", "exact"},
             "how they are chosen; paper: by layer; auto: where it\ntakes less time than sending all");
  add.flag("--qrgc", sparse.quantised, "one sign at a time, all by one value (not the output layer)");
  add.flag("--qrgc-feedback", sparse.feedback, "what that value leaves out is kept (the default)");
  add.flag("--no-qrgc-feedback", o.no_feedback, "it is lost, as in the paper");
  add.flag("--no-mask", o.no_mask, "what was sent keeps its momentum");
  add.value("--warmup", "none|dense:E|ramp:E", "in the first E epochs dense gradients, or densities\nfrom 25 % down [none; dgc: ramp:4]",
            [&o](const std::string& text, const std::string& option) { o.sparse.warmup = dist::Warmup::parse(text, option); });
  add.value("--index-coding", "raw|delta", "4 bytes an index, or the gaps between them [raw]",
            [&o](const std::string& text, const std::string& option) { o.sparse.delta = one_of(text, option, {"raw", "delta"}) == "delta"; });
  add.value("--sparse-reduce", "allgather|split", "all send all to all; or each adds up a range of the\nelements and returns the largest [allgather]",
            [&o](const std::string& text, const std::string& option) {
              o.sparse.split = one_of(text, option, {"allgather", "split"}) == "split";
            });
  add.value("--threshold", "T", "what strom sends, as T or -T",
            [&o](const std::string& text, const std::string& option) { o.sparse.threshold = real(text, option, 0, 1e30, "0.01"); });

  add.value("--ledger", "[K]", "where the bytes of each layer go, measured every K\nsteps [100], as a table at the end and in --log, --json",
            [&o](const std::string& text, const std::string& option) {
              o.ledger = text.empty() ? 100 : whole<std::int64_t>(text, option, 1);
            })
      ->expected(0, 1);

  add.group(kSaveGroup);
  add.text("--save", "DIR", o.save, "write weights and a checkpoint there at the end");
  add.value("--save-every", "K[it]", "and every K epochs, or K steps",
            [&o](const std::string& text, const std::string& option) { o.save_every = every(text, option); });
  add.value("--resume", "[PATH]", "go on from this checkpoint, or from the newest in --save",
            [&o](const std::string& text, const std::string&) { o.resume = true, o.resume_path = text; })
      ->expected(0, 1);
  add.flag("--eval-only", o.eval_only, "measure the weights of --init or --resume, and leave");

  add.group(kOutputGroup);
  add.text("--log", "FILE", o.log, "one line of JSON per step");
  add.text("--trace", "FILE", o.trace, "what ran when, for ui.perfetto.dev");
  add.text("--dump-gradients", "DIR", o.dump_gradients,
           "worker 0's own gradients, and residuals that elements\nare chosen from, at steps 1, 10, 100, ...: a file of\n"
           "float32 for each parameter, DIR/step-000100/NAME.f32");
  add.flag("--quiet", o.quiet, "no progress");
  add.flag("--json", o.json, "the result as one JSON object, on the last line");
  add.flag("--dry-run", o.dry_run, "say what would be done, and leave");
  app.set_config("--config", "", "options from a TOML file, by the same names")->type_name("FILE")->group(kOutputGroup);
  app.set_version_flag("--version", std::string("laconic ") + version())
      ->description("which laconic this is")
      ->group(kOutputGroup);
  app.set_help_flag("-h,--help", "this text")->group(kOutputGroup);
}

std::optional<TrainOptions> parse_options(int argc, const char* const* argv, const AppDefaults& defaults) {
  TrainOptions options = defaults.options;
  options.lr.reset();
  CLI::App app(defaults.description, defaults.program);
  app.get_formatter()->column_width(34);
  app.footer(defaults.footer);
  app.allow_extras();  // refused below, with a suggestion
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_options(app, options, defaults);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help();
    for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
    std::cout << help;
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

  if (!options.lr) options.lr = options.optimizer == "sgd" ? *defaults.options.lr : 0.001f;

  refuse_strangers(app, options.sync);
  if (const dist::SparseMethod* method = dist::sparse_method(options.sync)) {
    options.sparse.masking = !options.no_mask;
    options.sparse.feedback = !options.no_feedback;
    if (options.link) {
      options.sparse.latency_seconds = std::chrono::duration<double>(options.link->latency).count();
      options.sparse.seconds_per_byte = 8.0 / static_cast<double>(options.link->bits_per_second);
    }
    dist::require_sensible(*method, options.sparse, options.optimizer, options.clip.kind == Clip::Kind::value);
  }
  if (options.link_of.size() > 0 && !options.link)
    refuse("there is no link to make an exception from", "--link-of", "add --link, as --link 100mbit,1ms");
  if (options.link && dist::ranks_under_mpirun() > 0)
    refuse("a link is emulated between threads only, and these are MPI processes", "--link",
           "use --workers without mpirun, or a real network");
  if (options.link && options.workers.value_or(1) == 1)
    refuse("one worker has nobody to talk to", "--link", "add --workers 4");
  for (const auto& [rank, spec] : options.link_of)
    if (rank >= *options.workers)
      refuse(fmt::format("there is no worker {}", rank), "--link-of", fmt::format("ranks are 0 to {}", *options.workers - 1));
  if (options.resume && options.resume_path.empty() && options.save.empty())
    refuse("there is no place to resume from", "--resume", "give a checkpoint, or --save DIR to take its newest");
  if (options.resume && !options.init.empty())
    refuse("weights come from a checkpoint or from a file", "--resume and --init", "leave one of them out");
  if (options.save_every && options.save.empty())
    refuse("there is no place to save to", "--save-every", "add --save DIR");
  if (options.eval_only && options.init.empty() && !options.resume)
    refuse("there are no weights to measure", "--eval-only", "add --init FILE or --resume PATH");
  return options;
}

}  // namespace laconic
