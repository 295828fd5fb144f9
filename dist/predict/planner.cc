#include "dist/predict/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "compress/codecs.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "dist/predict/replay.h"
#include "dist/predict/simulation.h"

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

/// Holds what all plans of a model share: its layers, and where in them each parameter's gradient comes.
class Timings {
 public:
  explicit Timings(const PlanningFacts& facts) : facts(facts) {
    std::map<std::string, Place> by_name;
    for (const LayerTimes::Layer& l : facts.times.layers) {
      for (const LayerTimes::Parameter& p : l.parameters)
        by_name[p.name] = {static_cast<int>(layers.size()), 1e-3 * p.ready_ms, 1e-3 * p.update_ms};
      layers.push_back({l.name, 1e-3 * l.forward_ms, 1e-3 * l.backward_ms});
    }
    for (const auto& p : facts.parameters) {
      const auto found = by_name.find(p->info.name);
      require<DataError>(found != by_name.end(), "plan: there is no time for parameter ", p->info.name,
                         ". Measure this model.");
      places.push_back(found->second);
    }
  }

  struct Place {
    int layer = 0;
    double ready_seconds = 0, update_seconds = 0;
  };
  struct Coding {
    std::unique_ptr<const compress::Codec> codec;
    WorkCosts work{};
  };
  const Coding& coding(const std::string& codec) {
    const auto [place, is_new] = codings_.try_emplace(codec);
    if (is_new) place->second = {compress::make_codec(codec), facts.group.network(codec).work};
    return place->second;
  }

  const PlanningFacts& facts;
  std::vector<ReplayLayer> layers;
  std::vector<Place> places;  // by the parameter's place in the arena

 private:
  std::map<std::string, Coding> codings_;
};

/// The layers and messages of a step, for replay(): what a plan makes of the times.
class Schedule {
 public:
  Schedule(Timings& timings, const Plan& plan)
      : facts_(timings.facts),
        codec_(timings.coding(plan.codec).codec.get()),
        speed_(timings.coding(plan.codec).work),
        layers_(timings.layers) {
    if (const MethodChoice* choice = method_of(plan)) {
      period_ = static_cast<double>(choice->method->traits().every);
      if (plan.sparse()) density_ = choice->options(facts_.group.workers).sparse.density;
    }
    messages_.reserve(plan.buckets.size());
    for (const Bucket& b : plan.buckets) {
      const ParameterInfo& first = facts_.parameters[static_cast<std::size_t>(b.first)]->info;
      if (b.chunk() && b.rows.first > 0) {  // chunks of one weight are one message
        if (b.sparse()) continue;
        ++messages_.back().chunks;
        add_travel(messages_.back(), b);
        continue;
      }
      ReplayMessage m{.name = b.chunk() ? first.name : b.name, .layer = static_cast<int>(layers_.size())};
      for (int i = b.first; i < b.first + b.count; ++i) {
        const Timings::Place& place = timings.places[static_cast<std::size_t>(i)];
        if (place.layer < m.layer) m.layer = place.layer, m.ready_seconds = 0;
        if (place.layer == m.layer)
          m.ready_seconds = std::min(std::max(m.ready_seconds, place.ready_seconds),
                                     layers_[static_cast<std::size_t>(place.layer)].backward_seconds);
        m.update_seconds += place.update_seconds;
      }
      m.pieces = b.pieces;
      if (b.sparse())
        add_choice(m, b);
      else
        add_travel(m, b);
      messages_.push_back(std::move(m));
    }
  }

