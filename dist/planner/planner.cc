#include "dist/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compress/codecs.h"
#include "core/clock.h"
#include "dist/planner/replay.h"
#include "dist/planner/simulation.h"

namespace laconic::dist {
namespace {

constexpr std::size_t kBucketBytes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr std::size_t kChunkBytes[] = {0, 1 << 20, 4 << 20};
constexpr std::size_t kSimulated = 2;    // of the best candidates, beside the usual plan
constexpr int kMostRanksSimulated = 64;  // beyond, a step's simulation takes longer than it is worth
constexpr int kMostRanksOneByOne = 8;
constexpr double kWorthAnother = 0.999;  // a bucket's allreduce is exchanged for one with which the step is so short
constexpr int kPasses = 3;               // through all buckets
constexpr double kAsFast = 1.01;

/// The layers and messages of a step, for replay(): what a plan makes of the times.
class Schedule {
 public:
  Schedule(const PlanningFacts& facts, const Plan& plan) : facts_(facts), codec_(compress::make_codec(plan.codec)) {
    for (const LayerTimes::Layer& l : facts.times.layers) {
      for (const LayerTimes::Parameter& p : l.parameters) places_[p.name] = {static_cast<int>(layers_.size()), &p};
      layers_.push_back({l.name, 1e-3 * l.forward_ms, 1e-3 * l.backward_ms});
    }
    speed_ = facts.group.network(plan.codec).work;
    for (const Bucket& b : plan.buckets) {
      const ParameterInfo& first = facts.parameters[static_cast<std::size_t>(b.first)]->info;
      if (b.chunk() && b.rows.first > 0) {  // chunks of one weight are one message
        ++messages_.back().chunks;
        add_travel(messages_.back(), b);
        continue;
      }
      ReplayMessage m{.name = b.chunk() ? first.name : b.name, .layer = static_cast<int>(layers_.size())};
      for (int i = b.first; i < b.first + b.count; ++i) {
        const std::string& name = facts.parameters[static_cast<std::size_t>(i)]->info.name;
        const auto found = places_.find(name);
        require<DataError>(found != places_.end(), "plan: there is no time for parameter ", name,
                           ". Measure this model.");
        const auto& [layer, times] = found->second;
        if (layer < m.layer) m.layer = layer, m.ready_seconds = 0;
        if (layer == m.layer)
          m.ready_seconds = std::min(std::max(m.ready_seconds, 1e-3 * times->ready_ms),
                                     layers_[static_cast<std::size_t>(layer)].backward_seconds);
        m.update_seconds += 1e-3 * times->update_ms;
      }
      m.pieces = b.pieces;
      add_travel(m, b);
      messages_.push_back(m);
    }
  }

  Replay run() {
    Replay result = replay(layers_, messages_, facts_.overlap);
    double work = 0;
    for (const ReplayMessage& m : messages_) work += m.core_seconds;
    const double taken = speed_.taken_from_computing * work;
    if (taken == 0 || result.step_seconds == 0) return result;
    // Work that falls into computing makes it longer, and so the step.
    std::vector<ReplayLayer> slower = layers_;
    const double compute = result.compute_seconds;
    for (int i = 0; i < 2; ++i) {
      const double busy = std::min(1.0, compute / std::max(compute, result.step_seconds));
      const double factor = 1 + taken * busy / std::max(1e-9, compute);
      std::vector<ReplayMessage> messages = messages_;
      for (std::size_t l = 0; l < slower.size(); ++l) {
        slower[l].forward_seconds = factor * layers_[l].forward_seconds;
        slower[l].backward_seconds = factor * layers_[l].backward_seconds;
      }
      for (ReplayMessage& m : messages) m.ready_seconds *= factor, m.update_seconds *= factor;
      result = replay(slower, messages, facts_.overlap);
    }
    result.compute_seconds = compute;
    return result;
  }

  const std::vector<ReplayLayer>& layers() const { return layers_; }
  const std::vector<ReplayMessage>& messages() const { return messages_; }

 private:
  void add_travel(ReplayMessage& m, const Bucket& b) const {
    const int N = facts_.group.workers;
    const double elements = static_cast<double>(b.elements), bytes = 4 * elements;
    const auto cost = N > 1 ? allreduce_cost(b.allreduce, N, bytes, 1, codec_.get()) : std::nullopt;
    if (!cost) return;
    const double messages = cost->messages * std::max(1.0, static_cast<double>(b.pieces));
    m.link_seconds += cost->bytes / facts_.group.bytes_per_second;
    m.delay_seconds = std::max(m.delay_seconds, cost->messages * facts_.group.latency_seconds);
    m.core_seconds += 2 * (messages * speed_.per_message + cost->bytes * speed_.per_byte);
    if (codec_ && facts_.codec_feedback)  // what is lost is added, and found by decoding
      m.core_seconds += elements * (4 * speed_.per_added_byte + speed_.per_decoded_element);
    if (codec_)
      m.core_seconds += cost->bytes_added / 4 * (speed_.per_encoded_element + speed_.per_decoded_element) +
                        elements * (speed_.per_decoded_element + speed_.per_encoded_element / N);
    else
      m.core_seconds += cost->bytes_added * speed_.per_added_byte;
  }

