#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "core/base/trace.h"
#include "dist/engine/flight.h"

namespace laconic::dist {

struct Request;

/// What one operation sends and receives, for a trace and for the flight recorder. A hop is what an operation did until
/// a message came: since it began, or since the message before. An arrow leads there from where the sender handed the
/// message to the network. Messages of one channel of an operation between two ranks keep their order, so both
/// sides number them alike and nothing about the trace travels.
class HopTrace {
 public:
  /// `run`: how many operations that slot has had, this one included; the same on every rank. `flight` may be null;
  /// `name` is the operation's, and outlives this.
  HopTrace(int rank, std::uint32_t run, bool traced, FlightRecorder* flight, const std::string& name)
      : rank_(rank), run_(run), traced_(traced), flight_(flight), name_(name) {}

  void posted(Request& request);             ///< numbers it
  void handed_over(const Request& request);  ///< a send that goes to the network now
  void completed(const Request& request);

  bool traced() const { return traced_; }
  std::uint32_t run() const { return run_; }
  /// The whole operation, which ends now. `arrow`: of the gradients it carries, or 0.
  Trace::Event event(std::string name, Trace::Clock::time_point begin, std::uint64_t arrow);

 private:
  void record(FlightEvent::Kind kind, const Request& request, std::size_t bytes);
  std::uint64_t arrow(const Request& request) const;

  const int rank_;
  const std::uint32_t run_;
  const bool traced_;
  FlightRecorder* const flight_;
  const std::string& name_;
  std::map<std::tuple<int, int, int>, std::uint32_t> count_;  // requests so far, by direction, peer and slot
  Trace::Event event_{.category = "message", .bytes = 0, .overlapping = true};
};

}  // namespace laconic::dist
