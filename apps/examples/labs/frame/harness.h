#pragma once
#include <laconic/dist/transport/link.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../labs.h"

namespace lab {

/// Prints for each check whether it holds, and if not why: what it throws.
class Checks {
 public:
  explicit Checks(int lab) : lab_(lab) {}
  void check(const std::string& what, const std::function<void()>& holds);
  /// Says how many hold. Calls `then` if all do.   returns the program's exit code
  int end(const std::function<void()>& then) const;

 private:
  const int lab_;
  int good_ = 0, all_ = 0;
};

/// 100 Mbit/s, 1 ms: alpha and beta of all labs.
inline const LinkOptions kLink{.all = {.bits_per_second = 100'000'000, .latency = std::chrono::milliseconds(1)}};
constexpr double kAlpha = 1e-3, kBeta = 8e-8;  ///< seconds, seconds a byte
constexpr int kRanks = 4;

/// alpha + beta n of a ring: 2(N-1) (alpha + n/N beta).
inline double ring_seconds(int N, double bytes) { return 2 * (N - 1) * (kAlpha + bytes / N * kBeta); }

/// A rank, and its clock.
struct Rank {
  Engine& engine;
  std::function<double()> now;          ///< seconds
  std::function<void(double)> compute;  ///< for so many seconds
};
/// Runs `body` on N ranks in virtual time: all that it takes is what the link takes, and what is computed.
void on_virtual_ranks(int N, const std::function<void(const Rank&)>& body);
/// Runs it on kRanks threads with the link emulated between them, in real time.
void on_emulated_link(const std::function<void(const Rank&)>& body);

/// Seconds that an exchange takes rank 0 there: the second of two, so that all begin together. Each rank has a copy of it.
double seconds_on_emulated_link(const std::function<Task<>(Communicator&)>& exchange);

/// A training of layers that compute nothing, but take time. The gradient of layer i is (rank + 1) (i + 1), and the
/// rate is 1.
struct Training {
  double forward = 0, backward = 0;  ///< seconds of each layer
  std::int64_t steps = 3;
  std::function<std::unique_ptr<Strategy>(const WorkerSide&)> make;
  /// What layer i is after so many updates, over -(i + 1). Null: by the mean over workers.
  std::function<double(int rank, std::int64_t updates)> expected{};
  Overlap overlap = Overlap::none;  ///< for a method of the library

  int layers_per_bucket = 4;

  static constexpr int kLayers = 16;
  static constexpr std::int64_t kElements = 12'500;  ///< of a layer: 50 kB
  int buckets() const { return kLayers / layers_per_bucket; }

  struct Result {
    double step = 0;             ///< seconds, the mean over all steps but the first
    std::uint64_t messages = 0;  ///< of this rank
  };
  /// throws Error, in a sentence, if a layer is not what it should be when forward reads it, and at the end
  Result run(const Rank& rank) const;
};

/// Rank 0's result.
Training::Result in_virtual_time(const Training& training);
Training::Result on_emulated_link(const Training& training);

/// "12.3 ms"
std::string ms(double seconds);
/// A row of the table of costs.
void print_cost(const std::string& what, double formula, std::optional<double> measured = {});
void print_costs_head();

int lab1(), lab2(), lab3(), lab4(), lab5();  ///< the checks; exit codes

/// Makes what the labs write options of a training: `--allreduce lab1`, `--sync lab2` … `lab5`.
void add_methods();

}  // namespace lab