  struct Place {
    int layer = 0;
    const LayerTimes::Parameter* times = nullptr;
  };
  const PlanningFacts& facts_;
  std::unique_ptr<const compress::Codec> codec_;
  WorkCosts speed_;
  std::map<std::string, Place> places_;
  std::vector<ReplayLayer> layers_;
  std::vector<ReplayMessage> messages_;
};

/// The allreduces that a bucket may take: those of ours with a formula, without groups.
std::vector<std::string> allreduces_for(const PlanningFacts& facts, const std::string& codec) {
  std::vector<std::string> names;
  const bool remembers = codec != "none" && compress::traits_of(codec).remembers;
  for (const AllreduceKind& kind : allreduces())
    if (kind.carrier == Carrier::messages && kind.least_group == 0 && kind.cost && !(remembers && kind.encodes_alike) &&
        allreduce_cost(kind.name, facts.group.workers, 1024))
      names.push_back(kind.name);
  return names;
}

/// The allreduce with which a bucket alone is summed soonest.
std::string soonest(const PlanningFacts& facts, const Plan& plan, const Bucket& b,
                    const std::vector<std::string>& names) {
  const auto codec = compress::make_codec(plan.codec);
  std::string best = "ring";
  double least = 0;
  for (const std::string& name : names) {
    const auto cost = allreduce_cost(name, facts.group.workers, 4.0 * static_cast<double>(b.elements), 1, codec.get());
    if (!cost) continue;
    const double seconds = cost->messages * facts.group.latency_seconds + cost->bytes / facts.group.bytes_per_second +
                           cost->bytes_added * facts.group.work.per_added_byte;
    if (least == 0 || seconds < least) least = seconds, best = name;
  }
  return best;
}

struct Option {
  PlanOptions sizes;
  std::string allreduces;  // "ring", or "each the soonest"
  Plan plan;
  double seconds = 0;
};

constexpr const char* kSoonest = "each bucket the soonest";

/// All uniform plans, and for each size the one in which every bucket travels as it alone would soonest.
std::vector<Option> options_for(const PlanningFacts& facts) {
  std::vector<Option> all;
  for (const std::string& codec : facts.allowed.codecs()) {
    std::vector<std::string> names = allreduces_for(facts, codec), ways = names;
    ways.emplace_back(kSoonest);
    for (const std::size_t bucket : kBucketBytes)
      for (const std::size_t chunk : kChunkBytes) {
        const PlanOptions sizes{.bucket_bytes = bucket, .chunk_bytes = chunk, .codec = codec};
        const Plan plan = make_plan(facts.parameters, sizes, facts.group.workers);
        for (const std::string& way : ways) {
          all.push_back({sizes, way, plan});
          for (Bucket& b : all.back().plan.buckets)
            b.allreduce = way == kSoonest ? soonest(facts, plan, b, names) : way;
          all.back().seconds = predict_step(facts, all.back().plan);
        }
      }
  }
  return all;
}

/// Exchanges one bucket's allreduce for another as long as the step becomes shorter.
void improve(const PlanningFacts& facts, Option& o) {
  const std::vector<std::string> names = allreduces_for(facts, o.plan.codec);
  bool improved = true;
  for (int pass = 0; improved && pass < kPasses; ++pass) {
    improved = false;
    for (Bucket& b : o.plan.buckets)
      for (const std::string& name : names) {
        if (name == b.allreduce) continue;
        const std::string before = std::exchange(b.allreduce, name);
        const double seconds = predict_step(facts, o.plan);
        if (seconds < kWorthAnother * o.seconds) {
          o.seconds = seconds, o.allreduces = "each its own";
          improved = true;
        } else {
          b.allreduce = before;
        }
      }
  }
}

std::string in_words(const Option& o) {
  PlanOptions p = o.sizes;
  std::set<std::string> used;
  for (const Bucket& b : o.plan.buckets) used.insert(b.allreduce);
  if (used.size() == 1) p.allreduce = *used.begin();
  std::string text = to_string(p);
  if (used.size() > 1) text.replace(0, p.allreduce.size(), fmt::format("{}", fmt::join(used, " and ")));
  return text;
}

/// Nothing where the group is too large for it.
std::optional<double> simulated(const PlanningFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .overlap = facts.overlap};
  training.facts.codec_feedback = facts.codec_feedback && plan.codec != "none";
  network.mirrored = is_alike(training, network);
  if (network.ranks > (network.mirrored ? kMostRanksSimulated : kMostRanksOneByOne)) return std::nullopt;
  for (const auto& p : facts.parameters) training.parameters.push_back(p->info);
  return simulate_step(training, network).seconds;
}

void add_lines(const PlanningFacts& facts, const Option& o, Receipt& receipt) {
  Schedule schedule(facts, o.plan);
  const Replay replayed = schedule.run();
  double forward = 0, backward_after = 0;
  std::vector<double> begins;  // of each layer in forward
  for (const ReplayLayer& l : schedule.layers()) begins.push_back(forward), forward += l.forward_seconds;
  std::vector<double> backward_begins(schedule.layers().size());
  for (std::size_t l = schedule.layers().size(); l-- > 0;) {
    backward_begins[l] = forward + backward_after;
    backward_after += schedule.layers()[l].backward_seconds;
  }
  const std::vector<std::string> names = allreduces_for(facts, o.plan.codec);
  std::size_t b = o.plan.buckets.size();
  for (std::size_t m = schedule.messages().size(); m-- > 0;) {  // the arena's order is that of backward
    const ReplayMessage& message = schedule.messages()[m];
    Receipt::Line line{.bucket = message.name};
    const std::size_t end = b;
    for (int c = 0; c < message.chunks; ++c) line.bytes += 4.0 * static_cast<double>(o.plan.buckets[--b].elements);
    const auto layer = static_cast<std::size_t>(message.layer);
    line.ready_ms = 1e3 * (backward_begins[layer] + message.ready_seconds), line.needed_ms = 1e3 * begins[layer];
    line.choice = o.plan.buckets[b].allreduce, line.waits_ms = 1e3 * replayed.waits[m];
    for (const std::string& name : names) {
      if (name == line.choice) continue;
      Plan other = o.plan;
      for (std::size_t i = b; i < end; ++i) other.buckets[i].allreduce = name;
      const double behind = 1e3 * (predict_step(facts, other) - replayed.step_seconds);
      if (line.runner_up.empty() || behind < line.behind_ms) line.runner_up = name, line.behind_ms = behind;
    }
    receipt.lines.push_back(line);
  }
}

}  // namespace

