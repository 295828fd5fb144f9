#include <algorithm>

#include "harness.h"

namespace lab {
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

}  // namespace lab
