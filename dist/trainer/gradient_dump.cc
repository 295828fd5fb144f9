#include "dist/trainer/gradient_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/host_copy.h"
#include "dist/engine/busy.h"
#include "dist/trainer/gradient_counts.h"

namespace laconic {
namespace {

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

void GradientDump::begin_step(std::int64_t step) {
  folder_.clear();
  if (!looks_at_gradients(step)) return;
  folder_ = fmt::format("{}/step-{:06}", directory_, step);
  const dist::Busy busy(dist::Busy::With::files, "dumps a gradient", [this] { return folder_; });
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<DataError>(!error, folder_, ": the directory could not be made: ", error.message(),
                     ". Check the path of `dump-gradients`.");
}

std::string GradientDump::path(const ParameterInfo& info, const char* ending) const {
  return folder_ + "/" + info.name + ending;
}

void GradientDump::gradient_ready(Parameter& p, Rows rows) {
  if (!folder_.empty()) {
    const auto [first, count] = p.info.part(rows);
    write_at(path(p.info, ".f32"), p.grad().range(first, count).slice(), first, p.info.elements);
  }
  next_.gradient_ready(p, rows);
}

void GradientDump::residual(const Parameter& p, Slice<const float> values) const {
  if (!folder_.empty()) write_at(path(p.info, ".residual.f32"), values, 0, p.info.elements);
}

}  // namespace laconic
