#include "dist/method/allreduce_sync.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compress/codecs.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/cuda/nccl_collectives.h"

namespace laconic::dist {

Task<> allreduce(Communicator& comm, Slice<float> x, const Bucket& bucket, const Hops& hops) {
  const auto [kind, group] = allreduce_named(bucket.allreduce);
  if (kind.run) return kind.run(comm, x, {.group = group, .pieces = bucket.pieces}, hops);
  require<UsageError>(comm.size() == 1,
                      "NCCL joins all ranks, and no group of them (`allreduce` nccl): take `allreduce` ring");
  return ring_allreduce(comm, x);  // of one rank: nothing
}

void require_codec_fits(const PlanOptions& plan) {
  const auto by = find_allreduce(plan.allreduce);
  if (compress::traits_of(plan.codec).remembers && by && by->kind.encodes_alike)
    refuse("with " + by->kind.name + " several ranks must come to the same bytes, and " + plan.codec +
               " adds what each has lost by itself",
           "`codec`", "take `allreduce` ring");
}

std::optional<double> bytes_of_step(const Plan& plan, int N) {
  if (N == 1) return 0;
  const auto codec = compress::make_codec(plan.codec);
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    const double size = static_cast<double>(b.elements) * sizeof(float);
    const std::optional<Cost> cost = allreduce_cost(b.allreduce, N, size, b.pieces, codec.get());
    if (!cost) return std::nullopt;
    bytes += cost->all_bytes;
  }
  return bytes / N;
}

AllreduceSync::AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update,
                             const TrainingFacts& facts)
    : BucketSync(arena, engine, std::move(plan), "allreduce", facts, engine.size()),
      update_(std::move(update)),
      seed_(facts.seed),
      codec_(compress::make_codec(this->plan().codec)),
      buffers_(this->plan().buckets.size()) {
  const bool remembers = compress::traits_of(this->plan().codec).remembers;
  for (const Bucket& b : this->plan().buckets)
    require<UsageError>(!remembers || !allreduce_named(b.allreduce).kind.encodes_alike, "with ", b.allreduce,
                        " several ranks must come to the same bytes, and ", this->plan().codec,
                        " adds what each has lost by itself (`codec`): take `allreduce` ring");
  if (codec_ && (facts.codec_feedback || remembers) && engine.size() > 1)
    lost_ = Tensor::zeros({arena.size()}, DType::f32, arena.gradients().device());
  if (lost_.defined())
    table_.row([this](RankState& state) { state.set(kLost, repacked(lost_, false), put_by()); },
               [this](const StateDict& state) {
                 state.copy_to(lost_, kLost, kWhatIsLost);
                 lost_ = repacked(lost_, true);
               });
  if (engine.size() == 1 || !this->plan().has(Carrier::nccl)) return;
  nccl_ = Nccl::make(engine, arena.gradients().device());
  for (std::size_t b = 0; b < buffers_.size(); ++b)
    if (bucket(b).carrier() == Carrier::nccl) turns_.push_back(b);
}

Task<> AllreduceSync::sum(Communicator& comm, Slice<float> x, const Bucket& bucket) {
  const Hops plain;
  if (by_nccl(bucket))
    nccl_->allreduce(x);
  else
    co_await allreduce(comm, x, bucket, plain);
}

/// Where a bucket's gradients stand as one vector: in the arena, or in a buffer that they are copied into.
Slice<float> AllreduceSync::gathered(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  if (!bucket.copied) return part(arena().gradients(), bucket);
  Tensor& buffer = buffers_[b];
  buffer = Tensor::empty({elements_in(bucket)}, DType::f32, arena().gradients().device());
  copied_bytes_ += buffer.bytes();
  copied_bytes_peak_ = std::max(copied_bytes_peak_, copied_bytes_);
  for_packed(bucket, [&](const ParameterInfo& info, std::int64_t at) {
    buffer.range(at, info.elements).copy_from(arena().gradients().range(info.offset, info.elements));
  });
  return buffer.slice();
}

void AllreduceSync::scatter(std::size_t b) {
  for_packed(bucket(b), [&](const ParameterInfo& info, std::int64_t at) {
    arena().gradients().range(info.offset, info.elements).copy_from(buffers_[b].range(at, info.elements));
  });
  copied_bytes_ -= buffers_[b].bytes();
  buffers_[b] = {};
}

