#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bench/paired.h"
#include "core/device.h"

namespace laconic {

/// A table that grows line by line, on standard output: text or markdown.
class BenchTable {
 public:
  BenchTable(std::vector<std::string> columns, bool markdown) : columns_(std::move(columns)), markdown_(markdown) {}
  void title(const std::string& text) const;  ///< and the heads of the columns
  void row(const std::vector<std::string>& cells) const;

 private:
  std::vector<std::string> columns_;
  bool markdown_;
};

/// "1.12 (1.10 … 1.15)"
std::string with_interval(const Median& m);

/// The plain pass that others are compared with: the sum of |x|, on kernel_threads() threads.
double read_pass(const float* x, std::int64_t n);

struct SparseBenchOptions {
  std::int64_t elements = 0;
  double density = 0.001;
  int rounds = 15;
  bool json = false, markdown = false;
  Device device = kCpu;
};
/// Adds, in front, a copy of n floats on a device, whose bandwidth the others are compared with; and to all of them
/// that they are waited for.
void beside_a_copy(std::vector<Contender>& all, std::int64_t n, Device device);
/// "0.71": how much of that copy's bandwidth something has that moves so many bytes. Nothing of a copy so small that
/// a cache holds it (below 2^24 floats): memory has another bandwidth.
std::string share_of_bandwidth(const Contender& c, const Contender& copy, double bytes, double copied_bytes);
/// The residual pass beside the dense update of SGD with momentum.
nlohmann::json bench_residual(const SparseBenchOptions& options);
/// Adding the payloads of 16 workers, and clearing what was sent, in read passes.
nlohmann::json bench_scatter(const SparseBenchOptions& options);
/// Bits and speeds of the index codings.
nlohmann::json bench_codings(const SparseBenchOptions& options);

}  // namespace laconic
