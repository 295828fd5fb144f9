#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "dist/trainer/report.h"

namespace laconic {
namespace {

using Values = std::vector<double>;

/// Of an even number the lower one: of two workers the slower one is compared with the other.
double lower_median(Values values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

std::string named(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "Worker " : "Workers ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  return text;
}

/// 412, 41.3, 4.13, 0.413
std::string short_number(double value) { return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2); }

/// Who takes more than 1.5 times as long as the median worker, by a millisecond and a tenth of a step at least.
std::string slow_by_itself(const Values& ms, const Values& step_ms, const char* one, const char* several,
                           const char* others_do) {
  const double median = lower_median(ms);
  std::vector<std::size_t> slow;
  Values others;
  double most = 0;
  for (std::size_t i = 0; i < ms.size(); ++i) {
    if (ms[i] <= 1.5 * median || ms[i] - median < std::max(1.0, 0.1 * step_ms[i])) {
      others.push_back(ms[i]);
      continue;
    }
    slow.push_back(i);
    most = std::max(most, ms[i]);
  }
  if (slow.empty()) return "";
  return fmt::format("{} {} {} ms a step where the others {} {}: {} all up.", named(slow),
                     slow.size() == 1 ? one : several, short_number(most), others_do,
                     short_number(lower_median(others)), slow.size() == 1 ? "it holds" : "they hold");
}

/// A cable that is slow both ways lets its own worker send slowly, and over TCP the one before it in the ring too.
std::string slow_link(const RanksReport& r, const Values& step_ms) {
  constexpr int kFaster = 3;
  constexpr double kMbit = 8e-3;  // a byte a millisecond
  const std::size_t N = step_ms.size();
  if (N < 3) return "";  // of two each waits for the other
  std::vector<std::size_t> order(N);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < N; ++i)
    if (!(r.sending_ms[i] > 0)) return "";  // no window, so nothing was timed
  const auto rate = [&](std::size_t i) { return r.bytes_sent[order[i]] / r.sending_ms[order[i]]; };  // bytes a ms
  std::ranges::sort(order, {}, [&](std::size_t i) { return r.bytes_sent[i] / r.sending_ms[i]; });
  const std::size_t apart = (order[0] + N - order[1]) % N;
  std::size_t count = 0;
  if (kFaster * rate(0) < rate(1))
    count = 1;
  else if (kFaster * rate(1) < rate(2) && (apart == 1 || apart == N - 1))
    count = 2;
  const std::size_t worst = order[0];
  if (count == 0 || r.exposed_ms[worst] < 0.2 * step_ms[worst] || r.sending_ms[worst] < 0.2 * step_ms[worst]) return "";
  std::vector<std::size_t> slow(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::sort(slow);
  // How fast the others are is not known: a system's buffers take what they hold at once.
  return fmt::format("{} {} at {} Mbit/s, the others more than {} times as fast: {} all up.", named(slow),
                     count == 1 ? "sends" : "send", short_number(kMbit * rate(0)), kFaster,
                     count == 1 ? "its link holds" : "the link of one of them holds");
}

}  // namespace

RanksReport joined(const RanksReport& a, const RanksReport& b) {
  if (a.steps == 0 || a.compute_ms.size() != b.compute_ms.size()) return b;
  RanksReport all{.step = std::max(a.step, b.step), .steps = a.steps + b.steps};
  const double of_b = static_cast<double>(b.steps) / static_cast<double>(all.steps);
  for (const auto& [name, figure] : kRanksFigures)
    for (std::size_t i = 0; i < (b.*figure).size(); ++i)
      (all.*figure).push_back((a.*figure)[i] + of_b * ((b.*figure)[i] - (a.*figure)[i]));
  return all;
}

std::string straggler_in(const RanksReport& r) {
  if (r.steps < 10 || r.compute_ms.size() < 2) return "";
  Values step_ms;
  for (std::size_t i = 0; i < r.compute_ms.size(); ++i)
    step_ms.push_back(r.compute_ms[i] + r.data_ms[i] + r.exposed_ms[i]);
  std::string sentence = slow_by_itself(r.compute_ms, step_ms, "computes", "compute up to", "take");
  if (sentence.empty())
    sentence = slow_by_itself(r.data_ms, step_ms, "waits for its data", "wait for their data up to", "wait");
  return sentence.empty() ? slow_link(r, step_ms) : sentence;
}

}  // namespace laconic
