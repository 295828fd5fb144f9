#include <laconic/core/base/random.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness.h"

namespace lab {
namespace {

constexpr std::size_t kN = 100, kK = 7;

std::vector<float> noise(std::uint64_t key) {
  Random random(4, Purpose::test, key);
  std::vector<float> x(kN);
  for (float& v : x) v = random.normal();
  return x;
}

std::set<std::uint32_t> indices(const std::vector<Element>& chosen, std::size_t n, std::size_t k) {
  std::set<std::uint32_t> all;
  for (const Element& e : chosen) {
    require<Error>(e.index < n, "index ", e.index, " is none of ", n, " elements");
    all.insert(e.index);
  }
  require<Error>(chosen.size() == k && all.size() == k, "of ", n, " elements ", all.size(),
                 " different ones were chosen, and not ", k);
  return all;
}

void add_checks(Checks& checks) {
  checks.check("the k largest are chosen", [] {
    const std::vector<float> g = noise(1);
    std::vector<float> residual(kN);
    const auto chosen = indices(choose(slice(g), slice(residual), kK), kN, kK);
    for (std::uint32_t i = 0; i < kN; ++i) {
      const auto larger = std::count_if(g.begin(), g.end(), [&](float v) { return std::abs(v) > std::abs(g[i]); });
      require<Error>((larger < static_cast<std::ptrdiff_t>(kK)) == (chosen.count(i) > 0), larger,
                     " elements are larger than element ", i, ", which is ", g[i], ", and it was ",
                     chosen.count(i) > 0 ? "chosen" : "not chosen");
    }
  });
  checks.check("what was not sent competes in the next step", [] {
    std::vector<float> g{1, 0, 0.6f}, residual(3);
    choose(slice(std::as_const(g)), slice(residual), 1);  // element 0
    g = {1, 0, 0.6f};
    const auto chosen = choose(slice(std::as_const(g)), slice(residual), 1);
    indices(chosen, 3, 1);
    require<Error>(chosen[0].index == 2, "in two steps with the gradient (1, 0, 0.6) and k = 1 element ",
                   chosen[0].index, " was sent in the second, and not element 2, of which 1.2 had come together");
    require<Error>(std::abs(chosen[0].value - 1.2f) < 1e-6f, "1.2 of element 2 had come together, and ",
                   chosen[0].value, " was sent");
  });
  checks.check("nothing is lost, and nothing is sent twice", [] {
    std::vector<float> residual(kN);
    std::vector<double> came(kN), sent(kN);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const std::vector<float> g = noise(step);
      for (std::size_t i = 0; i < kN; ++i) came[i] += g[i];
      for (const Element& e : choose(slice(g), slice(residual), kK))
        sent[std::min<std::size_t>(e.index, kN - 1)] += e.value;
      for (std::size_t i = 0; i < kN; ++i)
        require<Error>(std::abs(came[i] - sent[i] - residual[i]) < 1e-4, "after ", step + 1,
                       " steps the gradients of element ", i, " add up to ", came[i], ", but ", sent[i],
                       " of it was sent and ", residual[i], " is in the residual");
    }
  });
  // Two workers that disagree about element 0 and agree about element 1.
  checks.check("small gradients are learned too", [] {
    std::vector<float> w(2), residual[2] = {std::vector<float>(2), std::vector<float>(2)};
    for (int step = 0; step < 100; ++step) {
      const std::vector<float> g[2] = {{w[0] - 10, w[1] - 1}, {w[0] + 10, w[1] - 1}};
      std::vector<float> sum(2);
      for (int r = 0; r < 2; ++r)
        for (const Element& e : choose(slice(g[r]), slice(residual[r]), 1)) sum[std::min(e.index, 1u)] += e.value;
      for (std::size_t i = 0; i < 2; ++i) w[i] -= 0.05f * sum[i] / 2;
    }
    require<Error>(std::abs(w[1] - 1) < 0.5f,
                   "two workers pull element 0 apart with gradients of -10 and 10, and element 1 up to 1 with -1. "
                   "After 100 steps with k = 1 it is ",
                   w[1]);
  });
}

/// The costs of a dense exchange, and of choices of k elements.
void print_costs() {
  constexpr std::size_t n = 250'000;
  print_costs_head();
  print_cost("dense, 1 MB: 2(N-1) (alpha + n/N beta)", ring_seconds(kRanks, n * sizeof(float)),
             seconds_on_emulated_link([x = std::vector<float>(n)](Communicator& comm) mutable {
               return ring_allreduce(comm, slice(x));
             }));
  for (const std::size_t k : {n / 4, n / 10, n / 100, n / 1000})
    print_cost("k = " + std::to_string(k) + ": alpha + (N-1) 8 k beta",
               kAlpha + (kRanks - 1) * static_cast<double>(k * sizeof(Element)) * kBeta,
               seconds_on_emulated_link([mine = std::vector<Element>(k), all = std::vector<std::vector<Element>>()](
                                            Communicator& comm) mutable { return gather(comm, mine, all); }));
}

}  // namespace

int lab4() {
  Checks checks(4);
  add_checks(checks);
  return checks.end(print_costs);
}

}  // namespace lab
