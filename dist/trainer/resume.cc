// The part of a set-up that goes on from a checkpoint, and what a checkpoint holds of a worker.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "dist/trainer/setup.h"
#include "dist/world.h"

namespace laconic {
namespace {

using dist::Holders;
using dist::Join;
using dist::Joined;

/// One tensor's sum over the workers of the checkpoint.
struct Sum {
  Joined joined;
  std::vector<double> values;
  double weights = 0;  // of a mean; as many as workers, but for rounding
};

/// One share of a sum. All shares together round once: the even ones are taken away from it before the first is.
float share_of(double sum, Holders holders) {
  if (holders.place < 0) return 0;
  const auto even = static_cast<float>(sum / holders.count);
  if (holders.place > 0) return even;
  return static_cast<float>(sum - static_cast<double>(holders.count - 1) * static_cast<double>(even));
}

/// Gives a worker its part of a sum, or the mean.
///   now : how many workers there are
Tensor shared_out(const Sum& sum, const Tensor& like, Holders holders, int now, const Tensor& mine) {
  Tensor out = Tensor::empty(like.shape());
  float* const to = out.data<float>();
  const std::int64_t n = like.elements();
  const bool mean = sum.joined.join == Join::mean;
  const double of_a_mean = holders.place < 0 ? 0 : static_cast<double>(now) / holders.count;  // 1 where all hold it
  std::vector<dist::RankState::Range> ranges = sum.joined.ranges;
  if (ranges.empty())
    ranges.emplace_back(0, n);
  else
    out.copy_from(mine);  // elsewhere equal
  for (const auto& [offset, count] : ranges) {
    require<DataError>(offset <= n && count <= n - offset, "resume: a checkpoint names ", count, " elements from ",
                       offset, " on, of a tensor of ", n, ". Use an older checkpoint.");
    for (std::int64_t i = offset; i < offset + count; ++i) {
      const double all = sum.values[static_cast<std::size_t>(i)];
      to[i] = mean ? static_cast<float>(all / sum.weights * of_a_mean) : share_of(all, holders);
    }
  }
  return out;
}

/// What this worker goes on with from a checkpoint of another number of workers or servers: every tensor of `fresh`
/// joined as its file says (dist::Join), and every text of `fresh`; of "run/" those of a file. If there are as many
/// workers as before, each keeps what is its own, but for what begins anew. Reads one file after the other.
///   fresh     what this worker would save now; what a file has not, or of another shape, stays as it is there
///   manifest  of the checkpoint
///   cost      reads all workers' files; memory of one of them, and 8 bytes for each element of a sum or a mean
///   throws    DataError if a file does not say how it is joined: it is of an earlier version
StateDict rejoined(const dist::RankState& fresh, const std::string& checkpoint, const Manifest& manifest, int rank) {
  std::map<std::string, Sum> sums;
  std::map<std::string, Tensor> mine;
  std::map<std::string, std::string> texts = fresh.texts();
  const bool as_many = manifest.workers == fresh.workers();
  for (int r = 0; r < manifest.workers; ++r) {
    if (as_many && r != rank) continue;
    const StateDict state = CheckpointStore::read_rank(checkpoint, r);
    if (r == rank % manifest.workers)
      for (const auto& [name, text] : state.texts())
        if (name.starts_with("run/")) texts[name] = text;
    for (const auto& [name, like] : fresh) {
      const Tensor* const there = state.find(name);
      if (there == nullptr || there->shape() != like.shape() || there->dtype() != like.dtype()) continue;
      const Joined joined = dist::joined_from(state, name);
      if (r == rank % manifest.workers && joined.join != Join::anew) mine[name] = *there;
      if (as_many || (joined.join != Join::sum && joined.join != Join::mean)) continue;
      if (there->dtype() != DType::f32) continue;
      auto [at, first] = sums.try_emplace(name);
      Sum& sum = at->second;
      if (first) sum = {joined, std::vector<double>(static_cast<std::size_t>(like.elements()))};
      const float* const values = there->data<float>();
      for (std::size_t i = 0; i < sum.values.size(); ++i)
        sum.values[i] += joined.weight * static_cast<double>(values[i]);
      sum.weights += joined.weight;
    }
  }
  StateDict out;
  for (const auto& [name, like] : fresh) {
    const auto taken = mine.find(name);
    if (taken == mine.end()) {
      out.set(name, like);
      continue;
    }
    const auto sum = sums.find(name);
    require<DataError>(sum == sums.end() || sum->second.weights > 0, "resume: no worker's '", name, "' in ", checkpoint,
                       " weighs anything. Use an older checkpoint.");
    out.set(name, sum == sums.end()
                      ? taken->second
                      : shared_out(sum->second, like, fresh.holders(name), fresh.workers(), taken->second));
  }
  for (const auto& [name, text] : texts) out.set_text(name, text);
  return out;
}

}  // namespace

/// What this worker goes on with, its servers apart.
dist::RankState Setup::state() const {
  using dist::Join;
  dist::RankState state(dist::Holders{worker.rank, worker.size});
  const Join each = is.same_bits ? Join::equal : Join::own;
  const Join model = is.same_bits || !is.joins ? each : Join::mean;  // nothing that they have learned is left out
  const double weight = now.samples.weight(worker.size);
  const StateDict weights = this->weights();
  std::map<std::string, double> of_strategy;
  for (const auto& p : arena->parameters())
    if (const auto own = strategy->weight_in_mean(*p)) of_strategy[p->info.name] = *own;
  for (const auto& [name, tensor] : weights) {
    const auto own = of_strategy.find(name);
    state.set("model/" + name, tensor, model, own == of_strategy.end() ? weight : own->second);
  }
  for (const auto& [name, text] : weights.texts()) state.set_text("model/" + name, text);
  for (const auto& [name, tensor] : workload.model().named_buffers())
    if (is.joins && weights.contains(name)) state.set("model/" + name, tensor, Join::mean, weight);  // statistics
  if (optimizer) {
    state.save("optimizer/", *optimizer, each);
    const Tensor velocity = optimizer->momentum();
    StateDict arenas;
    optimizer->save(arenas);
    for (const auto& [name, tensor] : arenas)
      if (is.same_bits && velocity.defined() && tensor.raw_data() == velocity.raw_data())
        state.set_in(strategy->own_velocity(), "optimizer/" + name, tensor, facts.put_by());
  }
  state.save("schedule/", o.schedule, Join::equal);
  state.save("strategy/", *strategy);
  state.save("workload/", workload, Join::anew);
  state.set_numbers("run/bytes", std::array{now.bytes_sent, now.bytes_dense}, Join::own);
  state.set_numbers("run/passed_over", std::array{now.passed_over}, is.joins ? Join::equal : Join::own);
  state.set_numbers("run/samples", std::array{now.samples.own, now.samples.all}, Join::own);
  state.set_text("run/seconds", fmt::format("{:.6f}", now.seconds));
  if (now.evaluation_due) state.set_text("run/evaluation", "due");
  return state;
}

StateDict Setup::weights() const {
  StateDict weights = workload.model().state_dict();
  weights.set_text("model", o.model_name);
  for (const auto& [name, value] : workload.model().settings()) weights.set_text(name, value);
  workload.describe_weights(weights);
  return weights;
}

void Setup::require_same_vocabulary(const StateDict& weights) const {
  StateDict own;
  workload.describe_weights(own);
  const auto mine = own.texts().find("vocabulary"), theirs = weights.texts().find("vocabulary");
  require<DataError>(mine == own.texts().end() || theirs == weights.texts().end() || mine->second == theirs->second,
                     o.init,
                     " was trained with other words or tokens, as many as this text has (`init`): give the text that "
                     "it was trained on");
}

void Setup::tell_of_other_ranks() const {
  const Manifest& m = *checkpoints->resumed();
  const auto all = [](int workers, int servers) {
    const std::string more = servers == 0 ? "" : fmt::format(" and {} server{}", servers, servers == 1 ? "" : "s");
    return fmt::format("{} worker{}{}", workers, workers == 1 ? "" : "s", more);
  };
  fmt::print(stderr, "laconic: note: resumes a checkpoint of {} with {}: what {} had put by is shared out anew{}\n",
             all(m.workers, m.files() - m.workers), all(worker.size, worker.servers()),
             m.workers == worker.size ? "servers" : "they",
             timetable.shared_epoch() < 0
                 ? ""
                 : fmt::format(", and so is the rest of epoch {}", timetable.shared_epoch() + 1));
}

void Setup::restore() {
  const Manifest& manifest = *checkpoints->resumed();
  const bool same_ranks = checkpoints->same_ranks();
  const StateDict state =
      same_ranks ? checkpoints->state() : rejoined(this->state(), checkpoints->folder(), manifest, worker.rank);
  load_weights(workload.model(), state.part("model/"), checkpoints->folder(), o.model_name);
  if (optimizer) optimizer->load(state.part("optimizer/"));
  if (same_ranks && servers->half()) servers->half()->load(state.part("server/"));
  if (!same_ranks && is.servers) {
    servers->take_values(checkpoints->folder(), manifest);
    servers->give_values();
    if (servers->half()) servers->half()->rejoin(checkpoints->folder(), manifest);
  }
  o.schedule.load(state.part("schedule/"));
  strategy->load(state.part("strategy/"));
  workload.restore(state.part("workload/"));
  const std::vector<std::int64_t> bytes = state.numbers("run/bytes", 2, "the sum of bytes in " + checkpoints->folder());
  now.bytes_sent = bytes[0], now.bytes_dense = bytes[1];
  if (state.contains("run/passed_over"))  // not of an earlier version
    now.passed_over =
        state.numbers("run/passed_over", 1, "the steps that were passed over in " + checkpoints->folder())[0];
  if (manifest.workers == worker.size && state.contains("run/samples")) {  // else all have the same statistics now
    const auto seen = state.numbers("run/samples", 2, "the samples that were seen until " + checkpoints->folder());
    now.samples = {.own = seen[0], .all = seen[1]};
  }
  now.seconds = std::atof(state.text("run/seconds").c_str());
  now.evaluation_due = o.eval_every > 0 && state.texts().contains("run/evaluation");
  now.step = manifest.step;
  if (timetable.nothing_left())
    now.evaluation_due |= o.eval_every > 0 && (timetable.shared_epoch() + 1) % o.eval_every == 0;
  if (!same_ranks && worker.rank == 0) tell_of_other_ranks();
  // Also a meeting: nobody writes, or removes what is old, while others still read.
  dist::check_fingerprint(worker.engine, concat("resumed after step ", now.step));
  audit();
}

}  // namespace laconic
