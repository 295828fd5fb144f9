#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "dist/collective/allgather.h"
#include "dist/trainer/trainer.h"

/// Shared by the trainer's own files: trainer.cc (set-up and the run), step.cc (one step), restart.cc (checkpoints),
/// servers.cc and serve.cc (parameter servers, as workers and as dedicated servers see them).
namespace laconic {

/// Everybody's texts, by rank, servers included: a meeting of all. It waits as long as all of them live, for a disk may
/// be slow.
std::vector<std::string> meet(dist::Engine& engine, const std::string& what, const std::string& mine);

/// The checkpoint that a run goes on from.
struct Resumed {
  std::string checkpoint;  ///< its folder
  Manifest manifest;
};

/// The newest checkpoint in o.resume that every rank finds whole; all ranks call it, servers too. One that is damaged
/// is passed over with a warning, unless it is the one that o.resume names. returns nothing   there is none, and
/// o.resume_if_any throws DataError  there is none, or none is whole: the sentence is the newest one's
std::optional<Resumed> choose_checkpoint(dist::Engine& engine, const TrainerOptions& o);

/// Numbers in each step's message of figures, summed over ranks, servers included.
enum Figure { kLoss, kSamples, kBytes, kUp, kDown, kCpuSeconds, kServerCpuSeconds, kStop, kSkipped, kFigures };

/// Draws every operation's backward into the trace.
struct Trainer::BackwardSpans final : BackwardWatch {
  void before(const char* operation, const std::string& layer) override {
    name = layer.empty() ? operation : layer;
    begin = Clock::now();
  }
  void after() override {
    if (Trace::Row* row = Trace::current()) row->add(name, "backward", begin, Clock::now());
  }
  std::string name;
  Clock::time_point begin;
};

/// Draws every layer's forward into the trace: what happened since the layer before it, or since begin().
struct Trainer::ForwardSpans {
  void begin() { last = Clock::now(); }
  Clock::time_point last;
  ForwardWatch watch = [this](const std::string& layer, const Tensor&) {
    const Clock::time_point now = Clock::now();
    if (Trace::Row* row = Trace::current()) row->add(layer, "forward", last, now);
    last = now;
  };
};

class Trainer::MeanBuffers {
 public:
  explicit MeanBuffers(Trainer& t) {
    if (t.worker_.size == 1) return;
    std::vector<double> sums;
    for (const auto& [name, tensor] : t.workload_.model().named_buffers()) {
      if (tensor.dtype() != DType::f32) continue;
      own_.emplace_back(tensor, tensor.to_vector());
      sums.insert(sums.end(), own_.back().second.begin(), own_.back().second.end());
    }
    if (own_.empty()) return;
    t.worker_.run("mean of running statistics",
                  [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(sums)); });
    std::size_t next = 0;
    for (const auto& [tensor, values] : own_) {
      std::vector<float> mean(values.size());
      for (float& m : mean) m = static_cast<float>(sums[next++] / t.worker_.size);
      tensor.copy_from(Tensor::of(tensor.shape(), mean));
    }
  }
  ~MeanBuffers() {
    for (const auto& [tensor, values] : own_) tensor.copy_from(Tensor::of(tensor.shape(), values));
  }
  MeanBuffers(const MeanBuffers&) = delete;
  MeanBuffers& operator=(const MeanBuffers&) = delete;

 private:
  std::vector<std::pair<Tensor, std::vector<float>>> own_;
};

}  // namespace laconic
