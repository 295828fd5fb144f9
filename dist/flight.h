#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace laconic::dist {

/// What happened last on one rank, in a file that outlives the process however that ends: a time-out, SIGKILL, a crash.
/// The file is mapped into memory, so an event costs about 50 ns and no system call, and the kernel writes it out. It
/// has a ring of the last kFlightEvents events for each of the rank's two threads. What is read back is a Flight.
struct FlightEvent {
  enum class Kind : std::uint8_t {
    none,
    step,      ///< number: that begins
    forward,   ///< of a layer's parameter
    backward,  ///< likewise
    submits,   ///< an operation is handed over
    waits,     ///< for an operation to end
    begins,    ///< an operation
    expects,   ///< a message of up to `bytes` from `peer`, the number-th of its operation
    came,      ///< it did, with `bytes`
    sends,     ///< a message is handed to the network, to `peer`
    ends,      ///< an operation
    fails      ///< by the error that its name begins to say
  };
  static constexpr std::size_t kNameBytes = 59;

  std::int64_t time_ns = 0;  ///< of the system's clock, so that ranks on other machines can be compared
  std::uint64_t bytes = 0;
  std::int32_t peer = -1;
  std::uint32_t number = 0;
  std::uint32_t run = 0;  ///< of an operation: how many its slot has had, this one included; the same on every rank
  Kind kind = Kind::none;
  char name[kNameBytes] = "";  ///< cut, and ends with a 0 where there is room

  std::string_view text() const;  ///< the name
};
static_assert(sizeof(FlightEvent) == 88);
inline constexpr std::size_t kFlightEvents = 1024;  ///< of each thread

/// Whose events they are.
struct FlightHeader {
  char magic[8] = {'l', 'a', 'c', 'F', 'L', 'Y', '1', '\0'};
  std::uint32_t event_bytes = sizeof(FlightEvent), events = kFlightEvents;
  std::int32_t rank = 0, ranks = 1;
  std::int64_t pid = 0;
  char host[64] = "";
  std::uint64_t counts[2] = {};  ///< events so far: of the compute thread, of the communication thread
};

class FlightRecorder {
 public:
  /// Makes the folder and DIR/rank-K; one that is there goes to DIR/before. Returns null where that is not possible (no
  /// room, no such mapping): a training does not need it.
  static std::shared_ptr<FlightRecorder> open(const std::string& folder, int rank, int ranks);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();
  /// The training has ended in order: the file goes.
  void forget() noexcept;

  /// One thread at a time each: the compute thread, and whoever does the communication thread's work.
  void compute(FlightEvent::Kind kind, std::string_view name, std::uint32_t number = 0) {
    add(0, kind, name, -1, 0, number);
  }
  void communication(FlightEvent::Kind kind, std::string_view name, int peer = -1, std::uint64_t bytes = 0,
                     std::uint32_t number = 0, std::uint32_t run = 0) {
    add(1, kind, name, peer, bytes, number, run);
  }

 private:
  FlightRecorder(std::string path, void* memory) : path_(std::move(path)), memory_(memory) {}
  void add(int thread, FlightEvent::Kind kind, std::string_view name, int peer, std::uint64_t bytes,
           std::uint32_t number, std::uint32_t run = 0);
  const std::string path_;
  void* const memory_;
};

/// What a file of a recorder holds.
struct Flight {
  FlightHeader header{};
  std::vector<FlightEvent> compute{}, communication{};  ///< in order
};
inline constexpr std::size_t kFlightFileBytes = sizeof(FlightHeader) + 2 * kFlightEvents * sizeof(FlightEvent);
/// Takes the contents of a file. throws DataError, which names `path`, if it is none; lengths are checked before use
Flight flight_from(std::string_view contents, const std::string& path);
/// Reads DIR/rank-K of all ranks that have one; or those in DIR/flight, or else in DIR/flight/before. By rank, of the
/// training that ended last.
/// throws DataError if there is none, or if one is damaged
std::vector<Flight> read_flights(const std::string& folder);

/// What a rank was at, as its events tell.
struct FlightState {
  std::int64_t last_ns = 0;  ///< its last event
  std::uint32_t step = 0;    ///< 0: none of its events tells
  std::string computes{};    ///< "in backward at conv3.weight", "waits for allreduce conv1.weight"; or ""
  struct Operation {
    std::string name{};
    std::uint32_t messages = 0;  ///< that came
    std::uint64_t bytes = 0;     ///< of those
    std::uint32_t run = 0;
    std::vector<std::pair<int, std::uint32_t>> awaited{};  ///< missing messages: peer and number, sorted
  };
  std::vector<Operation> under_way{};
  std::string failure{};  ///< what ended it, or ""
};
FlightState state_of(const Flight& flight);

/// Whether that rank has handed this message of its operation to the network.
bool has_sent(const Flight& flight, const FlightState::Operation& operation, int to, std::uint32_t number);

}  // namespace laconic::dist
