// This file checks what each lab has to fill in, and says what it costs.
#include <laconic/core/base/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "harness.h"

namespace lab {
namespace {

/// Every rank's vector after the allreduce of values(rank, i), in virtual time.
std::vector<std::vector<float>> sums(int N, std::size_t n, const std::function<float(int, std::size_t)>& value,
                                     const std::function<void(const Rank&)>& then = {}) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(N), std::vector<float>(n));
  on_virtual_ranks(N, [&](const Rank& rank) {
    const int r = rank.engine.rank();
    std::vector<float>& x = all[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < n; ++i) x[i] = value(r, i);
    rank.engine.run("your allreduce", [&](Communicator& comm) { return allreduce(comm, slice(x)); });
    if (then) then(rank);
  });
  return all;
}

float whole(int rank, std::size_t i) { return static_cast<float>(rank + 1) + static_cast<float>(i % 10); }

void sums_are_right(std::initializer_list<int> workers, std::initializer_list<std::size_t> lengths) {
  for (const int N : workers)
    for (const std::size_t n : lengths) {
      const auto all = sums(N, n, whole);
      for (int r = 0; r < N; ++r)
        for (std::size_t i = 0; i < n; ++i) {
          float wanted = 0;
          for (int s = 0; s < N; ++s) wanted += whole(s, i);
          const float value = all[static_cast<std::size_t>(r)][i];
          require<Error>(value == wanted, "with ", N, " workers and ", n, " numbers, number ", i, " on rank ", r,
                         " is ", value, ", and should be ", wanted);
        }
    }
}

}  // namespace

int lab1() {
  Checks checks(1);
  checks.check("two workers have the sum", [] { sums_are_right({2}, {12}); });
  checks.check("three to five workers have it", [] { sums_are_right({3, 4, 5}, {60}); });
  checks.check("any length will do", [] { sums_are_right({1, 2, 4, 5}, {1, 3, 17, 1001}); });
  checks.check("all workers have the same bits", [] {
    const auto all = sums(4, 1000, [](int rank, std::size_t i) {
      Random random(1, Purpose::test, static_cast<std::uint64_t>(rank), i);
      return random.normal();
    });
    for (std::size_t i = 0; i < 1000; ++i) {
      double sum = 0;
      for (int r = 0; r < 4; ++r) {
        Random random(1, Purpose::test, static_cast<std::uint64_t>(r), i);
        sum += random.normal();
      }
      for (std::size_t r = 0; r < 4; ++r) {
        require<Error>(std::abs(all[r][i] - sum) < 1e-4, "number ", i, " on rank ", r, " is ", all[r][i],
                       ", and should be ", sum);
        require<Error>(std::memcmp(&all[0][i], &all[r][i], sizeof(float)) == 0, "number ", i,
                       " has other last bits on rank ", r,
                       " than on rank 0. Is each block added up on one rank alone?");
      }
    }
  });
  checks.check("a worker sends 2(N-1)/N of the vector", [] {
    sums(4, 1000, whole, [](const Rank& rank) {
      const std::uint64_t bytes = rank.engine.counters().sent.bytes;
      require<Error>(bytes == 6000, "of 4 workers with 4000 bytes each, rank ", rank.engine.rank(), " sent ", bytes,
                     " bytes, and should send 6000");
    });
  });
  checks.check("it takes 2(N-1) (alpha + n/N beta)", [] {
    sums(4, 100'000, whole, [](const Rank& rank) {
      const double formula = ring_seconds(4, 400e3);
      require<Error>(std::abs(rank.now() - formula) < 0.01 * formula, "4 workers with 400 kB took ", ms(rank.now()),
                     " of virtual time, and a ring takes ", ms(formula),
                     ". Does each rank send and receive at the same time, in 2(N-1) steps?");
    });
  });
  return checks.end([] {
    print_costs_head();
    for (const std::size_t n : {1'000, 10'000, 100'000, 250'000}) {
      const double measured = seconds_on_emulated_link(
          [x = std::vector<float>(n)](Communicator& comm) mutable { return allreduce(comm, slice(x)); });
      const double bytes = static_cast<double>(n) * sizeof(float);
      print_cost("ring of " + std::to_string(4 * n / 1000) + " kB: 2(N-1) (alpha + n/N beta)",
                 ring_seconds(kRanks, bytes), measured);
    }
  });
}

namespace {

std::unique_ptr<Strategy> of_library(const WorkerSide& side) { return method("allreduce")->worker(side); }

constexpr double kLayers = Training::kLayers, kBytes = kLayers * Training::kElements * sizeof(float);
/// Latency counts once where all buckets travel at the same time.
const double kAll = ring_seconds(kRanks, kBytes);

void one_exchange_a_bucket(const Training& training) {
  const std::uint64_t rings = in_virtual_time(training).messages / (2 * (kRanks - 1));
  const auto wanted = static_cast<std::uint64_t>(training.steps * training.buckets());
  require<Error>(rings == wanted, "in ", training.steps, " steps of ", training.buckets(), " buckets there were ",
                 rings, " exchanges, and not ", wanted);
}

/// These steps with an exchange of the library's.
Training by_library(Training training, Overlap overlap) {
  training.make = of_library, training.overlap = overlap;
  return training;
}

}  // namespace

