// laconic simulate: what a training step would take on a network that is not there.
#include <CLI/CLI.hpp>
#include <fstream>

#include "apps/bench/layers.h"
#include "apps/machine.h"
#include "apps/result_table.h"
#include "apps/simulate/model_facts.h"
#include "apps/subcommand.h"
#include "apps/tools.h"
#include "core/parse.h"
#include "dist/planner/calibration.h"
#include "dist/planner/simulation.h"

namespace laconic {
namespace {

constexpr int kMostWhole = 64;              // ranks that are simulated one by one
constexpr double kPayload = 1448.0 / 1514;  // of a full Ethernet frame of TCP over IPv4, with time stamps

constexpr const char* kWhat =
    "What a training step takes with more workers, or on another network. Plan, operations, their order and their "
    "messages are those of a training with --sync allreduce. Each worker has a core for its messages beside those that "
    "compute.";

struct SimulateOptions {
  std::string model = "resnet50", compute = "measured", workers = "1..64", link = "1gbit,100us";
  std::string allreduce = "ring", codec = "none", fusion, chunk, overlap = "forward", message = "5us";
  int classes = 0, batch = 32, threads = 1;
  bool codec_feedback = false, json = false, markdown = false;
};

/// "1,2,8": these; "1..64": 1, 2, 4, ... and 64.
std::vector<int> numbers_of_workers(const std::string& text) {
  const auto number = [&](const std::string& word) {
    const auto n = number_from<int>(word);
    require<UsageError>(n && *n >= 1 && *n <= 65536, "'", word,
                        "' is no number of workers (--workers): give 1 to 65536, as 2,4,8 or 2..1024");
    return *n;
  };
  std::vector<int> all;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    const int first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
    require<UsageError>(first <= last, "'", text, "' ends before it begins (--workers): give 2..1024");
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

dist::LayerTimes times_of(const SimulateOptions& o) {
  if (o.compute == "measured") return measure_layers(o.model, o.batch, o.threads, 15, "", o.classes);
  if (o.compute.rfind("gflops:", 0) == 0) {
    const auto rate = number_from<double>(o.compute.substr(7));
    require<UsageError>(rate && *rate > 0, "'", o.compute,
                        "' is no rate of computing (--compute): give gflops:X, as gflops:50");
    return layer_times_at(1e9 * *rate, o.model, o.classes, o.batch);
  }
  std::ifstream in(o.compute);
  std::string last;
  for (std::string line; std::getline(in, line);) last = line;
  require<DataError>(!last.empty(), o.compute,
                     " could not be read or is empty (--compute): give measured, gflops:X, or a file of laconic bench "
                     "layers --json");
  return dist::layer_times_from(last, o.compute + " (--compute)");
}

dist::PlanOptions plan_options_of(const SimulateOptions& o) {
  dist::PlanOptions plan;
  dist::set_allreduce(plan, o.allreduce);
  dist::set_codec(plan, o.codec);
  if (!o.fusion.empty()) dist::set_fusion(plan, o.fusion);
  if (!o.chunk.empty()) dist::set_chunk(plan, o.chunk);
  if (const auto found = dist::find_allreduce(o.allreduce))
    require<UsageError>(found->kind.carrier == dist::Carrier::messages, "--allreduce ", o.allreduce,
                        " is not ours, and nobody here knows what it sends: take one of ours, as ring");
  return plan;
}

/// "10us", as a link's latency is written.
double seconds_in(const std::string& time, const char* option) {
  try {
    return std::chrono::duration<double>(dist::LinkSpec::parse("1gbit," + time, option).latency).count();
  } catch (const UsageError&) {
    throw UsageError(concat("'", time, "' is no time (", option, "): give a number and its unit, as 10us or 1ms"));
  }
}

}  // namespace

int simulate(const std::vector<std::string>& arguments) {
  SimulateOptions o;
  CLI::App app(kWhat, "laconic simulate");
  const auto text = [&](const char* name, std::string& target, const char* type, const char* help) {
    app.add_option(name, target, help)->type_name(type);
  };
  text("--model", o.model, "M", "a model of the zoo [resnet50]");
  app.add_option("--classes", o.classes, "outputs [the model's own]")->check(CLI::Range(1, 1 << 24))->type_name("K");
  app.add_option("--batch", o.batch, "samples of a worker [32]")->check(CLI::Range(1, 1 << 20))->type_name("B");
  app.add_option("--threads", o.threads, "of a worker, where computing is measured [1]")
      ->check(CLI::Range(1, 1024))
      ->type_name("T");
  text("--compute", o.compute, "HOW",
       "measured: here, now; gflops:X; or FILE, of laconic bench layers --json [measured]");
  text("--workers", o.workers, "N,..", "as 2,4,8, or 2..1024 by twos [1..64]");
  text("--link", o.link, "RATE,LATENCY",
       "of each worker's cable, as 10gbit,20us; headers of TCP take\n4 % of it [1gbit,100us]");
  text("--message-time", o.message, "TIME", "of a core, to send or take a message, as 10us [5us]");
  text("--allreduce", o.allreduce, "A", "as of a training program [ring]");
  text("--codec", o.codec, "C", "as of a training program [none]");
  app.add_flag("--codec-feedback", o.codec_feedback, "what a codec loses is added later: more work");
  text("--fusion", o.fusion, "F", "as of a training program [lazy:1MiB]");
  text("--chunk", o.chunk, "SIZE", "as of a training program [4MiB]");
  text("--overlap", o.overlap, "WHAT", "none, backward or forward [forward]");
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;

  const std::vector<int> workers = numbers_of_workers(o.workers);
  const GhostModel ghost(model_info(o.model).name, o.classes);
  const dist::PlanOptions options = plan_options_of(o);
  dist::SimulatedTraining training{.parameters = ghost.parameters(), .overlap = dist::overlap_named(o.overlap)};
  dist::VirtualNetwork network{.links = {.all = dist::LinkSpec::parse(o.link, "--link")}};
  const std::string cable = network.links.all.to_string();
  network.links.all.bits_per_second =
      static_cast<std::int64_t>(kPayload * static_cast<double>(network.links.all.bits_per_second));
  const double message = seconds_in(o.message, "--message-time");
  std::vector<dist::Plan> plans;
  std::vector<bool> mirrored;
  for (const int n : workers) {
    network.ranks = n;
    dist::PlanOptions own = options;
    if (n == 1) own.chunk_bytes = 0;  // nothing travels, nothing is hidden
    plans.push_back(dist::make_plan(ghost.arena.parameters(), own, n));
    mirrored.push_back(n > 1 && dist::is_alike(plans.back(), network));
    require<UsageError>(mirrored.back() || n <= kMostWhole, n, " workers do not all do the same with --allreduce ",
                        o.allreduce, network.links.all.jitter.count() > 0 ? " and the jitter of --link" : "",
                        ", and only ", kMostWhole,
                        " can be simulated one by one (--workers): take fewer, or ring without jitter");
  }
  training.codec_feedback = o.codec_feedback;
  training.times = times_of(o);
  network.work = dist::measure_sums();
  const dist::CodecSpeed codec = dist::measure_codec(o.codec);
  network.work.per_encoded_element = codec.encode, network.work.per_decoded_element = codec.decode;
  network.work.per_message = message;

  ResultTable table(o.markdown);
  table.title("");
  for (std::size_t i = 0; i < workers.size(); ++i) {
    network.ranks = workers[i];
    network.mirrored = mirrored[i];
    training.plan = plans[i];
    const dist::SimulatedStep step = dist::simulate_step(training, network);
    table.add({{"workers", "workers", workers[i]},
               {"ms a step", "step_ms", 1e3 * step.seconds, "{:.1f}"},
               {"computing", "compute_ms", 1e3 * step.compute_seconds, "{:.1f}"},
               {"exposed", "exposed_ms", 1e3 * step.exposed_seconds, "{:.1f}"},
               {"samples a second", "samples_per_second", workers[i] * o.batch / step.seconds, "{:.0f}"},
               {"of ideal", "efficiency", step.compute_seconds / step.seconds, "{:.1f} %", 100},
               {"MB sent a worker", "bytes_sent", step.bytes_sent, "{:.1f}", 1e-6}});
  }
  const std::string what = fmt::format("{}, batch {}, {}; {}; {}", o.model, o.batch, dist::to_string(options), cable,
                                       to_string(training.overlap));
  if (o.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{{"what", what}, {"compute", o.compute}, {"rows", table.objects()}}.dump());
    return 0;
  }
  fmt::print("{}\n{}\n{}\nSimulated: nothing was sent.\n",
             o.compute == "measured" ? machine() + "; computing measured here" : "computing: " + o.compute, what,
             table.text());
  return 0;
}

}  // namespace laconic
