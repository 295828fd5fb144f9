#include "harness.h"

#include <laconic/core/base/settings.h>

#include <cmath>

namespace lab {
namespace {

/// Lab 4: each parameter travels as the elements that choose() takes of it, when its gradient is ready.
class TopK final : public Buckets {
 public:
  TopK(const WorkerSide& side, double density)
      : Buckets(side),
        density_(density),
        put_by_(side.facts.put_by()),
        residual_(side.arena.make_state()),
        travels_(buckets()) {}
  ~TopK() override { engine().halt(); }  // before its own memory goes
  void gradient_ready(Parameter& p, Rows) override {
    const std::size_t b = bucket_of(p), n = p.grad().slice().size();
    const std::size_t k =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(density_ * static_cast<double>(n))));
    Travelling& t = travels_[b];
    t.mine = choose(p.grad().slice(), residual_.range(p.info.offset, p.info.elements).slice(), k);
    require<Error>(t.mine.size() == k, "choose() returned ", t.mine.size(), " elements of ", p.info.name, ", and not ",
                   k);
    for (const Element& e : t.mine) require<Error>(e.index < n, "choose() returned an index that is none: ", e.index);
    t.ticket = submit(b, [&t](Communicator& comm) { return gather(comm, t.mine, t.all); });
  }
  void end_step() override {
    for (std::size_t b = 0; b < buckets(); ++b) {
      engine().wait(travels_[b].ticket);
      const Slice<float> sum = gradients_of(b);
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (const auto& theirs : travels_[b].all)
        for (const Element& e : theirs) {
          require<CommError>(e.index < sum.size(), "an element came with an index that is none: ", e.index);
          sum[e.index] += e.value;
        }
      update(b);
    }
  }
  void save(RankState& state) const override { state.set("lab4.residual", residual_, put_by_); }
  void load(const StateDict& state) override { residual_.copy_from(state.at("lab4.residual")); }

 private:
  struct Travelling {
    std::vector<Element> mine;
    std::vector<std::vector<Element>> all;
    Ticket ticket;
  };
  const double density_;
  const Join put_by_;
  const Tensor residual_;
  std::vector<Travelling> travels_;  // by bucket
};

class LabMethod : public Method {
 public:
  LabMethod(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}
  std::string name() const override { return name_; }
  std::string summary() const override { return summary_; }
  std::optional<Refusal> refuses(const std::string& setting) const override {
    for (const char* other : {"allreduce", "overlap", "chunk", "plan"})
      if (setting == other) return Refusal{"`sync` " + name_ + " has no use for it", "leave it out"};
    return Method::refuses(setting);
  }
  void shape(PlanOptions& plan, const TrainingFacts&) const override { plan.chunk_bytes = 0; }

 private:
  const std::string name_, summary_;
};

struct Lab2 final : LabMethod {
  Lab2() : LabMethod("lab2", "your exchange beside backward") {}
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return overlap_backward(side); }
};

struct Lab3 final : LabMethod {
  Lab3() : LabMethod("lab3", "your exchange beside backward and the next forward") {}
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return overlap_forward(side); }
};

class Lab4 final : public LabMethod {
 public:
  Lab4() : LabMethod("lab4", "the elements that you choose") {}
  Traits traits() const override { return {.keeps = "residual"}; }
  void settings(Settings& s) override {
    s.group("Lab 4 (`sync` lab4)", Scope::exchange);
    s.real_number("density", "D", density_, 0, 1, "0.01", "share of a tensor's elements that is sent");
  }
  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "fusion") return Refusal{"`sync` lab4 sends each parameter alone", "leave it out"};
    return LabMethod::refuses(setting);
  }
  void shape(PlanOptions& plan, const TrainingFacts&) const override { plan.chunk_bytes = plan.bucket_bytes = 0; }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return std::make_unique<TopK>(side, density_); }

 private:
  double density_ = 0.01;
};

class Lab5 final : public LabMethod {
 public:
  Lab5() : LabMethod("lab5", "your local SGD") {}
  Traits traits() const override { return {.same_bits = false}; }
  void settings(Settings& s) override {
    s.group("Lab 5 (`sync` lab5)", Scope::exchange);
    s.whole_number<std::int64_t>("every", "H", every_, 1, "steps of each worker from exchange to exchange");
  }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override { return local_sgd(side, every_); }

 private:
  std::int64_t every_ = 8;
};

}  // namespace

void add_methods() {
  allreduces().push_back({.name = "lab1",
                          .summary = "your ring",
                          .run = [](Communicator& comm, Slice<float> x, AllreduceNumbers, const Hops& hops) {
                            require<UsageError>(hops.codec == nullptr,
                                                "`allreduce` lab1 knows no codec (`codec`): leave it out");
                            return allreduce(comm, x);
                          }});
  methods().add<Lab2>("lab2"), methods().add<Lab3>("lab3"), methods().add<Lab4>("lab4"), methods().add<Lab5>("lab5");
}

}  // namespace lab
