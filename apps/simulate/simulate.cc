// laconic simulate: what a training step would take on a network that is not there.
#include <fmt/format.h>

#include <tuple>

#include "apps/bench/layers.h"
#include "apps/common/machine.h"
#include "apps/common/result_table.h"
#include "apps/common/tools.h"
#include "apps/launch/child_process.h"
#include "apps/simulate/options.h"
#include "core/base/json.h"
#include "core/base/parse.h"
#include "dist/predict/calibration.h"
#include "dist/predict/simulation.h"
#include "dist/server/shard.h"

namespace laconic {
namespace {

constexpr int kMostWhole = 64;              // ranks that are simulated one by one
constexpr double kPayload = 1448.0 / 1514;  // of a full Ethernet frame of TCP over IPv4, with time stamps

/// Measures once what several sets share.
class MeasuredWork {
 public:
  const dist::LayerTimes& times(const SimulateOptions& o) {
    if (o.replayed && !o.replayed->times.layers.empty()) return o.replayed->times;
    auto& kept = times_[{o.model, o.compute, o.classes, o.batch, o.threads}];
    if (kept.layers.empty()) kept = times_of(o);
    return kept;
  }
  double added_byte() {
    return kept(sums_, "", [] { return dist::measure_sums().per_added_byte; });
  }
  dist::CodecSpeed codec(const std::string& name) {
    return kept(codecs_, name, [&] { return dist::measure_codec(name); });
  }
  dist::ResidualSpeed residual(const dist::Choice& choice, double density) {
    return kept(residuals_, concat(dist::to_string(choice), " ", density),
                [&] { return dist::measure_residual(choice, density); });
  }

 private:
  template <class T, class F>
  static T kept(std::map<std::string, T>& all, const std::string& name, F measure) {
    const auto found = all.find(name);
    return found != all.end() ? found->second : all[name] = measure();
  }
  static dist::LayerTimes times_of(const SimulateOptions& o) {
    if (o.compute == "measured") return measure_layers(o.model, o.batch, o.threads, 15, "", o.classes);
    if (o.compute.rfind("gflops:", 0) == 0) {
      const auto rate = number_from<double>(o.compute.substr(7));
      require<UsageError>(rate && *rate > 0, "'", o.compute,
                          "' is no rate of computing (--compute): give gflops:X, as gflops:50");
      return layer_times_at(1e9 * *rate, o.model, o.classes, o.batch);
    }
    const std::string last = last_line_of(o.compute);
    require<DataError>(!last.empty(), o.compute,
                       " could not be read or is empty (--compute): give measured, gflops:X, or a file of laconic "
                       "bench layers --json");
    const dist::LayerTimes times = dist::layer_times_from(last, o.compute + " (--compute)");
    const nlohmann::json file = json_from(last, o.compute);
    const int batch = file.contains("batch") ? whole_in<int>(file["batch"]) : o.batch;
    require<UsageError>(batch == o.batch, o.compute, " was measured with a batch of ", batch, " (--compute), not of ",
                        o.batch, ": take that (--batch), or measure again");
    return times;
  }