int lab2() {
  // Backward of a bucket, 40 ms, takes longer than its exchange.
  const Training training{.forward = 2.5e-3, .backward = 10e-3, .make = overlap_backward};
  const double computing = kLayers * (training.forward + training.backward),
               last = ring_seconds(kRanks, kBytes / training.buckets());
  Checks checks(2);
  checks.check("parameters are updated by the mean", [&] { in_virtual_time(training); });
  checks.check("each bucket travels once a step", [&] { one_exchange_a_bucket(training); });
  checks.check("buckets travel beside backward", [&] {
    const double step = in_virtual_time(training).step, hidden = computing + last;
    require<Error>(step < 1.02 * hidden, "a step takes ", ms(step),
                   " of virtual time. With all buckets but the last hidden it takes ", ms(hidden),
                   ": send a bucket in gradient_ready(), with its last gradient");
  });
  return checks.end([&] {
    print_costs_head();
    print_cost("computing alone: F + B", computing);
    print_cost("sent after backward: F + B + R(all)", computing + kAll,
               on_emulated_link(by_library(training, Overlap::none)).step);
    print_cost("yours: F + B + R(the last bucket)", computing + last, on_emulated_link(training).step);
  });
}

int lab3() {
  // The exchange of all buckets takes longer than backward.
  const Training training{
      .forward = 5e-3, .backward = 1e-3, .steps = 4, .make = overlap_forward, .layers_per_bucket = 1};
  const double computing = kLayers * (training.forward + training.backward),
               wire = 2 * (kRanks - 1) * kBytes / kRanks * kBeta;
  Checks checks(3);
  checks.check("forward reads what is updated", [&] { in_virtual_time(training); });
  checks.check("each bucket travels once a step", [&] { one_exchange_a_bucket(training); });
  checks.check("buckets travel beside the next forward", [&] {
    const double step = in_virtual_time(training).step,
                 possible = in_virtual_time(by_library(training, Overlap::forward)).step;
    require<Error>(step < 1.02 * possible, "a step takes ", ms(step), " of virtual time, and ", ms(possible),
                   " where each parameter waits for its own bucket: wait in before_forward(), and not in end_step()");
  });
  return checks.end([&] {
    print_costs_head();
    print_cost("the link alone: 2(N-1)/N n beta", wire);
    print_cost("sent after backward: F + B + R(all)", computing + kAll,
               on_emulated_link(by_library(training, Overlap::none)).step);
    print_cost("beside backward alone: at least F + R(all)", kLayers * training.forward + kAll,
               on_emulated_link(by_library(training, Overlap::backward)).step);
    print_cost("yours: at least the link, and F + B", std::max(computing, wire), on_emulated_link(training).step);
  });
}

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

namespace {

constexpr std::int64_t kEvery = 4;

Training training(std::int64_t every) {
  return {.forward = 1e-3,
          .backward = 1e-3,
          .steps = 9,
          .make = [every](const WorkerSide& side) { return local_sgd(side, every); },
          .expected = [every](int rank, std::int64_t updates) {  // the mean of all rounds, and its own since
            const auto joined = static_cast<double>(updates / every * every);
            return 0.5 * (kRanks + 1) * joined + (rank + 1) * (static_cast<double>(updates) - joined);
          }};
}

}  // namespace

int lab5() {
  Checks checks(5);
  checks.check("workers train alone, and hold the mean after every 4th step",
               [] { in_virtual_time(training(kEvery)); });
  checks.check("with H = 1 they hold it after each step", [] { in_virtual_time(training(1)); });
  checks.check("nothing travels between the rounds", [] {
    Training few = training(kEvery);
    few.steps = 3;
    const std::uint64_t before = in_virtual_time(few).messages;
    require<Error>(before == 0, "in 3 steps with H = 4 a worker sent ", before, " messages, and should send none");
    const std::uint64_t sent = in_virtual_time(training(kEvery)).messages;
    require<Error>(sent > 0, "in 9 steps with H = 4 a worker sent no message");
  });
  return checks.end([] {
    const double bytes = Training::kLayers * Training::kElements * sizeof(float);
    const double computing = Training::kLayers * 2e-3;
    print_costs_head();
    for (const std::int64_t every : {1, 2, 4, 8}) {
      const Training t = training(every);  // of its 8 steps after the first, 8 / H end a round
      print_cost("H = " + std::to_string(every) + ": F + B + R(all) / H",
                 computing + ring_seconds(kRanks, bytes) / static_cast<double>(every), on_emulated_link(t).step);
    }
  });
}

}  // namespace lab
