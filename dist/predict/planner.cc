#include "dist/predict/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/clock.h"

namespace laconic::dist {
namespace {

constexpr std::size_t kBucketBytes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr std::size_t kChunkBytes[] = {0, 1 << 20, 4 << 20};
constexpr std::size_t kSimulated = 2;    // of the best candidates, beside the usual plan
constexpr double kWorthAnother = 0.999;  // a bucket's allreduce is exchanged for one with which the step is so short
constexpr int kPasses = 3;               // through all buckets
constexpr int kMostChanges = 100;        // of single buckets that are tried for a candidate
constexpr int kMostRunnersUp = 400;      // that are predicted for the receipt
constexpr double kAsFast = 1.01;
constexpr const char* kSoonest = "each bucket the soonest";

struct Candidate {
  PlanOptions sizes;
  std::string allreduces;  // "ring", or kSoonest
  Plan plan;
  double seconds = 0;

  /// Candidates of one kind differ in sizes and in allreduces.
  std::string kind() const { return plan.sync + " " + sizes.codec; }
};

bool is_faster(const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; }

/// Makes plans and compares them by prediction.
class Search {
 public:
  explicit Search(const PredictionFacts& facts) : predictor(facts), facts_(facts) {}

  Schedule schedule(const Plan& plan) {
    ++predictions;
    return predictor.schedule(plan);
  }

  /// All uniform plans, and for each size the one in which every bucket travels as it alone would soonest.
  std::vector<Candidate> candidates() {
    std::vector<Candidate> all;
    for (const auto& [sync, kind] : kinds()) {
      std::vector<Plan> known;  // a small model has the same messages by several sizes
      for (const std::size_t bucket : kBucketBytes)
        for (const std::size_t chunk : kChunkBytes) {
          PlanOptions sizes = kind;
          sizes.bucket_bytes = bucket, sizes.chunk_bytes = chunk;
          Plan plan = make_plan(facts_.parameters, sizes, facts_.group.workers);
          plan.sync = sync;
          const bool is_usual = bucket == PlanOptions().bucket_bytes && chunk == PlanOptions().chunk_bytes;
          if (std::ranges::find(known, plan) != known.end() && !is_usual) continue;
          known.push_back(plan);
          add_ways(all, sizes, plan);
        }
    }
    return all;
  }

  /// Exchanges one bucket's allreduce for another as long as the step becomes shorter. Those that are waited for
  /// longest come first, as not all changes of many buckets are tried.
  void improve(Candidate& c) {
    const std::vector<std::string> names = predictor.allreduces(c.plan.codec);
    const std::vector<std::size_t> order = by_waits(c.plan);
    int left = kMostChanges;
    bool improved = true;
    for (int pass = 0; improved && pass < kPasses; ++pass) {
      improved = false;
      for (const std::size_t place : order)
        for (const std::string& name : names) {
          Bucket& b = c.plan.buckets[place];
          if (name == b.allreduce || b.sparse() || left-- <= 0) continue;
          const std::string before = std::exchange(b.allreduce, name);
          const double seconds = schedule(c.plan).mean_seconds();
          if (seconds < kWorthAnother * c.seconds) {
            c.seconds = seconds, c.allreduces = "each its own";
            improved = true;
          } else {
            b.allreduce = before;
          }
        }
    }
  }

  Predictor predictor;
  int predictions = 0;

 private:
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

  /// A plan by each allreduce, by each bucket's soonest, and those as the plans of each method that sends what sums
  /// send, but once in a period.
  void add_ways(std::vector<Candidate>& all, const PlanOptions& sizes, const Plan& plan) {
    const std::vector<std::string> names = predictor.allreduces(sizes.codec);
    std::vector<std::string> ways = names;
    ways.emplace_back(kSoonest);
    for (const std::string& way : ways) {
      Candidate c{sizes, way, plan};
      for (Bucket& b : c.plan.buckets) b.allreduce = way == kSoonest ? predictor.soonest(plan, b, names) : way;
      Schedule step = schedule(c.plan);
      c.seconds = step.mean_seconds();
      all.push_back(c);
      if (!plan.sync.empty()) continue;
      for (const MethodChoice& choice : facts_.allowed.methods) {
        if (choice.method->traits().chooses) continue;
        step.period = static_cast<double>(choice.method->traits().every);
        c.plan.sync = choice.method->name(), c.seconds = step.mean_seconds();
        all.push_back(c);
      }
    }
  }

  /// The plan's buckets, the one first for which the compute thread stands still longest.
  std::vector<std::size_t> by_waits(const Plan& plan) {
    const Schedule step = schedule(plan);
    std::vector<std::size_t> order(plan.buckets.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t b) { return step.replay.waits[step.message_of[b]]; });
    return order;
  }

