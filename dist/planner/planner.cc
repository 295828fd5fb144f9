#include "dist/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "compress/codecs.h"
#include "core/clock.h"
#include "core/parse.h"
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
constexpr int kMostChanges = 100;        // of single buckets that are tried for a candidate
constexpr int kMostRunnersUp = 400;      // that are predicted for the receipt
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
    if (plan.sparse()) {
      require<Error>(facts.allowed.sparse != nullptr, "plan: it sends a choice, and no method that does is allowed.");
      density_ = facts.allowed.sparse_options(facts.group.workers).sparse.density;
    }
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
      if (b.sparse())
        add_choice(m, b);
      else
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

  /// All send all their choice, and each adds up those of all. The compute thread chooses when backward has passed.
  void add_choice(ReplayMessage& m, const Bucket& b) {
    const double others = facts_.group.workers - 1;
    const auto elements = static_cast<double>(b.elements);
    const auto chosen = static_cast<double>(elements_to_send(b.elements, density_));
    const double hops = std::ceil(std::log2(others + 1));  // allgatherv()
    const double bytes = others * (kBytesOfChoice * chosen + kHeaderBytes);
    m.link_seconds = bytes / facts_.group.bytes_per_second, m.delay_seconds = hops * facts_.group.latency_seconds;
    m.core_seconds = 2 * (hops * speed_.per_message + bytes * speed_.per_byte);
    m.update_seconds = (others + 1) * chosen * speed_.per_scattered_element;
    m.pieces = 1;
    ReplayLayer& layer = layers_[static_cast<std::size_t>(m.layer)];
    layer.backward_seconds += elements * (speed_.per_gathered_element + speed_.per_selected_element);
    m.ready_seconds = layer.backward_seconds;
  }

  static constexpr double kBytesOfChoice = 8, kHeaderBytes = 8;  // an index and a value; of a message

  struct Place {
    int layer = 0;
    const LayerTimes::Parameter* times = nullptr;
  };
  const PlanningFacts& facts_;
  std::unique_ptr<const compress::Codec> codec_;
  WorkCosts speed_;
  double density_ = 1;  // of a sparse plan
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

constexpr const char* kSparse = "sparse";

struct Option {
  PlanOptions sizes;
  std::string allreduces;  // "ring", or "each the soonest"
  Plan plan;
  double seconds = 0;

  /// Options of one kind differ in sizes and in allreduces.
  std::string kind() const { return plan.sparse() ? kSparse : sizes.codec; }
};

constexpr const char* kSoonest = "each bucket the soonest";

/// Makes plans and compares them by prediction.
class Search {
 public:
  explicit Search(const PlanningFacts& facts) : facts_(facts) {}

  double predict(const Plan& plan) {
    ++predictions_;
    return predict_step(facts_, plan);
  }
  int predictions() const { return predictions_; }

  /// All uniform plans, and for each size the one in which every bucket travels as it alone would soonest.
  std::vector<Option> options() {
    std::vector<Option> all;
    for (const PlanOptions& kind : kinds()) {
      std::vector<std::string> names = allreduces_for(facts_, kind.codec), ways = names;
      ways.emplace_back(kSoonest);
      std::set<std::string> known;  // a small model has the same messages by several sizes
      for (const std::size_t bucket : kBucketBytes)
        for (const std::size_t chunk : kChunkBytes) {
          PlanOptions sizes = kind;
          sizes.bucket_bytes = bucket, sizes.chunk_bytes = chunk;
          const Plan plan = make_plan(facts_.parameters, sizes, facts_.group.workers);
          const bool is_usual = bucket == PlanOptions().bucket_bytes && chunk == PlanOptions().chunk_bytes;
          if (!known.insert(plan.json()).second && !is_usual) continue;
          for (const std::string& way : ways) {
            all.push_back({sizes, way, plan});
            for (Bucket& b : all.back().plan.buckets)
              b.allreduce = way == kSoonest ? soonest(facts_, plan, b, names) : way;
            all.back().seconds = predict(all.back().plan);
          }
        }
    }
    return all;
  }

