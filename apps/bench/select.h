#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bench/paired.h"
#include "apps/result_table.h"
#include "core/device.h"

namespace laconic {

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
