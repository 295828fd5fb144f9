#include "dist/sync/allreduce.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/native_allreduce.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

Task<> allreduce(Communicator& comm, Slice<float> x, const Bucket& bucket) {
  switch (bucket.algorithm) {
    case Algorithm::butterfly:
      return butterfly_allreduce(comm, x);
    case Algorithm::ring:
      return ring_allreduce(comm, x, {.count = bucket.pieces});
    case Algorithm::doubling:
      return doubling_allreduce(comm, x);
    case Algorithm::hierarchical:
      return hierarchical_allreduce(comm, x, bucket.group);
    case Algorithm::mpi:
      return native_allreduce(comm, x);
  }
  std::abort();  // not reached
}

}  // namespace

std::optional<Cost> allreduce_cost(Algorithm algorithm, int N, double bytes, int group, int pieces) {
  switch (algorithm) {
    case Algorithm::butterfly:
      return butterfly_allreduce_cost(N, bytes);
    case Algorithm::ring:
      return ring_allreduce_cost(N, bytes, {.count = pieces});
    case Algorithm::doubling:
      return doubling_allreduce_cost(N, bytes);
    case Algorithm::hierarchical:
      return hierarchical_allreduce_cost(N, bytes, group);
    case Algorithm::mpi:
      return std::nullopt;
  }
  std::abort();  // not reached
}

std::optional<double> bytes_of_step(const Plan& plan, int N) {
  if (N == 1) return 0;
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    const double size = static_cast<double>(b.elements) * sizeof(float);
    const std::optional<Cost> cost = allreduce_cost(b.algorithm, N, size, b.group, b.pieces);
    if (!cost) return std::nullopt;
    bytes += cost->all_bytes;
  }
  return bytes / N;
}

AllreduceSync::AllreduceSync(const ParameterArena& arena, Engine& engine, Plan plan, Update update, Options options)
    : BucketSync(arena, engine, std::move(plan), "allreduce", options.overlap, engine.size(), options.mean),
      update_(std::move(update)),
      buffers_(this->plan().buckets.size()) {
  if (engine.size() > 1 && this->plan().has(Algorithm::mpi))
    engine.run("preparing MPI's allreduce", [this](Communicator& comm) {
      return prepare_native(comm, first_slot(), static_cast<int>(this->plan().buckets.size()));
    });
}

/// Where a bucket's gradients stand as one vector: in the arena, or in a buffer that they are copied into.
Slice<float> AllreduceSync::gathered(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  if (!bucket.copied) return part(arena().gradients(), bucket);
  Tensor& buffer = buffers_[b];
  buffer = Tensor::empty({elements_in(bucket)}, DType::f32, arena().gradients().device());
  copied_bytes_ += buffer.bytes();
  copied_bytes_peak_ = std::max(copied_bytes_peak_, copied_bytes_);
  std::int64_t at = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const ParameterInfo& info = parameter(i).info;
    buffer.range(at, info.elements).copy_from(arena().gradients().range(info.offset, info.elements));
    at += info.elements;
  }
  return buffer.slice();
}

void AllreduceSync::scatter(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  std::int64_t at = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const ParameterInfo& info = parameter(i).info;
    arena().gradients().range(info.offset, info.elements).copy_from(buffers_[b].range(at, info.elements));
    at += info.elements;
  }
  copied_bytes_ -= buffers_[b].bytes();
  buffers_[b] = {};
}

Operation AllreduceSync::exchange(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  const Slice<float> x = gathered(b);
  return {.name = "allreduce " + bucket.name,
          .body = [x, &bucket](Communicator& comm) { return allreduce(comm, x, bucket); }};
}

void AllreduceSync::arrived(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  if (bucket.copied) scatter(b);
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    update_(parameter(i), rows_of(bucket, parameter(i)), context_of(b));
}

void AllreduceSync::end_step(StepStats& stats) {
  BucketSync::end_step(stats);
  stats.buffer_bytes_peak += copied_bytes_peak_;
}

}  // namespace laconic::dist