  /// Exchanges one bucket's allreduce for another as long as the step becomes shorter. Those that are waited for
  /// longest come first, as not all changes of many buckets are tried.
  void improve(Option& o) {
    const std::vector<std::string> names = allreduces_for(facts_, o.plan.codec);
    const std::vector<std::size_t> order = by_waits(o.plan);
    int left = kMostChanges;
    bool improved = true;
    for (int pass = 0; improved && pass < kPasses; ++pass) {
      improved = false;
      for (const std::size_t place : order)
        for (const std::string& name : names) {
          Bucket& b = o.plan.buckets[place];
          if (name == b.allreduce || b.sparse() || left-- <= 0) continue;
          const std::string before = std::exchange(b.allreduce, name);
          const double seconds = predict(o.plan);
          if (seconds < kWorthAnother * o.seconds) {
            o.seconds = seconds, o.allreduces = "each its own";
            improved = true;
          } else {
            b.allreduce = before;
          }
        }
    }
  }

 private:
  /// The plan's buckets, the one first for which the compute thread stands still longest.
  std::vector<std::size_t> by_waits(const Plan& plan) {
    ++predictions_;
    const std::vector<double> waits = Schedule(facts_, plan).run().waits;
    std::vector<double> of_bucket;
    std::size_t message = 0;
    for (const Bucket& b : plan.buckets) {
      if (!b.chunk() || b.rows.first == 0) ++message;
      of_bucket.push_back(waits[message - 1]);
    }
    std::vector<std::size_t> order(plan.buckets.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return of_bucket[a] > of_bucket[b]; });
    return order;
  }

  /// Each codec that is allowed, and a choice of elements, if that is, and any parameter is large enough for one.
  std::vector<PlanOptions> kinds() const {
    std::vector<PlanOptions> all;
    if (!facts_.sparse_alone)
      for (const std::string& codec : facts_.allowed.codecs()) all.push_back({.codec = codec});
    if (!facts_.allowed.sparse || facts_.group.workers == 1) return all;
    const PlanOptions sparse = facts_.allowed.sparse_options(facts_.group.workers);
    if (make_plan(facts_.parameters, sparse, facts_.group.workers).sparse()) all.push_back(sparse);
    return all;
  }

  const PlanningFacts& facts_;
  int predictions_ = 0;
};

/// The best of each kind, at most so many; then the best of other ways, so that candidates differ in more than a size.
std::vector<Option> best_of(const std::vector<Option>& sorted, std::size_t most) {
  std::vector<Option> best;
  std::set<std::string> kinds;
  std::set<std::pair<std::string, std::string>> ways;
  for (const Option& o : sorted)
    if (best.size() < most && kinds.insert(o.kind()).second) best.push_back(o), ways.insert({o.kind(), o.allreduces});
  for (const Option& o : sorted)
    if (best.size() < most && ways.insert({o.kind(), o.allreduces}).second) best.push_back(o);
  return best;
}

std::string in_words(const PlanningFacts& facts, const Option& o) {
  PlanOptions p = o.sizes;
  std::set<std::string> used;
  for (const Bucket& b : o.plan.buckets) used.insert(b.allreduce);
  if (used.size() == 1) p.allreduce = *used.begin();
  std::string text = to_string(p);
  if (used.size() > 1) text.replace(0, p.allreduce.size(), fmt::format("{}", fmt::join(used, " and ")));
  if (!o.plan.sparse()) return text;
  return facts.allowed.sparse->describe({.workers = facts.group.workers}) + ", the rest " + text;
}

/// Nothing where the group is too large for it.
std::optional<double> simulated(const PlanningFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .momentum = facts.momentum, .overlap = facts.overlap};
  if (plan.sparse()) training.method = facts.allowed.sparse;
  training.facts.codec_feedback = facts.codec_feedback && plan.codec != "none";
  network.mirrored = is_alike(training, network);
  if (network.ranks > (network.mirrored ? kMostRanksSimulated : kMostRanksOneByOne)) return std::nullopt;
  for (const auto& p : facts.parameters) training.parameters.push_back(p->info);
  return simulate_step(training, network).seconds;
}

