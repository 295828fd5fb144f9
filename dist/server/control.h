#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/engine/engine.h"
#include "dist/server/server.h"

namespace laconic::dist {

/// Rank 0 tells it to the dedicated servers, which have no loop of their own. They obey in order.
struct Command {
  enum class Kind : std::uint32_t {
    step,     ///< a round of every bucket begins: step, lr and scale are its updates'
    figures,  ///< the step was handed over: join the sum of its figures
    show,     ///< send all of every bucket to all workers
    audit,    ///< send a checksum of what is held
    rest,     ///< an evaluation follows: what travels meanwhile belongs to no step
    save,     ///< begin to write a part of the checkpoint of this step
    saved,    ///< wait until that counts
    total,    ///< join the sum of all bytes
    end,      ///< leave
  };
  Kind kind = Kind::end;
  std::uint32_t reserved = 0;
  std::int64_t step = 0;
  double lr = 0, scale = 1;
};

/// Rank 0's end, and the servers': a slot of its own, so that commands keep their order and mix with nothing.
class ServerControl {
 public:
  /// Every rank makes one, in the same order; `workers` of the engine's ranks are no servers.
  ServerControl(Engine& engine, int workers) : engine_(engine), workers_(workers), slot_(engine.reserve_slots(1)) {}

  /// To all servers, at once, if this is rank 0; nothing after the command to leave. Does not wait.
  void tell(const Command& command);
  Command next();  ///< the next command, on a server

 private:
  Engine& engine_;
  const int workers_, slot_;
  bool dismissed_ = false;  // they have been told to leave
};

/// The rounds of a dedicated server: as the strategies of the workers do it, it hands one operation a bucket and step
/// to its engine, in the slots that they use.
class Rounds {
 public:
  /// Reserves slots for all buckets of the plan, and one for the server's JointNorm, as the workers' strategy does.
  /// Engine and server outlive this.
  Rounds(Engine& engine, ParameterServer& server, int buckets)
      : engine_(engine),
        server_(server),
        first_slot_(engine.reserve_slots(buckets + 1)),
        norm_slot_(first_slot_ + buckets) {}
  /// Halts the engine if an exception passes while rounds are under way.
  ~Rounds() {
    if (!tickets_.empty()) engine_.halt();
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// A round of every bucket. Does not wait; rounds of one bucket follow one another.
  void begin(const StepContext& context);
  /// All of every bucket to all workers. Does not wait.
  void show();
  /// Waits for all rounds begun. throws CommError if a worker is lost
  void wait();

 private:
  void submit(const std::string& what, const std::function<Task<>(Communicator&, const Shard::Unit&)>& body);

  Engine& engine_;
  ParameterServer& server_;
  const int first_slot_, norm_slot_;
  std::vector<Ticket> tickets_;
};

}  // namespace laconic::dist
