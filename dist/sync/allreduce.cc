#include "dist/sync/allreduce.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/raw.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

std::int64_t elements_of(const ParameterInfo& info, Rows rows) {
  return info.shape.rank() == 0 ? info.elements : info.elements / info.shape[0] * rows.count;
}

std::int64_t elements_of(const Bucket& bucket, const ParameterArena& arena) {
  std::int64_t n = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    n += arena.parameters()[static_cast<std::size_t>(i)]->info.elements;
  return n;
}

}  // namespace

AllreduceSync::AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update, Options options)
    : arena_(arena),
      engine_(engine),
      plan_(std::move(plan)),
      update_(std::move(update)),
      options_(options),
      states_(plan_.buckets.size()),
      first_slot_(engine.reserve_slots(static_cast<int>(plan_.buckets.size()))),
      dense_bytes_(static_cast<std::uint64_t>(
          ring_allreduce_cost(engine.size(), static_cast<double>(arena.elements()) * sizeof(float)).bytes)),
      seen_(engine.counters()) {
  require<Error>(plan_.bucket_of.size() == arena.parameters().size(), "allreduce: the plan is for ",
                 plan_.bucket_of.size(), " parameters, the arena has ", arena.parameters().size(), ".");
  for (std::size_t b = 0; b < states_.size(); ++b) states_[b].waits_for = elements_of(plan_.buckets[b], arena);
}

AllreduceSync::~AllreduceSync() {
  if (std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.pending; })) engine_.halt();
}

void AllreduceSync::gradient_ready(Parameter& p, Rows rows) {
  const auto b = static_cast<std::size_t>(plan_.bucket_of[static_cast<std::size_t>(p.info.index)]);
  State& state = states_[b];
  require<Error>(!state.pending, "allreduce: the gradient of ", p.info.name,
                 " is ready again before its last update was applied. Run its forward, or flush, first.");
  state.waits_for -= elements_of(p.info, rows);
  if (state.waits_for == 0) submit(b);
}

void AllreduceSync::submit(std::size_t b) {
  const Bucket& bucket = plan_.buckets[b];
  State& state = states_[b];
  state.waits_for = elements_of(bucket, arena_);
  state.pending = true;
  state.context = context_;
  const Slice<float> x = arena_.gradients().slice().sub(static_cast<std::size_t>(bucket.offset),
                                                        static_cast<std::size_t>(bucket.elements));
  state.ticket = engine_.submit({.name = "allreduce " + bucket.name,
                                 .slot = first_slot_ + static_cast<int>(b),
                                 .priority = bucket.priority,
                                 .body = [x, algorithm = bucket.algorithm](Communicator& comm) {
                                   return algorithm == Algorithm::butterfly ? butterfly_allreduce(comm, x)
                                                                            : ring_allreduce(comm, x);
                                 }});
}

void AllreduceSync::before_forward(Parameter& p, Rows) {
  const auto b = static_cast<std::size_t>(plan_.bucket_of[static_cast<std::size_t>(p.info.index)]);
  if (states_[b].pending) apply(b);
}

void AllreduceSync::apply(std::size_t b) {
  const Bucket& bucket = plan_.buckets[b];
  State& state = states_[b];
  engine_.wait(std::exchange(state.ticket, {}));
  state.pending = false;
  const auto begin = std::chrono::steady_clock::now();
  if (options_.mean && engine_.size() > 1)
    raw::scale(arena_.gradients().range(bucket.offset, bucket.elements), 1.0f / static_cast<float>(engine_.size()));
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    update_(parameter(i), parameter(i).all_rows(), state.context);
  update_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void AllreduceSync::end_step(StepStats& stats) {
  const EngineCounters now = engine_.counters();
  stats = {.bytes_sent = now.sent.bytes - seen_.sent.bytes,
           .bytes_dense = dense_bytes_,
           .comm_ms = 1e3 * (now.comm_seconds - seen_.comm_seconds),
           .exposed_ms = 1e3 * (now.exposed_seconds - seen_.exposed_seconds),
           .update_ms = 1e3 * std::exchange(update_seconds_, 0.0)};
  seen_ = now;
}

void AllreduceSync::flush() {
  for (std::size_t b = states_.size(); b-- > 0;)  // the most urgent first, as forward would
    if (states_[b].pending) apply(b);
}

}  // namespace laconic::dist
