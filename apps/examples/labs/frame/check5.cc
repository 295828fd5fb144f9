#include "harness.h"

namespace lab {
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