void add_lines(const PlanningFacts& facts, Search& search, const Option& o, Receipt& receipt) {
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
  const int most = search.predictions() + kMostRunnersUp;
  std::size_t b = o.plan.buckets.size();
  for (std::size_t m = schedule.messages().size(); m-- > 0;) {  // the arena's order is that of backward
    const ReplayMessage& message = schedule.messages()[m];
    Receipt::Line line{.bucket = message.name};
    const std::size_t end = b;
    for (int c = 0; c < message.chunks; ++c) line.bytes += 4.0 * static_cast<double>(o.plan.buckets[--b].elements);
    const auto layer = static_cast<std::size_t>(message.layer);
    line.ready_ms = 1e3 * (backward_begins[layer] + message.ready_seconds), line.needed_ms = 1e3 * begins[layer];
    const Bucket& bucket = o.plan.buckets[b];
    line.choice = bucket.sparse() ? to_string(bucket.choice) : bucket.allreduce;
    line.waits_ms = 1e3 * replayed.waits[m];
    for (const std::string& name : names) {
      if (name == line.choice || bucket.sparse() || search.predictions() >= most) continue;
      Plan other = o.plan;
      for (std::size_t i = b; i < end; ++i) other.buckets[i].allreduce = name;
      const double behind = 1e3 * (search.predict(other) - replayed.step_seconds);
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
    if (word == "16bit") {
      a.sixteen_bits = true;
    } else if (word.starts_with("bounded:")) {
      a.bounded = word.substr(8), compress::make_codec("inceptionn:" + *a.bounded, where);
    } else if (word == "sparse") {
      a.sparse = method("redsync");
    } else if (word.starts_with("sparse:")) {
      const double density = real(word.substr(7), where, 0, 1, "sparse:0.001");
      require<UsageError>(density > 0, "no elements are nothing to send (", where, "): give a share, as sparse:0.001");
      a.sparse = method("redsync", {{"density", number_text(density)}});
    } else {
      require<UsageError>(word == "exact", "'", word, "' is nothing that a plan may do (", where,
                          "): give exact, or 16bit, bounded:2^-E and sparse with commas");
    }
  }
  return a;
}

void Allowed::check(const TrainingFacts& facts) const {
  if (!sparse) return;
  try {
    sparse->check(facts);
  } catch (const UsageError& e) {
    throw UsageError(concat("`allow` sparse may take `sync` ", sparse->name(), ", and ", e.what()));
  }
}

PlanOptions Allowed::sparse_options(int workers) const {
  PlanOptions options;
  sparse->shape(options, {.workers = workers});
  return options;
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
  Search search(facts);
  std::vector<Option> all = search.options();
  const auto faster = [](const Option& a, const Option& b) { return a.seconds < b.seconds; };
  std::stable_sort(all.begin(), all.end(), faster);
  const Option usual = *std::find_if(all.begin(), all.end(), [&](const Option& o) {
    const PlanOptions usual;
    return o.kind() == (facts.sparse_alone ? kSparse : usual.codec) && o.allreduces == usual.allreduce &&
           o.sizes.bucket_bytes == usual.bucket_bytes && o.sizes.chunk_bytes == usual.chunk_bytes;
  });
  std::vector<Option> best = best_of(all, kSimulated);
  for (Option& o : best) search.improve(o);
  best.push_back(usual);
  const double search_ms = 1e3 * seconds_since(begin);
  const int predictions = search.predictions();
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
  if (planned.plan.sparse()) r.sync = facts.allowed.sparse->name(), r.density = best[0].sizes.sparse.density;
  r.compute_ms = 1e3 * Schedule(facts, best[0].plan).run().compute_seconds, r.step_ms = 1e3 * best[0].seconds;
  for (const Option& o : best)
    if (const std::string words = in_words(facts, o);
        std::none_of(r.candidates.begin(), r.candidates.end(), [&](const auto& c) { return c.plan == words; }))
      r.candidates.push_back({words, 1e3 * o.seconds});
  r.search_ms = search_ms, r.predictions = predictions;
  add_lines(facts, search, best[0], r);
  return planned;
}

}  // namespace laconic::dist
