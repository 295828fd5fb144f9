#include <laconic/core/base/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>

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

}  // namespace lab
