#include "dist/sync/allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "compress/make_codec.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/native_allreduce.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

constexpr const char* kOverlaps[] = {"none", "backward", "forward"};

std::int64_t elements_of(const ParameterInfo& info, Rows rows) {
  return info.shape.rank() == 0 ? info.elements : info.elements / info.shape[0] * rows.count;
}

Rows common(Rows a, Rows b) {
  const std::int64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max<std::int64_t>(0, end - first)};
}

Rows rows_of(const Bucket& bucket, const Parameter& p) { return bucket.chunk() ? bucket.rows : p.all_rows(); }

std::int64_t elements_of(const Bucket& bucket, const ParameterArena& arena) {
  std::int64_t n = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const Parameter& p = *arena.parameters()[static_cast<std::size_t>(i)];
    n += elements_of(p.info, rows_of(bucket, p));
  }
  return n;
}

Task<> allreduce(Communicator& comm, Slice<float> x, const Bucket& bucket, const Hops& hops) {
  switch (bucket.algorithm) {
    case Algorithm::butterfly:
      return butterfly_allreduce(comm, x, hops);
    case Algorithm::ring:
      return ring_allreduce(comm, x, {.count = bucket.pieces}, hops);
    case Algorithm::doubling:
      return doubling_allreduce(comm, x, hops);
    case Algorithm::hierarchical:
      return hierarchical_allreduce(comm, x, bucket.group, hops);
    case Algorithm::mpi:
      return native_allreduce(comm, x);
  }
  std::abort();  // not reached
}

}  // namespace

std::optional<Cost> allreduce_cost(Algorithm algorithm, int N, double bytes, int group, int pieces,
                                   const compress::Codec* codec) {
  switch (algorithm) {
    case Algorithm::butterfly:
      return butterfly_allreduce_cost(N, bytes, codec);
    case Algorithm::ring:
      return ring_allreduce_cost(N, bytes, {.count = pieces}, codec);
    case Algorithm::doubling:
      return doubling_allreduce_cost(N, bytes, codec);
    case Algorithm::hierarchical:
      return hierarchical_allreduce_cost(N, bytes, group, codec);
    case Algorithm::mpi:
      return std::nullopt;
  }
  std::abort();  // not reached
}

std::optional<double> bytes_of_step(const Plan& plan, int N) {
  if (N == 1) return 0;
  const auto codec = compress::make_codec(plan.codec);
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    const double size = static_cast<double>(b.elements) * sizeof(float);
    const std::optional<Cost> cost = allreduce_cost(b.algorithm, N, size, b.group, b.pieces, codec.get());
    if (!cost) return std::nullopt;
    bytes += cost->all_bytes;
  }
  return bytes / N;
}

const char* to_string(Overlap overlap) { return kOverlaps[static_cast<int>(overlap)]; }

Overlap overlap_named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(std::size(kOverlaps)); ++i)
    if (name == kOverlaps[i]) return static_cast<Overlap>(i);
  refuse_unknown("value", name, "--overlap", {std::begin(kOverlaps), std::end(kOverlaps)});
}

AllreduceSync::AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update, Options options)
    : arena_(arena),
      engine_(engine),
      plan_(std::move(plan)),
      update_(std::move(update)),
      options_(options),
      codec_(compress::make_codec(plan_.codec)),
      states_(plan_.buckets.size()),
      first_slot_(engine.reserve_slots(static_cast<int>(plan_.buckets.size()))),
      dense_bytes_(static_cast<std::uint64_t>(
          ring_allreduce_cost(engine.size(), static_cast<double>(arena.elements()) * sizeof(float)).bytes)),
      seen_(engine.counters()) {
  require<Error>(plan_.bucket_of.size() == arena.parameters().size(), "allreduce: the plan is for ",
                 plan_.bucket_of.size(), " parameters, the arena has ", arena.parameters().size(), ".");
  for (std::size_t b = 0; b < states_.size(); ++b) states_[b].waits_for = elements_of(plan_.buckets[b], arena);
  require<UsageError>(codec_ == nullptr || !plan_.has(Algorithm::mpi),
                      "MPI's own allreduce adds floats, and knows no codec (--allreduce mpi): take ring, or leave out "
                      "--codec");
  if (codec_ && options_.feedback && engine.size() > 1)
    lost_ = Tensor::zeros({arena.size()}, DType::f32, arena.gradients().device());
  if (engine.size() > 1 && plan_.has(Algorithm::mpi))
    engine.run("preparing MPI's allreduce", [this](Communicator& comm) {
      return prepare_native(comm, first_slot_, static_cast<int>(plan_.buckets.size()));
    });
  for (const auto& p : arena.parameters()) p->set_chunk_rows(plan_.chunk_rows(p->info.index));
}

AllreduceSync::~AllreduceSync() {
  if (std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.phase == State::Phase::under_way; }))
    engine_.halt();
  engine_.forget_place();
  for (const auto& p : arena_.parameters()) p->set_chunk_rows(0);
}

void AllreduceSync::begin_step(const StepContext& context) {
  context_ = context;
  context_.gradient_scale = options_.mean ? 1.0 / engine_.size() : 1.0;
}

template <class F>
void AllreduceSync::for_buckets(const Parameter& p, Rows rows, F f) {
  auto b = static_cast<std::size_t>(plan_.bucket_of[static_cast<std::size_t>(p.info.index)]);
  if (!plan_.buckets[b].chunk()) return f(b, rows);
  for (; b < plan_.buckets.size() && plan_.buckets[b].first == p.info.index; ++b)
    if (const Rows part = common(plan_.buckets[b].rows, rows); part.count > 0) f(b, part);
}

