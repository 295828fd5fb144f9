#pragma once
#include <laconic/core/raw.h>
#include <laconic/dist/collective/reduce.h>
#include <laconic/dist/collective/ring_allreduce.h>
#include <laconic/dist/engine/engine.h>
#include <laconic/dist/method/method.h>
#include <laconic/dist/method/none/no_sync.h>

#include <memory>
#include <string>

namespace own {
using namespace laconic;
using namespace laconic::dist;

/// Gossip (after Lian et al. 2017): each worker trains by itself, and every so many steps takes the mean with one
/// neighbour on a ring, in turns the right one and the left one. Nobody waits for all.
class Gossip final : public Method {
 public:
  std::string name() const override { return "gossip"; }
  std::string summary() const override { return "each worker by itself, and now and then the mean of two"; }
  Traits traits() const override {
    return {.same_bits = false, .every = every_, .period = 2 * every_, .keeps = "neighbour"};
  }
  void settings(Settings& s) override {
    s.group("Gossip (`sync` gossip)", Scope::exchange);
    s.whole_number<std::int64_t>("gossip-every", "H", every_, 1, "steps from one mean with a neighbour to the next");
  }
  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce" || setting == "fusion" || setting == "chunk" || setting == "plan" || setting == "reduce")
      return Refusal{"gossip sends parameters, and no gradients", "leave it out"};
    return Method::refuses(setting);
  }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return std::make_unique<Half>(side, every_); }

 private:
  class Half final : public NoSync {
   public:
    Half(const WorkerSide& side, std::int64_t every)
        : NoSync(side.arena, side.update),
          arena_(side.arena),
          engine_(side.engine),
          theirs_(side.arena.make_state()),
          joint_(side.arena),
          every_(every) {}
    void begin_step(const StepContext& context) override {
      step_ = context.step;
      NoSync::begin_step(context);
    }
    void end_step() override {
      const int partner = partner_of(step_ / every_);
      if (step_ % every_ != 0 || partner < 0) return;
      flush();
      const Tensor& mine = arena_.values();
      engine_.run(
          "mean of two",
          [&, partner](Communicator& comm) { return exchange(comm, partner, mine.slice(), partner, theirs_.slice()); },
          mine.device());
      raw::add_into(mine, theirs_);
      raw::scale(mine, 0.5f);
      arena_.changed();
    }
    void show_joint_model() override {  // the mean of all
      const Tensor& mean = arena_.gradients();
      mean.copy_from(arena_.values());
      engine_.run(
          "mean of all", [&](Communicator& comm) { return ring_allreduce(comm, mean.slice()); }, mean.device());
      raw::scale(mean, 1.0f / static_cast<float>(engine_.size()));
      joint_.show();
    }
    void hide_joint_model() override { joint_.hide(); }
    std::optional<double> drift() const override { return joint_.drift(); }

   private:
    /// Ranks 0 and 1, 2 and 3, …; next time 1 and 2, 3 and 4, …, and the last with 0 where they are even. -1: nobody.
    int partner_of(std::int64_t turn) const {
      const int N = engine_.size(), rank = engine_.rank();
      const int partner = (rank + turn) % 2 == 0 ? rank + 1 : rank - 1;
      if (N % 2 == 0) return (partner + N) % N;
      return partner < N ? partner : -1;
    }
    const ParameterArena& arena_;
    Engine& engine_;
    const Tensor theirs_;
    JointModel joint_;
    const std::int64_t every_;
    std::int64_t step_ = 0;
  };
  std::int64_t every_ = 8;
};

}  // namespace own
