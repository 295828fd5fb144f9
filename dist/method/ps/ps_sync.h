#pragma once
#include <atomic>
#include <functional>
#include <vector>

#include "dist/method/bucket_sync.h"
#include "dist/server/server.h"

namespace laconic::dist {

/// The first ranks of groups of so many workers: those that talk to servers.
std::vector<int> leaders_of(int workers, int group);

/// The workers' half of a parameter server (server/server.h has the picture): a bucket's gradients go to its server,
/// straight from the arena, when they are ready; its new values come into the place of the gradients while the rest of
/// backward and the next forward run, and are taken over before its parameters' next forward. The optimiser is the
/// server's: there is none here. After a flush all workers hold the same bits, which are those of the naive sum in rank
/// order whatever the number of servers, their places, the overlap and the order of arrival.
/// Through a codec on the way down they hold what it leaves of the server's values: the same bits on all workers still,
/// but what is evaluated and saved is the server's model, and drift says how far from it the workers are.
///
/// In groups (hybrid aggregation) workers join their gradients by an allreduce inside the group, its first member alone
/// talks to the servers, and passes on to the others what comes:
///
///     group 0   worker 0  1  2  ── allreduce ──▶ worker 0 ── push ──▶ server ── pull ──▶ worker 0 ── broadcast ──▶ 1 2
///     group 1   worker 3  4     ── allreduce ──▶ worker 3 ── push ──▶ (sum)  ── pull ──▶ worker 3 ── broadcast ──▶ 4
///
///   source  LayerDrop, section 2 (hybrid aggregation)
///   cost    up and down n bytes a worker each, in groups one worker of each; a dedicated server N n each way
///   throws  CommError from before_forward, end_step or flush if a rank is lost
class PsSync : public BucketSync {
 public:
  struct Options {
    std::string name = "ps";  ///< of --sync: for state and errors
    int group = 1;            ///< --local-aggregate: workers of a group; the last one may have fewer
    Legs legs{};
  };
  PsSync(WorkerSide side, Options options);
  ~PsSync() override;

  void begin_step(const StepContext& context) override;
  void flush() override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  Costs costs() const override;
  double message_bytes() const override;
  void show_joint_model() override;
  void hide_joint_model() override;
  std::optional<double> drift() const override;
  std::vector<LedgerRow> ledger() const override;
  /// The sum that is kept at home of a bucket, laid out like the arena; empty where nothing is. For audits and tests.
  virtual Slice<const float> kept(std::size_t /*bucket*/) const { return {}; }

 protected:
  /// Whether the servers' model is another one than this worker's.
  virtual bool drifts() const { return o_.legs.rounds_down; }
  /// Whether the step has a round.
  virtual bool joins(const StepContext&) const { return true; }
  /// Adds to the ledger's row of a bucket. Its name, bytes and exchanges are there.
  virtual void account(std::size_t, LedgerRow&) const {}
  /// Whether others of this worker's group are joined with it, and whether it is the one that talks to servers.
  bool grouped() const { return members_.size() > 1; }
  bool leads() const { return members_.front() == engine().rank(); }
  /// Those that talk to servers, and which of them this worker is.
  Holders leaders() const;
  /// Sends on to the group what its first member has heard. All members call it.
  virtual Task<> spread(Communicator& group, std::size_t bucket);
  /// The worker's half of one round, of one that leads; on the communication thread.
  virtual Task<> talk(Communicator& comm, std::size_t bucket, StepContext context);
  /// Sends gradients, or what they have been added up with. With losses what encoding loses of these stays there.
  Task<> push(Communicator& comm, std::size_t bucket, Leg up, Slice<float> x, bool keeps_losses);
  void arrived(std::size_t bucket) override;
  /// Asks the server for the turn of a bucket, and waits for it (server/turns.h).
  /// returns  the largest of all workers' scales
  Task<float> take_turn(Communicator& comm, std::size_t bucket, std::int64_t step, float scale = 0);

  int server_of(std::size_t bucket) const { return side_.server_rank[bucket]; }
  Slice<float> gradients_of(std::size_t b) const { return part(arena().gradients(), bucket(b)); }
  const WorkerSide& side() const { return side_; }
  const Legs& legs() const { return o_.legs; }
  bool accounts() const { return side_.facts.ledger_every > 0; }  ///< it keeps a ledger
  /// Bytes of one bucket that passed between this rank and others.
  std::atomic<std::uint64_t>& up(std::size_t bucket) { return up_[bucket]; }
  std::atomic<std::uint64_t>& down(std::size_t bucket) { return down_[bucket]; }

 private:
  /// All that the servers hold, into the place of the gradients. After a flush; every worker calls it.
  void pull_whole();
  Operation exchange(std::size_t bucket) final;
  Task<> round(Communicator& comm, std::size_t bucket, StepContext context);
  using Half = std::function<Task<>(Communicator&)>;
  Task<> talk_and_serve(Communicator& comm, std::size_t bucket, const Half& work, const Half& serve);
  Task<> show(Communicator& comm, std::size_t bucket);
  bool serves(std::size_t bucket) const { return side_.own != nullptr && server_of(bucket) == engine().rank(); }

  const WorkerSide side_;
  const Options o_;
  const std::vector<int> members_;  // of this worker's group
  const int norm_slot_;
  JointModel joint_;
  Ticket norm_;  // this rank's part in finding the length of the gradient
  bool began_ = false;
  Tensor owed_;  // with Legs::keeps_losses: what encoding has lost, laid out like the arena
  std::vector<std::atomic<std::uint64_t>> up_, down_;  // bytes by bucket
  std::int64_t exchanges_ = 0;
};

}  // namespace laconic::dist
