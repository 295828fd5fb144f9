#include "dist/trainer/gradient_dump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/host_copy.h"

namespace laconic {
namespace {

bool is_power_of_ten(std::int64_t step) {
  while (step > 0 && step % 10 == 0) step /= 10;
  return step == 1;
}

/// Writes into a file of `elements` floats from one of them on.
void write_at(const std::string& path, Slice<const float> on_device, std::int64_t first, std::int64_t elements) {
  const HostCopy<float> values(on_device);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const char* data = reinterpret_cast<const char*>(values.data());
  std::size_t left = file < 0 ? 0 : values.size_bytes();
  auto offset = static_cast<off_t>(first * 4);
  bool ok = file >= 0 && ftruncate(file, static_cast<off_t>(elements * 4)) == 0;
  while (ok && left > 0) {
    const ssize_t written = pwrite(file, data, left, offset);
    ok = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) data += written, left -= static_cast<std::size_t>(written), offset += written;
  }
  const int error = errno;
  if (file >= 0) close(file);
  require<DataError>(ok, path, ": a gradient could not be written: ", std::strerror(error),
                     ". Check the path of --dump-gradients, and the space there.");
}

}  // namespace

void GradientDump::begin_step(std::int64_t step) {
  folder_.clear();
  if (!is_power_of_ten(step)) return;
  folder_ = fmt::format("{}/step-{:06}", directory_, step);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<DataError>(!error, folder_, ": the directory could not be made: ", error.message(),
                     ". Check the path of --dump-gradients.");
}

std::string GradientDump::path(const ParameterInfo& info, const char* ending) const {
  return folder_ + "/" + info.name + ending;
}

void GradientDump::gradient_ready(Parameter& p, Rows rows) {
  if (!folder_.empty()) {
    const std::int64_t row = p.info.elements / std::max<std::int64_t>(1, p.all_rows().count);
    const auto first = static_cast<std::size_t>(rows.first * row), count = static_cast<std::size_t>(rows.count * row);
    write_at(path(p.info, ".f32"), p.grad().slice().sub(first, count), rows.first * row, p.info.elements);
  }
  next_.gradient_ready(p, rows);
}

void GradientDump::residual(const Parameter& p, Slice<const float> values) const {
  if (!folder_.empty()) write_at(path(p.info, ".residual.f32"), values, 0, p.info.elements);
}

}  // namespace laconic
