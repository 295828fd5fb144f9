#include "dist/trainer/trainer.h"

#include "dist/trainer/observers.h"
#include "dist/trainer/setup.h"
#include "dist/trainer/training.h"

namespace laconic {

Trainer::Trainer(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method,
                 TrainerOptions options, Observer* observer)
    : observers_(std::make_unique<Observers>()),
      setup_(std::make_unique<Setup>(worker, workload, std::move(method), std::move(options))) {
  if (worker.rank == 0 && observer != nullptr) observers_->add({observer, [](Observer*) {}});
  training_ = std::make_unique<Training>(*setup_, *observers_);
}
Trainer::~Trainer() = default;

RunSummary Trainer::run() { return training_->run(); }
EvalReport Trainer::evaluate() { return *training_->evaluate(false, false); }
std::optional<EvalReport> Trainer::evaluate_at_the_end() { return training_->evaluate(true, false); }
void Trainer::save() { training_->save(); }
std::int64_t Trainer::step() const { return setup_->now.step; }
const ParameterArena& Trainer::arena() const { return *setup_->arena; }
const dist::Plan& Trainer::plan() const { return setup_->plan; }
const dist::Method& Trainer::method() const { return *setup_->method; }
RunInfo Trainer::info() const { return setup_->info(); }
std::string Trainer::description() const { return setup_->description(); }

}  // namespace laconic
