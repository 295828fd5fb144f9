#pragma once
#include <memory>
#include <vector>

#include "compress/slim.h"
#include "dist/method/ps/ps_sync.h"

namespace laconic::dist {

/// Slim-DP, the workers' half (slim_server.cc has the other): every worker trains by itself, and every so many
/// steps sends a choice of what it has learned since, and takes over a choice of the server's parameters.
///
///     when a layer's gradient is ready     the worker's own update, put by; delta += what it changed, weighed by its
///                                          samples of the step, as a dense gradient is (n_k N / n)
///     every `local_steps` steps            chosen of delta: core and explorer, sent; delta = 0
///     before its next forward              w = what was put by; w[keys] = what came                      Merge
///
/// A change that is not sent is not accumulated: the worker's own parameters hold it already (`residual`, an
/// experiment, keeps it in delta for the next choice). So workers drift apart where nothing was pulled; that is the
/// method. What all have in common is the server's model: evaluation and weights take that, and drift says how far the
/// workers' are. Choosing overlaps with backward, bucket by bucket. The server's bits are those of any overlap and
/// number of servers.
/// source  SlimDP, Algorithms 1 and 2 (settled: values contain the learning rate; the mean over workers)
class SlimSync final : public PsSync {
 public:
  struct Rules {
    compress::SlimRules chosen{};
    std::int64_t local_steps = 1;  ///< p: steps from one exchange to the next
    bool whole_model = false;      ///< --slim-scope model: one choice of all parameters, as in the paper
    bool residual = false;         ///< --slim-residual
  };
  /// side.update : the worker's own
  SlimSync(WorkerSide side, Options options, const Rules& rules);
  ~SlimSync() override { halt_what_is_under_way(); }

  Costs costs() const override;
  double message_bytes() const override;

 private:
  struct State {  // of one bucket
    compress::SlimSet set;
    compress::SlimReader reader;  // reads what the server sends
    std::vector<float> values;    // chosen
    bool exchanged = false;       // in this step
    compress::SlimBytes bytes;    // over the network, both ways
  };
  bool drifts() const override { return true; }
  bool joins(const StepContext& context) const override { return context.step % rules_.local_steps == 0; }
  compress::SlimKey key_of(std::size_t b, std::uint64_t round) const {
    return {legs().seed, round, static_cast<std::uint32_t>(b), 1 + static_cast<std::uint32_t>(engine().rank())};
  }
  std::uint64_t round_of(const StepContext& context) const {
    return static_cast<std::uint64_t>(context.step / rules_.local_steps - 1);
  }
  void filled(std::size_t bucket) override;
  Task<> talk(Communicator& comm, std::size_t bucket, StepContext context) override;
  void arrived(std::size_t bucket) override;
  void account(std::size_t bucket, LedgerRow& row) const override;
  /// What was chosen of the changes; of a ghost's as many elements.
  Slice<const float> chosen(std::size_t b) const {
    if (delta_.device() == kGhost) return part(delta_, bucket(b)).first(format(b, nullptr).count());
    return slice(states_[b].values);
  }
  compress::SlimFormat format(std::size_t b, const compress::Codec* codec) const {
    return {.rules = rules_.chosen, .n = static_cast<std::size_t>(bucket(b).elements), .codec = codec};
  }

  const Rules rules_;
  Tensor next_, delta_;  // laid out like the arena: values after this step's own update; changes not sent yet
  std::vector<State> states_;
  double own_update_seconds_ = 0;
};

/// The servers' half.
std::unique_ptr<ParameterServer> make_slim_server(Shard& shard, ParameterServer::Options options,
                                                  const SlimSync::Rules& rules);

/// Where messages about this memory are put together: in the host's; of a ghost they are ghosts too.
inline Device device_of_messages(Device device) { return device == kGhost ? kGhost : kCpu; }

/// So many buckets send at once (server/turns.h), or come back.
inline constexpr double kSlimTurns = 2;
/// Memory for the keys and values of one choice, about: keys are drawn into more than they need, round after round.
inline double chosen_bytes(const compress::SlimFormat& format) {
  return (2 * sizeof(std::uint32_t) + sizeof(float)) * static_cast<double>(format.count());
}

/// Tells GhostWork of choosing: a new core from all elements; then, for each element that travels, its draw and its
/// copy.
void tell_choice(Device device, const compress::SlimFormat& format, bool of_core);

/// One number each way: whether a message was understood. Bytes that are no such number: CommError.
Task<> send_answer(Communicator& comm, int to, bool wants_keys, Leg leg);
Task<bool> recv_answer(Communicator& comm, int from, Leg leg);

}  // namespace laconic::dist