  std::map<std::tuple<std::string, std::string, int, int, int>, dist::LayerTimes> times_;
  std::map<std::string, double> sums_;
  std::map<std::string, dist::CodecSpeed> codecs_;
  std::map<std::string, dist::ResidualSpeed> residuals_;
};

/// One training.
struct Run {
  dist::SimulatedTraining training;
  dist::VirtualNetwork network;
};

Run run_of(const SimulateOptions& o, const GhostModel& ghost) {
  Run run;
  const int workers = o.workers[0];
  dist::TrainingFacts& facts = run.training.facts;
  facts = {.workers = workers, .servers = o.servers.value_or(0), .momentum = 0.9, .overlap = o.overlap};
  if (const std::string of = o.method->traits().optimizer; !of.empty()) facts.optimizer = of;
  facts.plan = o.plan, facts.codec_feedback = o.codec_feedback, facts.layer_shares = o.layer_shares;
  const dist::LinkSpec& slower = o.slower_link();
  facts.latency_seconds = std::chrono::duration<double>(slower.latency).count();
  facts.seconds_per_byte = 8.0 / static_cast<double>(slower.bits_per_second);
  o.method->check(facts);
  dist::PlanOptions options = o.plan;
  o.method->shape(options, facts);
  constexpr int kMostServers = 1'000'000;
  require<UsageError>(facts.servers <= kMostServers, facts.servers, " servers are too many (--servers): give at most ",
                      kMostServers);
  run.network = {.ranks = workers + facts.servers,
                 .links = o.network()};
  if (run.network.ranks == 1) options.chunk_bytes = 0;  // nothing travels, nothing is hidden
  for (const auto& [rank, link] : o.link_of)
    require<UsageError>(rank < run.network.ranks, "there is no rank ", rank, " among ", run.network.ranks,
                        " (--link-of): ranks are 0 to ", run.network.ranks - 1);
  const auto payload = [](dist::LinkSpec& link) {
    link.bits_per_second = static_cast<std::int64_t>(kPayload * static_cast<double>(link.bits_per_second));
  };
  if (o.own_link) payload(run.network.links.all);
  payload(run.network.links.between);
  for (auto& [rank, link] : run.network.links.of) payload(link);
  run.network.payloads.bits_per_value = o.payload_bits;
  if (o.in_card)
    run.network.payloads.card_bytes_per_second = static_cast<double>(run.network.links.all.bits_per_second) / 8;
  run.training.parameters = dist::infos_of(ghost.arena.parameters());
  run.training.method = o.method, run.training.straggling = o.straggling;
  run.training.plan = dist::make_plan(ghost.arena.parameters(), options, workers);
  for (const dist::Bucket& b : run.training.plan.buckets)
    require<DataError>(o.layer_shares.empty() || o.layer_shares.contains(b.name), "the log tells nothing of the layer ",
                       b.name, " of ", o.model, " (--layer-shares): name one of this model and --layerdrop-unit.");
  run.network.mirrored = workers > 1 && dist::is_alike(run.training, run.network);
  require<UsageError>(run.network.mirrored || run.network.ranks <= kMostWhole, run.network.ranks,
                      " ranks do not all do the same here, and only ", kMostWhole,
                      " can be simulated one by one (--workers): take fewer, or a ring without jitter, stragglers, "
                      "servers, hosts and exceptions");
  return run;
}

/// The choice by which most elements are sent; nothing where all of each gradient travels.
std::optional<dist::Choice> main_choice(const dist::SimulatedTraining& training) {
  if (const dist::Bucket* const most = dist::largest_sparse(training.plan)) return most->choice;
  const std::string own = training.method->traits().chooses_by;
  return own.empty() ? std::nullopt : std::optional(dist::Choice{.selector = own});
}

dist::WorkCosts costs_of(const SimulateOptions& o, const Run& run, MeasuredWork& measured) {
  dist::WorkCosts work{.per_message = 5e-6};
  const std::string codec = o.in_card ? "none" : run.training.plan.codec;
  if (o.replayed) work = o.replayed->group.network(codec).work;
  if (o.bytes_added_a_second)
    work.per_added_byte = 1 / *o.bytes_added_a_second;
  else if (!o.replayed)
    work.per_added_byte = measured.added_byte();
  if (o.message_seconds) work.per_message = *o.message_seconds;
  if (o.shares_cores) work.taken_from_computing = *o.shares_cores ? 1 : 0;
  if (codec != "none" && !(o.replayed && o.replayed->group.codecs.contains(codec))) {
    const dist::CodecSpeed speed = measured.codec(codec);
    work.per_encoded_element = speed.encode, work.per_decoded_element = speed.decode;
  }
  if (const auto choice = main_choice(run.training)) {
    dist::PlanOptions options;
    run.training.method->shape(options, run.training.facts);
    const dist::ResidualSpeed residual = measured.residual(*choice, options.sparse.density);
    work.per_gathered_element = residual.gather, work.per_selected_element = residual.select;
    work.per_scattered_element = residual.scatter;
  }
  run.training.method->measure(work, run.training.facts);
  double update_ms = 0, elements = 0;
  for (const auto& layer : run.training.times.layers)
    for (const auto& p : layer.parameters) update_ms += p.update_ms, elements += static_cast<double>(p.elements);
  work.per_updated_element = 1e-3 * update_ms / std::max(1.0, elements);
  return work;
}

/// "resnet50, batch 32, ring, ...; 1 Gbit/s, 100 us; forward"
std::string in_words(const SimulateOptions& o, const dist::TrainingFacts& facts) {
  std::string way = o.method->describe(facts);
  if (o.method->traits().plan_is_all) way = dist::to_string(o.plan);
  if (o.in_card) way += " in the network card";
  std::string link = o.link->to_string();
  if (o.per_host > 0) link += fmt::format(" in hosts of {}, {} between them", o.per_host, o.link_between->to_string());
  return fmt::format("{}, batch {}, {}; {}; {}", o.model, o.batch, way, link, to_string(o.overlap));
}

/// A cell for a value of the axis. In JSON it is a number where it is one.
Cell cell_of(const std::string& axis, const std::string& value) {
  const auto number = number_from<double>(value);
  return {axis, axis, number ? Cell::Json(*number) : Cell::Json(value), value};
}

}  // namespace

int simulate(const std::vector<std::string>& arguments) {
  const Simulations asked = simulate_options(arguments);
  if (asked.sets.empty()) return 0;
  const SimulateOptions& first = asked.sets[0].points[0];
  const bool over_workers = asked.axis == "workers";
  // Options that make no sense are refused before anything is measured.
  std::vector<std::vector<Run>> all;
  std::string what;
  std::map<std::pair<std::string, int>, GhostModel> models;
  for (const Simulations::Set& set : asked.sets) {
    all.emplace_back();
    for (const SimulateOptions& o : set.points) {
      const std::string& model = model_info(o.model).name;
      all.back().push_back(run_of(o, models.try_emplace({model, o.classes}, model, o.classes).first->second));
    }
    what += (what.empty() ? "" : "\n") + (set.label.empty() ? "" : set.label + ": ") +
            in_words(set.points.back(), all.back().back().training.facts);
    if (!over_workers) what += fmt::format("; {} {}", asked.axis, asked.values.back());
  }
  std::string computing;  // that of all sets, or of each
  for (const Simulations::Set& set : asked.sets)
    for (const SimulateOptions& o : set.points)
      if ((", " + computing + ",").find(", " + o.compute + ",") == std::string::npos)
        computing += (computing.empty() ? "" : ", ") + o.compute;
  MeasuredWork measured;
  ResultTable table(first.markdown, "");
  for (std::size_t s = 0; s < all.size(); ++s) {
    const Simulations::Set& set = asked.sets[s];
    for (std::size_t p = 0; p < all[s].size(); ++p) {
      const SimulateOptions& o = set.points[p];
      Run& run = all[s][p];
      run.training.times = measured.times(o);
      run.network.work = costs_of(o, run, measured);
      const dist::SimulatedStep step = dist::simulate_step(run.training, run.network);
      const int workers = run.training.facts.workers;
      const double rate = static_cast<double>(workers) * o.batch / step.seconds;
      Cells row;
      if (!set.label.empty()) row.push_back({"set", "set", set.label});
      if (!over_workers) row.push_back(cell_of(asked.axis, asked.values[p]));
      row.insert(row.end(), {{"workers", "workers", workers},
                             {"ms a step", "step_ms", 1e3 * step.seconds, "{:.1f}"},
                             {"computing", "compute_ms", 1e3 * step.compute_seconds, "{:.1f}"},
                             {"exposed", "exposed_ms", 1e3 * step.exposed_seconds, "{:.1f}"},
                             {"samples a second", "samples_per_second", rate, "{:.0f}"},
                             {"of ideal", "efficiency", step.compute_seconds / step.seconds, "{:.1f} %", 100},
                             {"MB sent a worker", "bytes_sent", step.bytes_sent, "{:.1f}", 1e-6}});
      table.add(row);
    }
  }
  if (first.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{{"what", what}, {"compute", computing}, {"rows", table.objects()}}.dump());
    return 0;
  }
  fmt::print("{}\n{}\n{}\nSimulated: nothing was sent.\n",
             computing == "measured" ? machine() + "; computing measured here" : "computing: " + computing, what,
             table.text());
  return 0;
}

}  // namespace laconic
