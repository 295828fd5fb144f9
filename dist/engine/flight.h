#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laconic::dist {

/// One thing that happened on a rank, as it stands in a recorder's file.
struct FlightEvent {
  enum class Kind : std::uint8_t {
    none,
    step,      ///< number: that begins
    forward,   ///< forward comes to a layer's parameter
    backward,  ///< backward comes to a layer's parameter
    submits,   ///< an operation is handed over
    waits,     ///< the compute thread waits for an operation to end
    begins,    ///< an operation
    expects,   ///< a message of up to `bytes` from `peer`, the number-th of its operation
    came,      ///< the message came, with `bytes`
    sends,     ///< a message is handed to the network, to `peer`
    ends,      ///< an operation
    fails      ///< by the error that its name begins to say
  };
  static constexpr std::size_t kNameBytes = 55;

  std::int64_t time_ns = 0;  ///< the system's clock, so that ranks on other machines can be compared
  std::uint64_t bytes = 0;
  std::int32_t peer = -1;
  std::uint32_t number = 0;
  std::int32_t slot = -1;  ///< an operation's slot; a message's is the one it matches by, which tells its channel too
  std::uint32_t run = 0;  ///< how many operations that slot has had, this one included; the same on every rank, but for
                          ///< slot 0 where there are servers
  Kind kind = Kind::none;
  char name[kNameBytes] = "";  ///< cut, and ends with a 0 where there is room

  std::string_view text() const;  ///< the name
};
static_assert(sizeof(FlightEvent) == 88);
inline constexpr std::size_t kFlightEvents = 4096;  ///< events of each thread

/// The head of such a file: it says whose events follow.
struct FlightHeader {
  char magic[8] = {'l', 'a', 'c', 'F', 'L', 'Y', '2', '\0'};
  std::uint32_t event_bytes = sizeof(FlightEvent), events = kFlightEvents;
  std::int32_t rank = 0, ranks = 1;
  std::int64_t begun_ns = 0;  ///< when the recorder was opened
  char host[64] = "";
  std::uint64_t counts[2] = {};  ///< events so far: of the compute thread, of the communication thread
};

/// Keeps the last events of one rank in a file that outlives the process however that ends: a time-out, SIGKILL, a
/// crash. The file is mapped into memory, so an event costs about 50 ns and no system call, and the kernel writes it
/// out. It has a ring of kFlightEvents for each of the rank's two threads, 0.7 MB in all. It is read back as a Flight.
class FlightRecorder {
 public:
  /// Makes the folder and DIR/rank-K; one that is there goes to DIR/before. On a file system of other machines that is
  /// a link to a file in /dev/shm, for a page of a mapped file must never wait for a network.
  ///   remote : says that DIR is on one; nothing: the kernel is asked
  /// Returns null where that is not possible (no room, no such mapping): a training does not need it.
  static std::shared_ptr<FlightRecorder> open(const std::string& folder, int rank, int ranks,
                                              std::optional<bool> remote = {});
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();
  /// The training has ended in order: the file goes, and so does the one before.
  void forget() noexcept;

  /// One thread at a time each: the compute thread, and the one that does the communication thread's work.
  void compute(FlightEvent::Kind kind, std::string_view name, std::uint32_t number = 0) {
    FlightEvent event;
    event.kind = kind, event.number = number;
    add(0, event, name);
  }
  void communication(const FlightEvent& event, std::string_view name) { add(1, event, name); }

 private:
  FlightRecorder(std::string path, void* memory) : path_(std::move(path)), memory_(memory) {}
  void add(int thread, FlightEvent event, std::string_view name);
  const std::string path_;
  void* const memory_;
};

/// The contents of a recorder's file.
struct Flight {
  FlightHeader header{};
  std::vector<FlightEvent> compute{}, communication{};  ///< in order
};
inline constexpr std::size_t kFlightFileBytes = sizeof(FlightHeader) + 2 * kFlightEvents * sizeof(FlightEvent);
/// Takes the contents of a file. throws DataError, which names `path`, if it is none; lengths are checked before use
Flight flight_from(std::string_view contents, const std::string& path);
/// The files of one training that can be read, by rank, and those that cannot.
struct Flights {
  std::string folder{};
  std::vector<Flight> ranks{};
  std::vector<std::string> unreadable{};  ///< a sentence each
};
/// Reads DIR/rank-K of all ranks that have one; or those in DIR/flight, or else in DIR/flight/before.
/// throws DataError if there is none that can be read
Flights read_flights(const std::string& folder);

/// The state of a rank, as its events tell.
struct FlightState {
  std::int64_t last_ns = 0;  ///< its last event
  std::uint32_t step = 0;    ///< 0: none of its events tells
  std::string computes{};    ///< "in backward at conv3.weight", "waits for allreduce conv1.weight"; or ""
  struct Message {
    int peer = 0, slot = 0;
    std::uint32_t number = 0;
  };
  struct Operation {
    std::string name{};
    int slot = 0;
    std::uint32_t run = 0;
    std::uint32_t messages = 0;  ///< messages that came, as far as the events reach back
    std::uint64_t bytes = 0;     ///< bytes of these messages
    std::vector<Message> awaited{};
  };
  std::vector<Operation> under_way{};
  std::string failure{};  ///< what ended it, or ""
};
FlightState state_of(const Flight& flight);

/// Whether that rank has handed this message of an operation to the network. Nothing: its events do not reach back so
/// far.
std::optional<bool> has_sent(const Flight& sender, int to, const FlightState::Operation& operation,
                             const FlightState::Message& message);

}  // namespace laconic::dist
