#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dist/engine.h"
#include "dist/update.h"

namespace laconic::dist {

/// Rank 0 tells it to the dedicated servers, which have no loop of their own. They obey in order.
struct Command {
  enum class Kind : std::uint32_t {
    step,     ///< a round of every bucket begins: step, lr and scale are those of its updates
    figures,  ///< all of that step was handed over: join the sum of its figures
    show,     ///< send all of every bucket to all workers
    audit,    ///< send a checksum of what is held
    rest,     ///< nothing follows for as long as it may take (an evaluation)
    save,     ///< write a part of the checkpoint of this step
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

  /// Rank 0: to all servers, at once. Does not wait.
  void tell(const Command& command);
  /// A server: the next one. `patiently`: without a time-out, where rank 0 may rightly be silent for long.
  Command next(bool patiently);

 private:
  Engine& engine_;
  const int workers_, slot_;
};

/// Before the first step, rank 0 to one server and back, in slot 0: a text, or floats.
void send_text(Engine& engine, int to, const std::string& text);
std::string recv_text(Engine& engine, int from);
void send_floats(Engine& engine, int to, Slice<const float> x);
void recv_floats(Engine& engine, int from, Slice<float> x);

}  // namespace laconic::dist