  const PredictionFacts& facts_;
};

/// The plan that is made where nothing is asked for.
Candidate usual_of(const std::vector<Candidate>& all, const std::string& only) {
  const PlanOptions usual;
  return *std::ranges::find_if(all, [&](const Candidate& c) {
    return c.plan.sync == only && c.sizes.codec == usual.codec && c.allreduces == usual.allreduce &&
           c.sizes.bucket_bytes == usual.bucket_bytes && c.sizes.chunk_bytes == usual.chunk_bytes;
  });
}

/// The best of each kind, at most `most`; then the best of other ways, so that candidates differ in more than a size.
std::vector<Candidate> best_of(const std::vector<Candidate>& sorted, std::size_t most) {
  std::vector<Candidate> best;
  std::set<std::string> kinds;
  std::set<std::pair<std::string, std::string>> ways;
  for (const Candidate& c : sorted)
    if (best.size() < most && kinds.insert(c.kind()).second) best.push_back(c), ways.insert({c.kind(), c.allreduces});
  for (const Candidate& c : sorted)
    if (best.size() < most && ways.insert({c.kind(), c.allreduces}).second) best.push_back(c);
  return best;
}

std::string in_words(const PredictionFacts& facts, const Candidate& c) {
  PlanOptions p = c.sizes;
  std::set<std::string> used;
  for (const Bucket& b : c.plan.buckets) used.insert(b.allreduce);
  if (used.size() == 1) p.allreduce = *used.begin();
  std::string text = to_string(p);
  const std::string allreduce = fmt::format("{}", fmt::join(used, " and "));
  if (used.size() > 1) text.replace(0, p.allreduce.size(), allreduce);
  const MethodChoice* choice = facts.allowed.find(c.plan.sync);
  if (choice == nullptr) return text;
  if (c.plan.sparse()) return choice->method->describe({.workers = facts.group.workers}) + ", the rest " + text;
  p.allreduce = allreduce;  // with which the description ends
  return choice->method->describe({.workers = facts.group.workers, .plan = p}) + text.substr(allreduce.size());
}

/// Says of each message when it is ready and needed, and what another allreduce would make of the step.
std::vector<Receipt::Line> lines_of(Search& search, const Plan& plan, const Schedule& schedule) {
  double forward = 0, backward_after = 0;
  std::vector<double> begins;  // of each layer in forward
  for (const ReplayLayer& l : schedule.layers) begins.push_back(forward), forward += l.forward_seconds;
  std::vector<double> backward_begins(schedule.layers.size());
  for (std::size_t l = schedule.layers.size(); l-- > 0;) {
    backward_begins[l] = forward + backward_after;
    backward_after += schedule.layers[l].backward_seconds;
  }
  const std::vector<std::string> names = search.predictor.allreduces(plan.codec);
  const int most = search.predictions + kMostRunnersUp;
  std::vector<Receipt::Line> lines;
  std::size_t b = plan.buckets.size();
  for (std::size_t m = schedule.messages.size(); m-- > 0;) {  // the arena's order is that of backward
    const ReplayMessage& message = schedule.messages[m];
    Receipt::Line line{.bucket = message.name};
    const std::size_t end = b;
    for (int c = 0; c < message.chunks; ++c) line.bytes += 4.0 * static_cast<double>(plan.buckets[--b].elements);
    const auto layer = static_cast<std::size_t>(message.layer);
    line.ready_ms = 1e3 * (backward_begins[layer] + message.ready_seconds), line.needed_ms = 1e3 * begins[layer];
    const Bucket& bucket = plan.buckets[b];
    line.choice = bucket.sparse() ? to_string(bucket.choice) : bucket.allreduce;
    line.waits_ms = 1e3 * schedule.replay.waits[m] / schedule.period;
    for (const std::string& name : names) {
      if (name == line.choice || bucket.sparse() || search.predictions >= most) continue;
      Plan other = plan;
      for (std::size_t i = b; i < end; ++i) other.buckets[i].allreduce = name;
      const double behind = 1e3 * (search.schedule(other).mean_seconds() - schedule.mean_seconds());
      if (line.runner_up.empty() || behind < line.behind_ms) line.runner_up = name, line.behind_ms = behind;
    }
    lines.push_back(line);
  }
  return lines;
}

/// best : the chosen candidate, and those that it was simulated against
Receipt receipt_of(const PredictionFacts& facts, Search& search, const std::vector<Candidate>& best) {
  const Candidate& chosen = best[0];
  Receipt r;
  r.group = facts.group.to_string(), r.measured = facts.group, r.layers = facts.times;
  r.plan = chosen.plan.json(), r.codec_feedback = facts.codec_feedback && chosen.plan.codec != "none";
  if (const MethodChoice* choice = facts.allowed.find(chosen.plan.sync))
    r.sync = choice->method->name(), r.settings = choice->settings;
  r.step_ms = 1e3 * chosen.seconds;
  for (const Candidate& c : best)
    if (const std::string words = in_words(facts, c);
        std::ranges::find(r.candidates, words, &Receipt::Candidate::plan) == r.candidates.end())
      r.candidates.push_back({words, 1e3 * c.seconds});
  const Schedule schedule = search.schedule(chosen.plan);
  r.compute_ms = 1e3 * schedule.replay.compute_seconds;
  r.lines = lines_of(search, chosen.plan, schedule);
  return r;
}

}  // namespace

Planned make_best_plan(const PredictionFacts& facts, const std::string& only) {
  const auto begin = Clock::now();
  Search search(facts);
  std::vector<Candidate> all = search.candidates();
  if (!only.empty()) std::erase_if(all, [&](const Candidate& c) { return c.plan.sync != only; });
  std::ranges::stable_sort(all, is_faster);
  std::vector<Candidate> best = best_of(all, kSimulated);
  for (Candidate& c : best) search.improve(c);
  const Plan usual = best.emplace_back(usual_of(all, only)).plan;
  const double search_ms = 1e3 * seconds_since(begin);
  const int predictions = search.predictions;
  for (Candidate& c : best) c.seconds = search.predictor.simulate(c.plan);
  std::ranges::stable_sort(best, is_faster);
  // What is as fast as the usual plan is not worth another one.
  const auto the_usual = std::ranges::find(best, usual, &Candidate::plan);
  if (the_usual->seconds <= kAsFast * best[0].seconds) std::rotate(best.begin(), the_usual, the_usual + 1);
  Planned planned{best[0].plan, receipt_of(facts, search, best)};
  planned.receipt.search_ms = search_ms, planned.receipt.predictions = predictions;
  return planned;
}

}  // namespace laconic::dist