Allowed Allowed::parse(const std::string& text, const std::string& where) {
  Allowed a;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "16bit")
      a.sixteen_bits = true;
    else if (word.rfind("bounded:", 0) == 0)
      a.bounded = word.substr(8), compress::make_codec("inceptionn:" + *a.bounded, where);
    else
      require<UsageError>(word == "exact", "'", word, "' is nothing that a plan may do (", where,
                          "): give exact, or 16bit and bounded:2^-E with commas");
  }
  return a;
}

std::vector<std::string> Allowed::codecs() const {
  std::vector<std::string> names{"none"};
  if (sixteen_bits) names.emplace_back("bf16");
  if (bounded) names.push_back("inceptionn:" + *bounded);
  return names;
}

double predict_step(const PlanningFacts& facts, const Plan& plan) { return Schedule(facts, plan).run().step_seconds; }

Planned make_best_plan(const PlanningFacts& facts) {
  const auto begin = Clock::now();
  std::vector<Option> all = options_for(facts);
  const auto faster = [](const Option& a, const Option& b) { return a.seconds < b.seconds; };
  std::stable_sort(all.begin(), all.end(), faster);
  const Option usual = *std::find_if(all.begin(), all.end(), [](const Option& o) {
    const PlanOptions usual;
    return o.allreduces == usual.allreduce && o.sizes.bucket_bytes == usual.bucket_bytes &&
           o.sizes.chunk_bytes == usual.chunk_bytes && o.sizes.codec == usual.codec;
  });
  // The best of each codec and way, so that candidates differ in more than a size.
  std::vector<Option> best;
  std::set<std::pair<std::string, std::string>> kinds;
  for (const Option& o : all)
    if (kinds.insert({o.sizes.codec, o.allreduces}).second && best.size() < kSimulated) best.push_back(o);
  for (Option& o : best) improve(facts, o);
  best.push_back(usual);
  for (Option& o : best)
    if (const auto seconds = simulated(facts, o.plan)) o.seconds = *seconds;
  std::stable_sort(best.begin(), best.end(), faster);
  // What is as fast as the usual plan is not worth another one.
  const auto the_usual =
      std::find_if(best.begin(), best.end(), [&](const Option& o) { return o.plan.json() == usual.plan.json(); });
  if (the_usual->seconds <= kAsFast * best[0].seconds) std::rotate(best.begin(), the_usual, the_usual + 1);

  Planned planned{.plan = best[0].plan, .receipt = {}};
  Receipt& r = planned.receipt;
  r.group = facts.group.to_string(), r.measured = facts.group, r.layers = facts.times;
  r.plan = planned.plan.json(), r.codec_feedback = facts.codec_feedback && planned.plan.codec != "none";
  r.compute_ms = 1e3 * Schedule(facts, best[0].plan).run().compute_seconds, r.step_ms = 1e3 * best[0].seconds;
  for (const Option& o : best)
    if (std::none_of(r.candidates.begin(), r.candidates.end(), [&](const auto& c) { return c.plan == in_words(o); }))
      r.candidates.push_back({in_words(o), 1e3 * o.seconds});
  r.search_ms = 1e3 * seconds_since(begin);
  add_lines(facts, best[0], r);
  return planned;
}

}  // namespace laconic::dist
