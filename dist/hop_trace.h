#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/trace.h"

namespace laconic::dist {

struct Request;

/// What one operation sends and receives, for a trace. A hop is what an operation did until a message came: since it
/// began, or since the message before. An arrow leads there from where the sender handed the message to the network.
/// Messages of one operation between two ranks keep their order, so both sides number them alike and nothing about the
/// trace travels.
class HopTrace {
 public:
  /// `run`: how many operations of that slot were traced, this one included; the same on every rank.
  HopTrace(int rank, int slot, std::uint64_t run) : rank_(rank), slot_(slot), run_(run) {}

  void posted(Request& request);             ///< numbers it
  void handed_over(const Request& request);  ///< a send that goes to the network now
  void completed(const Request& request);

  /// The whole operation, which ends now. `arrow`: of the gradients it carries, or 0.
  Trace::Event event(std::string name, Trace::Clock::time_point begin, std::uint64_t arrow);

 private:
  std::uint64_t arrow(const Request& request) const;

  const int rank_, slot_;
  const std::uint64_t run_;
  std::map<std::pair<int, int>, std::uint32_t> count_;  // by direction and peer
  Trace::Event event_{.category = "message", .bytes = 0, .overlapping = true};
};

}  // namespace laconic::dist
