#include "dist/method/bucket_sync.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/clock.h"

namespace laconic::dist {
namespace {

Rows common(Rows a, Rows b) {
  const std::int64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max<std::int64_t>(0, end - first)};
}

}  // namespace

Rows rows_of(const Bucket& bucket, const Parameter& p) { return bucket.chunk() ? bucket.rows : p.all_rows(); }

std::int64_t BucketSync::elements_in(const Bucket& bucket) const {
  std::int64_t n = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    n += parameter(i).info.part(rows_of(bucket, parameter(i))).count;
  return n;
}

Slice<float> BucketSync::part(const Tensor& state, const Bucket& bucket) {
  return state.slice().sub(static_cast<std::size_t>(bucket.offset), static_cast<std::size_t>(bucket.elements));
}

BucketSync::BucketSync(const ParameterArena& arena, Engine& engine, Plan plan, std::string name,
                       const TrainingFacts& facts, int workers)
    : buffer_bytes_(plan.buckets.size()),
      arena_(arena),
      engine_(engine),
      plan_(std::move(plan)),
      name_(std::move(name)),
      overlap_(facts.overlap),
      scale_(facts.mean ? 1.0 / workers : 1.0),
      put_by_(facts.put_by()),
      states_(plan_.buckets.size()),
      first_slot_(engine.reserve_slots(static_cast<int>(plan_.buckets.size()))) {
  require<Error>(plan_.bucket_of.size() == arena.parameters().size(), name_, ": the plan is for ",
                 plan_.bucket_of.size(), " parameters, the arena has ", arena.parameters().size(), ".");
  for (std::size_t b = 0; b < states_.size(); ++b) states_[b].waits_for = elements_in(plan_.buckets[b]);
  for (const auto& p : arena.parameters())  // a convolution comes at once, also where its buckets are some rows each
    if (comes_in_rows(p->info)) p->set_chunk_rows(plan_.chunk_rows(p->info.index));
}

BucketSync::~BucketSync() {
  engine_.forget_place();
  for (const auto& p : arena_.parameters()) p->set_chunk_rows(0);
}

void BucketSync::halt_what_is_under_way() {
  if (std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.phase == State::Phase::under_way; }))
    engine_.halt();
}

void BucketSync::begin_step(const StepContext& context) {
  context_ = context;
  context_.gradient_scale = scale_;
}

template <class F>
void BucketSync::for_buckets(const Parameter& p, Rows rows, F f) {
  auto b = static_cast<std::size_t>(plan_.bucket_of[static_cast<std::size_t>(p.info.index)]);
  if (!plan_.buckets[b].chunk()) return f(b, rows);
  for (; b < plan_.buckets.size() && plan_.buckets[b].first == p.info.index; ++b)
    if (const Rows part = common(plan_.buckets[b].rows, rows); part.count > 0) f(b, part);
}

void BucketSync::gradient_ready(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::backward, p.info.name);
  for_buckets(p, rows, [&](std::size_t b, Rows part) {
    State& state = states_[b];
    require<Error>(state.phase == State::Phase::filling, name_, ": the gradient of ", p.info.name,
                   " is ready again before its last update was applied. Run its forward, or flush, first.");
    state.waits_for -= p.info.part(part).count;
    if (state.waits_for > 0) return;
    state.phase = State::Phase::ready;
    state.context = context_;
    filled(b);
    if (overlap_ != Overlap::none) hand_over(b);
  });
}

void BucketSync::submit(std::size_t b) {
  State& state = states_[b];
  Operation operation = exchange(b);
  operation.slot = first_slot_ + static_cast<int>(b);
  operation.priority = plan_.buckets[b].priority;
  operation.device = arena_.gradients().device();
  state.waits_for = elements_in(plan_.buckets[b]);
  state.phase = State::Phase::under_way;
  state.ticket = engine_.submit(std::move(operation));
}

void BucketSync::submit_ready() {
  for (std::size_t b = 0; b < states_.size(); ++b)
    if (states_[b].phase == State::Phase::ready) submit(b);
}

void BucketSync::before_forward(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::forward, p.info.name);
  for_buckets(p, rows, [&](std::size_t b, Rows) {
    if (states_[b].phase == State::Phase::ready) submit_ready();
    if (states_[b].phase == State::Phase::under_way) finish(b);
  });
}

void BucketSync::finish(std::size_t b) {
  State& state = states_[b];
  engine_.wait(std::exchange(state.ticket, {}));
  state.phase = State::Phase::filling;
  const auto begin = Clock::now();
  arrived(b);
  update_seconds_ += seconds_since(begin);
}

void BucketSync::end_step() {
  if (overlap_ != Overlap::forward) flush();
}

void BucketSync::flush() {
  submit_ready();
  // Without overlap with the next forward, updates come after all waiting, as elsewhere; with it, nothing is gained by
  // waiting for all first. The most urgent comes first, as forward would have it.
  if (overlap_ != Overlap::forward)
    for (const State& s : states_)
      if (s.phase == State::Phase::under_way) engine_.wait(s.ticket);
  for (std::size_t b = states_.size(); b-- > 0;)
    if (states_[b].phase == State::Phase::under_way) finish(b);
}

Costs BucketSync::costs() const {
  return {.select_seconds = select_seconds_,
          .update_seconds = update_seconds_,
          .buffer_bytes = std::accumulate(buffer_bytes_.begin(), buffer_bytes_.end(), std::uint64_t{0})};
}

}  // namespace laconic::dist
