#pragma once
#include <laconic/core/raw.h>
#include <laconic/dist/collective/ring_allreduce.h>
#include <laconic/dist/engine.h>
#include <laconic/dist/method/method.h>
#include <laconic/dist/method/none/no_sync.h>

#include <memory>
#include <string>

namespace own {
using namespace laconic;
using namespace laconic::dist;

/// Local SGD (Stich 2019): each worker trains by itself, and every so many steps all go on from their mean.
class LocalSgd final : public Method {
 public:
  std::string name() const override { return "local"; }
  std::string summary() const override { return "each worker by itself, and now and then the mean of all"; }
  Traits traits() const override { return {.same_bits = false}; }
  void settings(Settings& s) override {
    s.group("Local SGD (`sync` local)", Scope::exchange);
    s.whole_number<std::int64_t>("every", "H", every_, 1, "steps from one mean of all parameters to the next");
  }
  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce" || setting == "fusion" || setting == "chunk" || setting == "plan" || setting == "reduce")
      return Refusal{"local SGD sends parameters, and no gradients", "leave it out"};
    return Method::refuses(setting);
  }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return std::make_unique<Half>(side, every_); }

 private:
  class Half final : public NoSync {
   public:
    Half(const WorkerSide& side, std::int64_t every)
        : NoSync(side.arena, side.update), side_{side.arena, side.engine}, joint_(side.arena), every_(every) {}
    void begin_step(const StepContext& context) override {
      step_ = context.step;
      NoSync::begin_step(context);
    }
    void end_step() override {
      if (step_ % every_ != 0) return;
      flush();
      mean_of_all(side_.arena.values());
      side_.arena.changed();
    }
    void show_joint_model() override {
      side_.arena.gradients().copy_from(side_.arena.values());
      mean_of_all(side_.arena.gradients());
      joint_.show();
    }
    void hide_joint_model() override { joint_.hide(); }
    std::optional<double> drift() const override { return joint_.drift(); }

   private:
    void mean_of_all(const Tensor& x) {
      side_.engine.run("mean of all", [&](Communicator& comm) { return ring_allreduce(comm, x.slice()); },
                  x.device());
      raw::scale(x, 1.0f / static_cast<float>(side_.engine.size()));
    }
    struct {
      const ParameterArena& arena;
      Engine& engine;
    } side_;
    JointModel joint_;
    const std::int64_t every_;
    std::int64_t step_ = 0;
  };
  std::int64_t every_ = 8;
};

}  // namespace own