void AllreduceSync::gradient_ready(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::backward, p.info.name);
  for_buckets(p, rows, [&](std::size_t b, Rows part) {
    State& state = states_[b];
    require<Error>(state.phase == State::Phase::filling, "allreduce: the gradient of ", p.info.name,
                   " is ready again before its last update was applied. Run its forward, or flush, first.");
    state.waits_for -= elements_of(p.info, part);
    if (state.waits_for > 0) return;
    state.phase = State::Phase::ready;
    state.context = context_;
    if (options_.overlap != Overlap::none) submit(b);
  });
}

/// Where a bucket's gradients stand as one vector: in the arena, or in a buffer that they are copied into.
Slice<float> AllreduceSync::gathered(const Bucket& bucket, State& state) {
  if (!bucket.copied)
    return arena_.gradients().slice().sub(static_cast<std::size_t>(bucket.offset),
                                          static_cast<std::size_t>(bucket.elements));
  state.buffer = Tensor::empty({elements_of(bucket, arena_)}, DType::f32, arena_.gradients().device());
  copied_bytes_ += state.buffer.bytes();
  copied_bytes_peak_ = std::max(copied_bytes_peak_, copied_bytes_);
  std::int64_t at = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const ParameterInfo& info = parameter(i).info;
    state.buffer.range(at, info.elements).copy_from(arena_.gradients().range(info.offset, info.elements));
    at += info.elements;
  }
  return state.buffer.slice();
}

void AllreduceSync::scatter(const Bucket& bucket, State& state) {
  std::int64_t at = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const ParameterInfo& info = parameter(i).info;
    arena_.gradients().range(info.offset, info.elements).copy_from(state.buffer.range(at, info.elements));
    at += info.elements;
  }
  copied_bytes_ -= state.buffer.bytes();
  state.buffer = {};
}

/// Codecs that round at random do so by step and bucket.
Hops AllreduceSync::hops(std::size_t b, Slice<float> x) const {
  Hops hops{.codec = codec_.get(),
            .key = {.seed = options_.seed,
                    .step = static_cast<std::uint64_t>(states_[b].context.step),
                    .operation = static_cast<std::uint32_t>(b)}};
  if (lost_.defined()) {
    hops.lost = lost_.slice().sub(static_cast<std::size_t>(plan_.buckets[b].offset), x.size());
    hops.of = x.data();
  }
  return hops;
}

void AllreduceSync::submit(std::size_t b) {
  const Bucket& bucket = plan_.buckets[b];
  State& state = states_[b];
  const Slice<float> x = gathered(bucket, state);
  state.waits_for = elements_of(bucket, arena_);
  state.phase = State::Phase::under_way;
  state.ticket = engine_.submit(
      {.name = "allreduce " + bucket.name,
       .slot = first_slot_ + static_cast<int>(b),
       .priority = bucket.priority,
       .body = [x, &bucket, hops = hops(b, x)](Communicator& comm) { return allreduce(comm, x, bucket, hops); }});
}

void AllreduceSync::submit_ready() {
  for (std::size_t b = 0; b < states_.size(); ++b)
    if (states_[b].phase == State::Phase::ready) submit(b);
}

void AllreduceSync::before_forward(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::forward, p.info.name);
  for_buckets(p, rows, [&](std::size_t b, Rows) {
    if (states_[b].phase == State::Phase::ready) submit_ready();
    if (states_[b].phase == State::Phase::under_way) apply(b);
  });
}

void AllreduceSync::apply(std::size_t b) {
  const Bucket& bucket = plan_.buckets[b];
  State& state = states_[b];
  engine_.wait(std::exchange(state.ticket, {}));
  state.phase = State::Phase::filling;
  const auto begin = std::chrono::steady_clock::now();
  if (bucket.copied) scatter(bucket, state);
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    update_(parameter(i), rows_of(bucket, parameter(i)), state.context);
  update_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void AllreduceSync::end_step(StepStats& stats) {
  if (options_.overlap != Overlap::forward) flush();
  const EngineCounters now = engine_.counters();
  stats = {.bytes_sent = now.sent.bytes - seen_.sent.bytes,
           .bytes_dense = dense_bytes_,
           .comm_ms = 1e3 * (now.comm_seconds - seen_.comm_seconds),
           .exposed_ms = 1e3 * (now.exposed_seconds - seen_.exposed_seconds),
           .update_ms = 1e3 * std::exchange(update_seconds_, 0.0),
           .buffer_bytes_peak = copied_bytes_peak_ + now.peak_buffer_bytes};
  seen_ = now;
}

void AllreduceSync::flush() {
  submit_ready();
  // Without overlap with the next forward, updates come after all waiting, as elsewhere; with it, nothing is gained by
  // waiting for all first. The most urgent comes first, as forward would have it.
  if (options_.overlap != Overlap::forward)
    for (const State& s : states_)
      if (s.phase == State::Phase::under_way) engine_.wait(s.ticket);
  for (std::size_t b = states_.size(); b-- > 0;)
    if (states_[b].phase == State::Phase::under_way) apply(b);
}

void AllreduceSync::save(StateDict& state) const {
  if (lost_.defined()) state.set("codec.lost", lost_);
}

void AllreduceSync::load(const StateDict& state) {
  if (!lost_.defined()) return;
  const Tensor& stored = state.at("codec.lost");
  require<DataError>(stored.dtype() == DType::f32 && stored.elements() == lost_.elements(), "codec.lost holds ",
                     stored.elements(), " values of ", stored.dtype(), " where the model has ", lost_.elements(),
                     " of f32 (--resume): take a checkpoint of this model");
  lost_.copy_from(stored);
}

}  // namespace laconic::dist
