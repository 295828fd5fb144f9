#pragma once
#include <cstddef>
#include <optional>
#include <span>

namespace laconic::dist {

/// A stream of equal messages from each rank to the next one, by which a rate is measured.
struct StreamSize {
  std::size_t messages = 0;
  std::size_t bytes = 0;  ///< of each

  std::size_t total() const { return messages * bytes; }
  /// What arrives before this message does not count: it fills buffers on the way, and uses up what a shaped link lets
  /// pass at once.
  std::size_t first_counted() const { return messages / 2; }
};

/// What is not known yet is measured by this one first: 512 KiB, more than buckets of traffic shapers hold (150 kB are
/// usual). The streams after it find an empty one, and a connection that has found its pace.
inline constexpr StreamSize kFirstStream{32, 16 << 10};

inline constexpr int kMostStreams = 4;

/// A stream that takes about 0.3 s at this rate: about 64 messages, of 16 to 256 KiB, 64 MiB in all at most, and no
/// shorter than kFirstStream.
StreamSize stream_for(double bytes_per_second);

/// Whether what counts of these arrivals took so long (0.1 s) that what a thread is late by is small beside it.
bool long_enough(const StreamSize& stream, std::span<const double> arrivals);

/// The stream to be run after this one; nothing where its rate stands. The first one alone is enough only where it
/// takes longer than a second.
///   number : of `last`, from 1      rate : that it has found      enough : it was long_enough()
std::optional<StreamSize> next_stream(int number, const StreamSize& last, double rate, bool enough);

/// Bytes a second: the slope of the line through the arrivals that count, by least squares. Neither latency nor what a
/// link lets pass at first changes it. Messages that are noticed late, or several together, change it little: their
/// errors are averaged.
///   arrivals : seconds since any moment, one for each message, in their order
double rate_of(const StreamSize& stream, std::span<const double> arrivals);

}  // namespace laconic::dist
