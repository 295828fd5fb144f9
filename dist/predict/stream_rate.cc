#include "dist/predict/stream_rate.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {
namespace {

constexpr double kStreamSeconds = 0.3, kEnoughSeconds = 0.1;
constexpr std::size_t kMessages = 64, kMostStreamBytes = 64 << 20;
constexpr std::size_t kLeastMessage = 16 << 10, kMostMessage = kMessageBytes;

std::span<const double> counted(const StreamSize& stream, std::span<const double> arrivals) {
  require<Error>(stream.messages >= 4 && arrivals.size() == stream.messages, "calibration: ", arrivals.size(),
                 " arrivals of ", stream.messages, " messages. Give one for each of four or more.");
  return arrivals.subspan(stream.first_counted());
}

}  // namespace

StreamSize stream_for(double bytes_per_second) {
  const double wanted = std::clamp(kStreamSeconds * bytes_per_second, static_cast<double>(kFirstStream.total()),
                                   static_cast<double>(kMostStreamBytes));
  const auto total = static_cast<std::size_t>(wanted);
  const std::size_t bytes = std::clamp(total / kMessages, kLeastMessage, kMostMessage);
  return {std::max(kFirstStream.messages, total / bytes), bytes};
}

bool long_enough(const StreamSize& stream, std::span<const double> arrivals) {
  const std::span<const double> times = counted(stream, arrivals);
  return times.back() - times.front() >= kEnoughSeconds;
}

std::optional<StreamSize> next_stream(int number, const StreamSize& last, double rate, bool enough) {
  const StreamSize next = stream_for(rate);
  const bool slow = static_cast<double>(last.total()) > rate;
  if (number == 1) return slow ? std::nullopt : std::optional(next);
  return enough || number == kMostStreams || next.total() <= last.total() ? std::nullopt : std::optional(next);
}

double rate_of(const StreamSize& stream, std::span<const double> arrivals) {
  const std::span<const double> times = counted(stream, arrivals);
  const auto n = static_cast<double>(times.size());
  double mean = 0;
  for (const double t : times) mean += t / n;
  double along = 0, squares = 0;  // time over messages: it is the times that are noisy
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double from_middle = static_cast<double>(i) - (n - 1) / 2;
    along += from_middle * (times[i] - mean), squares += from_middle * from_middle;
  }
  constexpr double kLeastSeconds = 1e-9;  // a message: all came at once
  return static_cast<double>(stream.bytes) / std::max(kLeastSeconds, along / squares);
}

}  // namespace laconic::dist