/// Codecs that round at random do so by step and bucket.
Hops AllreduceSync::hops(std::size_t b, Slice<float> x) const {
  Hops hops{.codec = codec_.get(),
            .key = {.seed = seed_,
                    .step = static_cast<std::uint64_t>(context_of(b).step),
                    .operation = static_cast<std::uint32_t>(b)}};
  if (lost_.defined()) {
    hops.lost = lost_.slice().sub(static_cast<std::size_t>(bucket(b).offset), x.size());
    hops.of = x.data();
  }
  return hops;
}

void AllreduceSync::begin_step(const StepContext& context) {
  BucketSync::begin_step(context);
  next_turn_ = 0;
  early_.clear();
}

void AllreduceSync::in_turn(std::size_t b, std::function<void()> hand_over) {
  require<Error>(std::binary_search(turns_.begin() + static_cast<std::ptrdiff_t>(next_turn_), turns_.end(), b),
                 "in order: number ", b, " is ready although it is not due any more in this step.");
  early_[b] = std::move(hand_over);
  while (!early_.empty() && early_.begin()->first == turns_[next_turn_]) {
    const std::function<void()> now = std::move(early_.begin()->second);
    early_.erase(early_.begin());
    ++next_turn_;
    if (now) now();
  }
}

void AllreduceSync::in_turn_of(const Parameter& p, std::function<void()> hand_over) {
  const int place = p.info.index;
  auto b = static_cast<std::size_t>(plan().bucket_of[static_cast<std::size_t>(place)]);
  in_turn(b, std::move(hand_over));
  while (++b < plan().buckets.size() && plan().buckets[b].first == place) in_turn(b, {});
}

void AllreduceSync::hand_over(std::size_t b) {
  if (!by_nccl(bucket(b))) return submit(b);
  in_turn(b, [this, b] { submit(b); });
}

Operation AllreduceSync::exchange(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  const Slice<float> x = gathered(b);
  if (by_nccl(bucket))
    return {.name = "allreduce " + bucket.name,
            .in_order = true,
            .body = [x, nccl = nccl_, hops = hops(b, x)](Communicator& comm) -> Task<> {
              if (hops.codec == nullptr)
                nccl->allreduce(x);
              else
                run_grouped(*nccl, comm, [&](Endpoint& grouped) { return ring_in_one_piece(grouped, x, hops); });
              co_return;
            }};
  return {.name = "allreduce " + bucket.name,
          .body = [x, &bucket, hops = hops(b, x)](Communicator& comm) { return allreduce(comm, x, bucket, hops); }};
}

void AllreduceSync::arrived(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  if (bucket.copied) scatter(b);
  if (codec_) clear_padding(arena().gradients(), parameters_of(bucket));
  for_parts(b, [&](Parameter& p, Rows rows) { update_(p, rows, context_of(b)); });
}

Costs AllreduceSync::costs() const {
  Costs costs = BucketSync::costs();
  costs.buffer_bytes = copied_bytes_peak_;
  return costs;
}

double AllreduceSync::message_bytes() const {
  return message_bytes([](const Bucket&) { return true; });
}

double AllreduceSync::message_bytes(const std::function<bool(const Bucket&)>& which) const {
  std::map<std::tuple<std::string, std::int64_t, int>, std::size_t> rooms;  // equal buckets take as much
  double bytes = 0;
  for (const Bucket& b : plan().buckets) {
    if (!which(b)) continue;
    const auto [place, is_new] = rooms.try_emplace({b.allreduce, b.elements, b.pieces});
    if (is_new)
      place->second = allreduce_room(b.allreduce, engine().size(), static_cast<std::size_t>(b.elements), b.pieces,
                                     codec_.get(), lost_.defined());
    bytes += static_cast<double>(place->second) + (b.copied ? sizeof(float) * static_cast<double>(b.elements) : 0);
  }
  return bytes;
}

/// Losses as this object keeps them, without padding where a bucket is copied, from those in arena order (`packs`), or
/// the other way round.
Tensor AllreduceSync::repacked(const Tensor& losses, bool packs) const {
  const Tensor all = Tensor::zeros(losses.shape(), DType::f32, losses.device());
  for (const Bucket& bucket : plan().buckets) {
    if (!bucket.copied) {
      all.range(bucket.offset, bucket.elements).copy_from(losses.range(bucket.offset, bucket.elements));
      continue;
    }
    for_packed(bucket, [&](const ParameterInfo& info, std::int64_t at) {
      const std::int64_t packed = bucket.offset + at;
      all.range(packs ? packed : info.offset, info.elements)
          .copy_from(losses.range(packs ? info.offset : packed, info.elements));
    });
  }
  return all;
}

}  // namespace laconic::dist
