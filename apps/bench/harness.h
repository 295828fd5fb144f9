#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "apps/launch/child_process.h"
#include "core/device.h"
#include "core/tensor.h"

namespace laconic {

/// What all benchmarks share. One of them adds its options, calls parse(), measures, and hands its rows to a
/// ResultTable for show(), and to finish() as an object.
class Bench {
 public:
  using Json = Cell::Json;

  Bench(const std::string& name, const std::string& what) : app(what, "laconic bench " + name) {}

  /// An option; a vector takes several values, with commas between.
  template <class T>
  CLI::Option* option(const std::string& name, T& target, std::string type, const std::string& help,
                      const CLI::Validator& check = {}) {
    CLI::Option* const option = app.add_option(name, target, help)->check(check);
    if constexpr (requires(T t) { t.push_back(t.front()); } && !std::is_same_v<T, std::string>)
      option->delimiter(','), type += ",..";
    return option->type_name(type);
  }
  /// Adds --against MODULE: a peer in Python that needs this module.
  void add_against(const std::string& module, const std::string& help);
  /// Adds --device.
  void add_device(const std::string& help);

  /// Reads the command line; returns the exit code if that was all.   throws UsageError
  std::optional<int> parse(const std::vector<std::string>& arguments);

  bool on_gpu() const { return device != kCpu; }
  /// "2 threads", or the device.
  std::string computed_by(int threads, const std::string& precision = "") const;
  /// The Python that --against asks for, empty without it: the first that can import the module; one that can import
  /// `also` too goes before one that cannot. It is LACONIC_PYTHON, or python3 or /usr/bin/python3.
  /// throws DataError if there is none
  std::string python(const std::string& also = "") const;

  /// Prints a line, unless an object is wanted.
  void say(const std::string& line) const;
  /// Prints what has come to the table since it was called last, likewise.
  void show(ResultTable& table) const;
  /// Prints the object if it is wanted. Returns the exit code.
  int finish(const Json& object) const;

  CLI::App app;
  bool json = false, markdown = false;
  std::string device_name = "cpu";
  Device device = kCpu;

 private:
  std::string against_;
};

/// Something that is timed in turns with others.
struct Contender {
  std::string name;
  std::function<void()> run{};
  std::function<void()> before{};  ///< not timed; before each run
  int most_rounds = std::numeric_limits<int>::max();
  std::function<double()> by_own_clock{};  ///< instead of run: runs, and says how many seconds that took
  std::vector<double> seconds{};           ///< of one run, by round

  Median time() const { return median(seconds); }  ///< in seconds
  double milliseconds() const { return 1e3 * time().value; }
};

/// Runs all of them one after another, `rounds` times, after once untimed; each round begins with another one. A
/// contender that takes less than `least_seconds` runs several times a round. One that takes less than 20 ms runs once
/// more before, uncounted: so it does not pay for what the others left in the caches. With least_seconds 0 each runs
/// once.
///   begin : called when the untimed runs are over
void run_in_turns(std::vector<Contender>& all, int rounds, double least_seconds = 2e-4,
                  const std::function<void()>& begin = nullptr);

/// A clock for run_in_turns, whose turns are as many runs as take about `turn_seconds`. `time` does so many runs and
/// returns the seconds of one. The first turn finds out how many.
std::function<double()> in_blocks(std::function<double(int runs)> time, double turn_seconds, int most_runs);

/// What a took divided by what b took, by rounds side by side.
Median ratio(const Contender& a, const Contender& b);

/// Adds, in front, a copy of values on a device, whose bandwidth the others are compared with: of those that are
/// measured, since a device may move zeros faster. The device's clock times all of them.
void beside_a_copy(std::vector<Contender>& all, const Tensor& values);
/// How much of that copy's bandwidth something has that moves so many bytes. It is not told where the copy is so small
/// that a cache holds it (below 2^24 floats): memory has another bandwidth.
std::optional<double> share_of_bandwidth(const Contender& c, const Contender& copy, double bytes, double copied_bytes);

/// A program that answers commands with JSON, as our Python scripts do.
class Peer {
 public:
  /// Starts it, and reads its first line: {"ready": true, ...}, or {"error": a sentence}, which is thrown as DataError.
  Peer(const std::vector<std::string>& command, const ChildProcess::Environment& environment);
  nlohmann::json ask(const std::string& command);
  /// Seconds of one of `n` runs.
  double run(std::int64_t n) { return ask(fmt::format("run {}", n)).at("seconds").get<double>(); }

 private:
  ChildProcess process_;
};
/// For a program that computes on so many threads.
ChildProcess::Environment thread_environment(int threads);
/// PyTorch at its best: blocks of memory kept instead of given back, OpenBLAS on OpenMP where it is installed. Where we
/// are built for AVX2 at most, it uses no more either.
ChildProcess::Environment torch_environment(int threads);

// The benchmarks; each tells its options with --help, and returns the exit code.
int bench_step(const std::vector<std::string>& arguments);
/// What bench_step runs beside the peer: `MODEL BATCH THREADS DEVICE PRECISION`, then the commands of torch_peer.py on
/// standard input.
int bench_step_child(const std::vector<std::string>& arguments);
int bench_layers(const std::vector<std::string>& arguments);
int bench_ops(const std::vector<std::string>& arguments);
int bench_allreduce(const std::vector<std::string>& arguments);
int bench_select(const std::vector<std::string>& arguments);
int bench_codec(const std::vector<std::string>& arguments);

}  // namespace laconic