  /// One step in which all messages travel.
  Replay run() const {
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

  /// The mean of a period in which they travel once; `with` : the step in which they do.
  double mean_step(double with, double without) const { return (with + (period_ - 1) * without) / period_; }
  double mean_step() const {
    const Replay r = run();
    return mean_step(r.step_seconds, r.compute_seconds);
  }
  double period() const { return period_; }

  const std::vector<ReplayLayer>& layers() const { return layers_; }
  const std::vector<ReplayMessage>& messages() const { return messages_; }

 private:
  void add_travel(ReplayMessage& m, const Bucket& b) const {
    const int N = facts_.group.workers;
    const double elements = static_cast<double>(b.elements), bytes = 4 * elements;
    const auto cost = N > 1 ? allreduce_cost(b.allreduce, N, bytes, 1, codec_) : std::nullopt;
    if (!cost) return;
    const double messages = cost->messages * std::max(1.0, static_cast<double>(b.pieces));
    m.link_seconds += cost->bytes / facts_.group.bytes_per_second;
    const double hops = allreduce_cost(b.allreduce, N, sizeof(float), 1)->messages;  // in which pieces fly together
    m.delay_seconds = std::max(m.delay_seconds, hops * facts_.group.latency_seconds);
    m.core_seconds += 2 * (messages * speed_.per_message + cost->bytes * speed_.per_byte);
    if (codec_ && facts_.codec_feedback)  // what is lost is added, and found by decoding
      m.core_seconds += elements * (4 * speed_.per_added_byte + speed_.per_decoded_element);
    if (codec_)
      m.core_seconds += cost->bytes_added / 4 * (speed_.per_encoded_element + speed_.per_decoded_element) +
                        elements * (speed_.per_decoded_element + speed_.per_encoded_element / N);
    else
      m.core_seconds += cost->bytes_added * speed_.per_added_byte;
  }

  const MethodChoice* method_of(const Plan& plan) const {
    const MethodChoice* choice = facts_.allowed.find(plan.sync);
    require<Error>(choice != nullptr || (plan.sync.empty() && !plan.sparse()), "plan: it is for `sync` ", plan.sync,
                   ", which is not allowed.");
    return choice;
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

  const PlanningFacts& facts_;
  const compress::Codec* const codec_;
  const WorkCosts speed_;
  double density_ = 1;  // of a plan that sends a choice
  double period_ = 1;   // steps from exchange to exchange
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

  /// Options of one kind differ in sizes and in allreduces.
  std::string kind() const { return plan.sync + " " + sizes.codec; }
};

constexpr const char* kSoonest = "each bucket the soonest";

/// Makes plans and compares them by prediction.
class Search {
 public:
  explicit Search(const PlanningFacts& facts) : facts_(facts), timings_(facts) {}

  Schedule schedule(const Plan& plan) {
    ++predictions_;
    return Schedule(timings_, plan);
  }
  double predict(const Plan& plan) { return schedule(plan).mean_step(); }
  int predictions() const { return predictions_; }

  /// All uniform plans, and for each size the one in which every bucket travels as it alone would soonest.
  std::vector<Option> options() {
    std::vector<Option> all;
    for (const auto& [sync, kind] : kinds()) {
      std::vector<std::string> names = allreduces_for(facts_, kind.codec), ways = names;
      ways.emplace_back(kSoonest);
      std::vector<Plan> known;  // a small model has the same messages by several sizes
      for (const std::size_t bucket : kBucketBytes)
        for (const std::size_t chunk : kChunkBytes) {
          PlanOptions sizes = kind;
          sizes.bucket_bytes = bucket, sizes.chunk_bytes = chunk;
          Plan plan = make_plan(facts_.parameters, sizes, facts_.group.workers);
          plan.sync = sync;
          const bool is_usual = bucket == PlanOptions().bucket_bytes && chunk == PlanOptions().chunk_bytes;
          if (std::find(known.begin(), known.end(), plan) != known.end() && !is_usual) continue;
          known.push_back(plan);
          for (const std::string& way : ways) {
            all.push_back({sizes, way, plan});
            for (Bucket& b : all.back().plan.buckets)
              b.allreduce = way == kSoonest ? soonest(facts_, plan, b, names) : way;
            const Schedule step = schedule(all.back().plan);
            const Replay replay = step.run();
            all.back().seconds = step.mean_step(replay.step_seconds, replay.compute_seconds);
            if (sync.empty()) add_rounds(all, replay);
          }
        }
    }
    if (!facts_.only.empty()) std::erase_if(all, [&](const Option& o) { return o.plan.sync != facts_.only; });
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
  /// The last of `all` as the plan of each method that sends what it sends, but once in a period.
  void add_rounds(std::vector<Option>& all, const Replay& replay) {
    const std::size_t last = all.size() - 1;
    for (const MethodChoice& choice : facts_.allowed.methods) {
      if (choice.method->traits().chooses) continue;
      Option o = all[last];
      o.plan.sync = choice.method->name();
      o.seconds = Schedule(timings_, o.plan).mean_step(replay.step_seconds, replay.compute_seconds);
      all.push_back(std::move(o));
    }
  }

  /// The plan's buckets, the one first for which the compute thread stands still longest.
  std::vector<std::size_t> by_waits(const Plan& plan) {
    const std::vector<double> waits = schedule(plan).run().waits;
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

  struct Kind {
    std::string sync;  // as Plan::sync
    PlanOptions options;
  };
  /// Each codec that is allowed, and a choice of elements, if that is, and any parameter is large enough for one.
  std::vector<Kind> kinds() const {
    std::vector<Kind> all;
    for (const std::string& codec : facts_.allowed.codecs()) all.push_back({"", {.codec = codec}});
    if (facts_.group.workers == 1) return all;
    for (const MethodChoice& choice : facts_.allowed.methods) {
      const PlanOptions options = choice.options(facts_.group.workers);
      if (make_plan(facts_.parameters, options, facts_.group.workers).sparse())
        all.push_back({choice.method->name(), options});
    }
    return all;
  }

  const PlanningFacts& facts_;
  Timings timings_;
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
  const std::string allreduce = fmt::format("{}", fmt::join(used, " and "));
  if (used.size() > 1) text.replace(0, p.allreduce.size(), allreduce);
  const MethodChoice* choice = facts.allowed.find(o.plan.sync);
  if (choice == nullptr) return text;
  if (o.plan.sparse()) return choice->method->describe({.workers = facts.group.workers}) + ", the rest " + text;
  p.allreduce = allreduce;  // with which the description ends
  return choice->method->describe({.workers = facts.group.workers, .plan = p}) + text.substr(allreduce.size());
}

/// Nothing where the group is too large for it. What sends once in a period is simulated as if each step were so.
std::optional<SimulatedStep> simulated(const PlanningFacts& facts, const Plan& plan) {
  VirtualNetwork network = facts.group.network(plan.codec);
  SimulatedTraining training{.times = facts.times, .plan = plan};
  training.facts = {.workers = network.ranks, .momentum = facts.momentum, .overlap = facts.overlap};
  if (plan.sparse()) training.method = facts.allowed.find(plan.sync)->method;
  training.facts.codec_feedback = facts.codec_feedback && plan.codec != "none";
  network.mirrored = is_alike(training, network);
  if (network.ranks > (network.mirrored ? kMostRanksSimulated : kMostRanksOneByOne)) return std::nullopt;
  for (const auto& p : facts.parameters) training.parameters.push_back(p->info);
  return simulate_step(training, network);
}

void add_lines(const PlanningFacts& facts, Search& search, const Option& o, Receipt& receipt) {
  const Schedule schedule = search.schedule(o.plan);
  const Replay replayed = schedule.run();
  const double step_seconds = schedule.mean_step(replayed.step_seconds, replayed.compute_seconds);
  receipt.compute_ms = 1e3 * replayed.compute_seconds;
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
    line.waits_ms = 1e3 * replayed.waits[m] / schedule.period();
    for (const std::string& name : names) {
      if (name == line.choice || bucket.sparse() || search.predictions() >= most) continue;
      Plan other = o.plan;
      for (std::size_t i = b; i < end; ++i) other.buckets[i].allreduce = name;
      const double behind = 1e3 * (search.predict(other) - step_seconds);
      if (line.runner_up.empty() || behind < line.behind_ms) line.runner_up = name, line.behind_ms = behind;
    }
    receipt.lines.push_back(line);
  }
}

}  // namespace

Allowed Allowed::parse(const std::string& text, const std::string& where) {
  Allowed a;
  const auto add = [&](MethodChoice choice) {
    require<UsageError>(a.find(choice.method->name()) == nullptr, "'", text, "' names ", choice.method->name(),
                        " twice (", where, "): leave one of them out");
    a.methods.push_back(std::move(choice));
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "16bit") {
      a.sixteen_bits = true;
    } else if (word.starts_with("bounded:")) {
      a.bounded = word.substr(8), compress::make_codec("inceptionn:" + *a.bounded, where);
    } else if (word == "sparse") {
      add({"redsync", {}});
    } else if (word.starts_with("sparse:")) {
      const double density = real(word.substr(7), where, 0, 1, "sparse:0.001");
      require<UsageError>(density > 0, "no elements are nothing to send (", where, "): give a share, as sparse:0.001");
      add({"redsync", {{"density", number_text(density)}}});
    } else if (word == "rounds") {
      add({"rounds", {}});
    } else if (word.starts_with("rounds:")) {
      const auto steps = whole<std::int64_t>(word.substr(7), where, 1);
      add({"rounds", {{"every", std::to_string(steps)}}});
    } else {
      require<UsageError>(word == "exact", "'", word, "' is nothing that a plan may do (", where,
                          "): give exact, or 16bit, bounded:2^-E, sparse and rounds with commas");
    }
  }
  return a;
}

void Allowed::check(const TrainingFacts& facts) const {
  for (const MethodChoice& choice : methods) {
    try {
      choice.method->check(facts);
    } catch (const UsageError& e) {
      throw UsageError(concat("`allow` may take `sync` ", choice.method->name(), ", and ", e.what()));
    }
  }
}

const MethodChoice* Allowed::find(const std::string& name) const {
  for (const MethodChoice& choice : methods)
    if (choice.method->name() == name) return &choice;
  return nullptr;
}

PlanOptions MethodChoice::options(int workers) const {
  PlanOptions options;
  method->shape(options, {.workers = workers});
  return options;
}

std::vector<std::string> Allowed::codecs() const {
  std::vector<std::string> names{"none"};
  if (sixteen_bits) names.emplace_back("bf16");
  if (bounded) names.push_back("inceptionn:" + *bounded);
  return names;
}

double predict_step(const PlanningFacts& facts, const Plan& plan) {
  Timings timings(facts);
  return Schedule(timings, plan).mean_step();
}

double simulate_plan(const PlanningFacts& facts, const Plan& plan) {
  Timings timings(facts);
  const Schedule schedule(timings, plan);
  const auto step = simulated(facts, plan);
  return step ? schedule.mean_step(step->seconds, step->compute_seconds) : schedule.mean_step();
}

Planned make_best_plan(const PlanningFacts& facts) {
  const auto begin = Clock::now();
  Search search(facts);
  std::vector<Option> all = search.options();
  const auto faster = [](const Option& a, const Option& b) { return a.seconds < b.seconds; };
  std::stable_sort(all.begin(), all.end(), faster);
  const Option usual = *std::find_if(all.begin(), all.end(), [&](const Option& o) {
    const PlanOptions usual;
    return o.plan.sync == facts.only && o.sizes.codec == usual.codec && o.allreduces == usual.allreduce &&
           o.sizes.bucket_bytes == usual.bucket_bytes && o.sizes.chunk_bytes == usual.chunk_bytes;
  });
  std::vector<Option> best = best_of(all, kSimulated);
  for (Option& o : best) search.improve(o);
  best.push_back(usual);
  const double search_ms = 1e3 * seconds_since(begin);
  const int predictions = search.predictions();
  for (Option& o : best) o.seconds = simulate_plan(facts, o.plan);
  std::stable_sort(best.begin(), best.end(), faster);
  // What is as fast as the usual plan is not worth another one.
  const auto the_usual =
      std::find_if(best.begin(), best.end(), [&](const Option& o) { return o.plan == usual.plan; });
  if (the_usual->seconds <= kAsFast * best[0].seconds) std::rotate(best.begin(), the_usual, the_usual + 1);

  Planned planned{.plan = best[0].plan, .receipt = {}};
  Receipt& r = planned.receipt;
  r.group = facts.group.to_string(), r.measured = facts.group, r.layers = facts.times;
  r.plan = planned.plan.json(), r.codec_feedback = facts.codec_feedback && planned.plan.codec != "none";
  if (const MethodChoice* choice = facts.allowed.find(planned.plan.sync))
    r.sync = choice->method->name(), r.settings = choice->settings;
  r.step_ms = 1e3 * best[0].seconds;
  for (const Option& o : best)
    if (const std::string words = in_words(facts, o);
        std::none_of(r.candidates.begin(), r.candidates.end(), [&](const auto& c) { return c.plan == words; }))
      r.candidates.push_back({words, 1e3 * o.seconds});
  r.search_ms = search_ms, r.predictions = predictions;
  add_lines(facts, search, best[0], r);
  return planned;
}

}  // namespace laconic::dist
