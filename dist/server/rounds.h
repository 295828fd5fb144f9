#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dist/engine.h"
#include "dist/server/server.h"

namespace laconic::dist {

/// The rounds of a dedicated server: as the strategies of the workers do it, it hands one operation a bucket and step
/// to its engine, in the slots that they use.
class Rounds {
 public:
  /// first_slot : of the bucket 0, norm_slot : of the server's JointNorm, as the workers' strategy has reserved them.
  /// Engine and server outlive this.
  Rounds(Engine& engine, ParameterServer& server, int first_slot, int norm_slot)
      : engine_(engine), server_(server), first_slot_(first_slot), norm_slot_(norm_slot) {}
  ~Rounds();  ///< halts the engine if an exception passes while rounds are under way
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
