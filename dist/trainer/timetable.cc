#include "dist/trainer/timetable.h"

#include <cmath>

namespace laconic {

std::int64_t Timetable::steps_per_epoch() const {
  const std::int64_t all = updates(workload_.batches_per_epoch());
  return o_.epoch_steps ? std::min(all, *o_.epoch_steps) : all;
}

Schedule::Horizon Timetable::horizon() const {
  const std::int64_t per_epoch = nonzero_steps();
  const std::int64_t by_epochs = o_.epochs * per_epoch, by_steps = o_.steps.value_or(0) + ahead_;
  return {.steps_per_epoch = per_epoch,
          .total_steps = std::max(by_epochs, by_steps),
          .iterations = static_cast<double>(first_steps_per_epoch()) / static_cast<double>(per_epoch),
          .ahead = by_steps > by_epochs ? ahead_ : 0};
}

void Timetable::go_on_from(const Manifest& m) {
  if (!m.position) return;  // of an earlier version, by as many workers: the step tells it
  const std::int64_t per_epoch = steps_per_epoch();
  first_steps_per_epoch_ = m.first_steps_per_epoch.value_or(
      std::max<std::int64_t>(1, std::llround(static_cast<double>(per_epoch) * workers_ / m.workers)));
  if (o_.epoch_steps) first_steps_per_epoch_ = std::min(first_steps_per_epoch_, *o_.epoch_steps);
  DataPosition others = *m.position;
  std::int64_t own = 0;
  if (!others.trained.empty() && others.trained.back().workers == workers_) {
    own = others.trained.back().batches;
    others.trained.pop_back();
  }
  const std::int64_t epoch = others.epoch;
  if (!others.trained.empty()) {
    rest_.batches = workload_.deal_rest(others);
    std::int64_t left = std::min(updates(rest_.batches), per_epoch);
    if (o_.epoch_steps) {
      std::int64_t may = *o_.epoch_steps;
      for (const Trained& t : others.trained) may -= updates(t.batches);
      left = std::clamp<std::int64_t>(may, 0, left);
    }
    rest_.first_update = per_epoch - left;
    rest_.position = std::move(others);
  }
  ahead_ = epoch * per_epoch + first_update(epoch) + updates(own) - m.step;
}

DataPosition Timetable::position(std::int64_t step) const {
  DataPosition p{.epoch = epochs_done(step)};
  if (p.epoch == rest_.position.epoch) p.trained = rest_.position.trained;
  const std::int64_t own = std::min(batch_at(step), batches_in(p.epoch));
  if (own > 0) p.trained.push_back({workers_, own});
  return p;
}

}  // namespace laconic
