#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace laconic::dist {

using LinkTime = std::chrono::steady_clock::time_point;
using LinkDuration = std::chrono::nanoseconds;

/// A worker's connection to the network.
struct LinkSpec {
  std::int64_t bits_per_second = 1'000'000'000;  ///< rate in each direction
  LinkDuration latency{0};                       ///< time from port to port, one way
  LinkDuration jitter{0};                        ///< the most that a message is late besides, drawn evenly

  /// Reads "RATE,LATENCY[,JITTER]", as 100mbit,1ms or 1gbit,50us,10us. Rates in bit, kbit, mbit, gbit per second (no
  /// unit: bit), times in ns, us, ms, s (no unit: s). `where` stands in errors, "--link". Throws UsageError.
  static LinkSpec parse(const std::string& text, const std::string& where);
  std::string to_string() const;  ///< "100 Mbit/s, 1 ms"
  bool operator==(const LinkSpec&) const = default;
};

class SwitchModel;

/// The network of a whole run: one kind of link, and exceptions; or two kinds, inside hosts and between them.
struct LinkOptions {
  LinkSpec all;
  std::map<int, LinkSpec> of{};  ///< exceptions, by rank
  /// The number of ranks that share a host, from rank 0 on; the last host may have fewer. 0: each has a cable of its
  /// own, and `between` has no meaning.
  int per_host = 0;
  LinkSpec between{};  ///< the port that all ranks of a host share, for what leaves it or comes from another

  std::string to_string() const;  ///< "100 Mbit/s, 1 ms", exceptions and hosts behind it
  /// The ports of the ranks. Throws UsageError if an exception names a rank that is not there.
  SwitchModel model(int ranks) const;
};

/// What N ports connected by a perfect switch do with messages: pure arithmetic on explicit points in time.
///
///   A worker has one port. Where there are hosts it serves what stays on the worker's host; a host has one more, which
///   alone serves what goes to other hosts or comes from them. A port is full duplex: what it sends and what it
///   receives do not disturb each other. Each direction serialises, in segments (what the port sends in 250 us, 1,500
///   bytes … 64 KiB): messages that are on the wire together take turns, so a small one is not stuck behind a large
///   one.
///     a message starts          at max(its stamp, port free), or at its turn
///     its segments reach        the receiver's port after the latency of the slower end, and the message's own jitter
///     they are served there     in order of arrival, bytes / rate each; never before their last byte has left the
///                               sender
///     it is sent                when the sender's port is done with it; due, when the receiver's port is
///   An n-byte message alone: sent at stamp + n/rate, due at stamp + latency + n/rate (the smaller rate of both ends).
///
/// Stamps may lie in the past (a message posted in consequence of another is stamped with that one's due time); what
/// was decided before is not taken back. A message to oneself is due at its stamp. One thread at a time.
class SwitchModel {
 public:
  using Id = std::uint64_t;
  struct Event {
    enum class Kind : unsigned char { sent, due };
    Id message;
    Kind kind;
    LinkTime at;
  };

  /// ports : by rank.   hosts : one more port for each host of per_host ranks; none: each rank is on a host of its own
  explicit SwitchModel(const std::vector<LinkSpec>& ports, const std::vector<LinkSpec>& hosts = {}, int per_host = 0);

  Id send(int from, int to, std::size_t bytes, LinkTime stamp);
  /// What has not left stays; no more events. What has left still takes its share of the receiver's port.
  void cancel(Id message);
  /// Decides everything up to `now`; appends the events that became certain (their time may lie somewhat after `now`).
  void advance(LinkTime now, std::vector<Event>& events);
  /// When advance() will next decide something: the next segment that leaves or arrives. Nothing: no message is there.
  std::optional<LinkTime> next_decision() const;
  /// Not later than the next event of a message from or to this rank that advance() has not told yet; exact if the
  /// message shares no port. Nothing: there is no message.
  std::optional<LinkTime> next_event(int rank) const;
  /// Not later than the message becomes due.
  LinkTime earliest_due(Id message) const;

 private:
  struct Port {
    LinkSpec spec;
    std::size_t segment = 0;
    LinkTime send_free{}, receive_free{};
    std::deque<Id> turns;  // messages with bytes to send, the next one first
  };
  struct Message {
    int from, to;                   // ranks
    std::size_t out, in;            // ports
    std::size_t unsent, unarrived;  // bytes
    LinkTime stamp;
    LinkDuration delay;
    bool started = false, left = false;               // its first, last segment was decided
    LinkTime first_head{}, last_head{}, last_tail{};  // when the segments that were decided reach the receiver
    std::size_t last_bytes = 0;
  };
  struct Arrival {  // a segment on its way
    LinkTime head, tail;
    std::uint64_t number;
    Id message;
    std::size_t in;
    std::size_t bytes;
    bool last;
    bool operator>(const Arrival& o) const { return std::pair(head, number) > std::pair(o.head, o.number); }
  };

  std::size_t port_of(int rank, int peer) const;
  LinkDuration delay(int from, int to);
  std::optional<LinkTime> next_start(const Port& port) const;
  LinkTime earliest_sent(const Message& m) const;
  LinkTime earliest_due(const Message& m) const;
  void start_segment(Port& port, LinkTime at, std::vector<Event>& events);
  void arrive(const Arrival& segment, std::vector<Event>& events);

  std::vector<Port> ports_;  // the ranks' ports, then the hosts'
  const int ranks_, per_host_;
  std::map<Id, Message> messages_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::vector<Event> at_once_;  // events of messages to oneself
  std::map<std::pair<int, int>, std::uint64_t> count_;
  Id next_id_ = 1;
  std::uint64_t next_number_ = 0;
};

}  // namespace laconic::dist
