#include "dist/trainer/rejoin.h"

#include <map>
#include <vector>

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

}  // namespace

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

void each_server(const std::string& checkpoint, const Manifest& manifest,
                 const std::function<void(const StateDict& server)>& f) {
  for (int r = 0; r < manifest.files(); ++r) {
    const StateDict server = CheckpointStore::read_rank(checkpoint, r).part("server/");
    if (!server.empty()) f(server);
  }
}

}  // namespace laconic
