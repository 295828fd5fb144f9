#include "dist/trainer/gradient_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/host_copy.h"
#include "core/raw.h"
#include "dist/engine/busy.h"

namespace laconic {
namespace {

/// 1, 10, 100, 1000, …
bool is_power_of_ten(std::int64_t step) {
  while (step > 0 && step % 10 == 0) step /= 10;
  return step == 1;
}

/// Writes into a file of `elements` floats from one of them on. throws DataError; no part of a file stays then
void write_at(const std::string& path, Slice<const float> on_device, std::int64_t first, std::int64_t elements) {
  const dist::Busy busy(dist::Busy::With::files, "dumps a gradient", [&path] { return path; });
  const HostCopy<float> values(on_device);
  std::error_code error;
  if (!std::filesystem::exists(path)) std::ofstream(path, std::ios::binary);
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(elements * 4), error);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(first * 4);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  file.flush();
  if (!error && file.good()) return;
  const std::string why = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(path, error);
  throw DataError(concat(path, ": a gradient could not be written: ", why,
                         ". Check the path of `dump-gradients`, and the space there."));
}

}  // namespace

void GradientProbes::begin_step(std::int64_t step) {
  step_ = step;
  looks_ = is_power_of_ten(step);
  counts_.clear(), folder_.clear();
  if (!looks_ || o_.dump.empty()) return;
  folder_ = fmt::format("{}/step-{:06}", o_.dump, step);
  const dist::Busy busy(dist::Busy::With::files, "dumps a gradient", [this] { return folder_; });
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<DataError>(!error, folder_, ": the directory could not be made: ", error.message(),
                     ". Check the path of `dump-gradients`.");
}

void GradientProbes::gradient_ready(Parameter& p, Rows rows) {
  const auto [first, count_of_rows] = p.info.part(rows);
  const auto values = [&, first = first, count = count_of_rows] { return p.grad().range(first, count); };
  if (looks_ && o_.counts) count(p, values().slice());
  if (!folder_.empty()) write_at(folder_ + "/" + p.info.name + ".f32", values().slice(), first, p.info.elements);
  if (o_.watch && not_finite_.empty() && looks_at(p) && !raw::all_finite(values())) not_finite_ = p.info.name;
  next_.gradient_ready(p, rows);
}

void GradientProbes::residual(const Parameter& p, Slice<const float> values) const {
  if (!folder_.empty()) write_at(folder_ + "/" + p.info.name + ".residual.f32", values, 0, p.info.elements);
}

void GradientProbes::require_finite() const {
  require<Error>(!o_.stops || not_finite_.empty(), "training: the gradient of ", not_finite_, " is not finite on rank ",
                 o_.rank, " in step ", step_, ", before any exchange. Lower `lr`, or clip gradients (`clip` norm:5).");
}

void GradientProbes::count(const Parameter& p, Slice<const float> on_device) {
  auto of_p = std::ranges::find(counts_, p.info.name, &GradientCounts::parameter);
  if (of_p == counts_.end()) of_p = counts_.insert(counts_.end(), {.parameter = p.info.name});
  for (const float value : HostCopy<float>(on_device))
    ++of_p->by_exponent[(std::bit_cast<std::uint32_t>(value) >> 23) & 0xFF];
}

}  // namespace laconic
