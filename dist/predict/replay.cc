#include "dist/predict/replay.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"

namespace laconic::dist {
namespace {

constexpr int kWarmUpSteps = 10, kSteps = 10;  // where steps do not become equal
constexpr double kEqual = 1e-9;

/// A link that sends one piece at a time, and behind it a communication thread that works on one at a time. It is run
/// only as far as somebody waits for it, so that every piece that is ready when a choice is made has been handed over
/// by then.
class Link {
 public:
  /// A chunk in `pieces` parts; a smaller `need` is more urgent. Times of calls do not decrease.
  void submit(int id, double ready, double need, int pieces, double seconds, double work) {
    coming_.push_back({id, static_cast<int>(coming_.size()), ready, need, seconds / pieces, work / pieces, pieces});
    if (ended_.size() <= static_cast<std::size_t>(id)) ended_.resize(static_cast<std::size_t>(id) + 1);
    ended_[static_cast<std::size_t>(id)].reset();
  }
  /// When the last piece of that chunk has left, and has been worked on.
  double done(int id) {
    while (!ended_[static_cast<std::size_t>(id)]) serve();
    return *ended_[static_cast<std::size_t>(id)];
  }
  double free() const { return free_; }

 private:
  struct Chunk {
    int id, order;
    double ready;
    double need;
    double seconds, work;  // of a piece
    int pieces_left;
  };
  /// If two are needed equally soon, the one that was ready first is more urgent.
  static bool less_urgent(const Chunk& a, const Chunk& b) {
    return a.need != b.need ? a.need > b.need : a.order > b.order;
  }

  void serve() {
    if (waiting_.empty()) free_ = std::max(free_, coming_[come_].ready);
    for (; come_ < coming_.size() && coming_[come_].ready <= free_; ++come_) {
      waiting_.push_back(coming_[come_]);
      std::push_heap(waiting_.begin(), waiting_.end(), less_urgent);
    }
    Chunk& best = waiting_.front();
    free_ += best.seconds;
    if (best.work > 0) worked_ = std::max(worked_, free_) + best.work;
    if (--best.pieces_left > 0) return;
    ended_[static_cast<std::size_t>(best.id)] = best.work > 0 ? worked_ : free_;
    std::pop_heap(waiting_.begin(), waiting_.end(), less_urgent);
    waiting_.pop_back();
  }

  double free_ = 0, worked_ = 0;
  std::vector<Chunk> coming_;  // in the order of being ready; those before come_ have come
  std::size_t come_ = 0;
  std::vector<Chunk> waiting_;                // a heap, the most urgent first
  std::vector<std::optional<double>> ended_;  // by chunk
};

void check(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages) {
  for (const ReplayLayer& l : layers)
    require<Error>(l.forward_seconds >= 0 && l.backward_seconds >= 0, "replay: layer ", l.name, " takes ",
                   l.forward_seconds, " and ", l.backward_seconds, " s. Times cannot be negative.");
  for (const ReplayMessage& m : messages) {
    require<Error>(m.layer >= 0 && m.layer < static_cast<int>(layers.size()), "replay: message ", m.name,
                   " belongs to layer ", m.layer, " of ", layers.size(), ".");
    const double backward = layers[static_cast<std::size_t>(m.layer)].backward_seconds;
    require<Error>(m.ready_seconds >= 0 && m.ready_seconds <= 1.000001 * backward, "replay: message ", m.name,
                   " is ready ", m.ready_seconds, " s into a backward of ", backward, " s.");
    require<Error>(m.chunks >= 1 && m.pieces >= 1 && m.link_seconds >= 0 && m.delay_seconds >= 0 &&
                       m.core_seconds >= 0 && m.update_seconds >= 0,
                   "replay: message ", m.name, " has ", m.chunks, " chunks of ", m.pieces, " pieces and takes ",
                   m.link_seconds, " s. Give at least one of each, and times from 0 up.");
  }
}

/// The compute thread, step by step.
class ComputeThread {
 public:
  ComputeThread(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages, Overlap overlap)
      : layers_(layers), messages_(messages), overlap_(overlap), needed_(layers.size()), finished_(layers.size()) {
    int id = 0;
    for (const ReplayMessage& m : messages) {
      const auto l = static_cast<std::size_t>(m.layer);
      for (int c = 0; c < m.chunks; ++c, ++id) {
        needed_[l].push_back({layers[l].forward_seconds * c / m.chunks, &m, c, id});
        finished_[l].push_back({m.ready_seconds * (c + 1) / m.chunks, &m, c, id});
      }
    }
    for (auto* chunks : {&needed_, &finished_})
      for (auto& of_layer : *chunks) std::ranges::stable_sort(of_layer, std::less<>(), &Chunk::at);
  }

  void step() {
    const bool waits_in_forward = overlap_ == Overlap::forward && std::exchange(stepped_, true);
    waits.assign(messages_.size(), 0);
    for (std::size_t l = 0; l < layers_.size(); ++l)
      pass(layers_[l].forward_seconds, waits_in_forward ? Chunks(needed_[l]) : Chunks(), [&](const Chunk& c) {
        wait(c);
        update(c);
      });
    for (std::size_t l = layers_.size(); l-- > 0;)
      pass(layers_[l].backward_seconds, finished_[l], [&](const Chunk& c) {
        if (overlap_ != Overlap::none) submit(c);
      });
    if (overlap_ == Overlap::none)
      for (std::size_t l = layers_.size(); l-- > 0;)
        for (const Chunk& c : finished_[l]) submit(c);
    if (overlap_ != Overlap::forward) {
      for (const auto& of_layer : needed_)
        for (const Chunk& c : of_layer) wait(c);
      for (const auto& of_layer : needed_)
        for (const Chunk& c : of_layer) update(c);
    }
  }

  double now = 0;
  double link_free() const { return link_.free(); }
  std::vector<double> waits;  // by message, in the last step

 private:
  struct Chunk {
    double at;  // seconds of its layer's forward or backward that stand before it
    const ReplayMessage* message;
    int place, id;
  };
  using Chunks = std::span<const Chunk>;
  template <class F>
  void pass(double seconds, Chunks chunks, F each) {
    double done = 0;
    for (const Chunk& c : chunks) {
      now += c.at - std::exchange(done, c.at);
      each(c);
    }
    now += seconds - done;
  }
  void submit(const Chunk& c) {
    const ReplayMessage& m = *c.message;
    // Urgency: the layer's place in forward, then the rows' in the layer.
    link_.submit(c.id, now, m.layer + static_cast<double>(c.place) / m.chunks, m.pieces, m.link_seconds / m.chunks,
                 m.core_seconds / m.chunks);
  }
  void wait(const Chunk& c) {
    const double before = now;
    now = std::max(now, link_.done(c.id) + c.message->delay_seconds);
    waits[static_cast<std::size_t>(c.message - messages_.data())] += now - before;
  }
  void update(const Chunk& c) { now += c.message->update_seconds / c.message->chunks; }

  const std::vector<ReplayLayer>& layers_;
  const std::vector<ReplayMessage>& messages_;
  const Overlap overlap_;
  std::vector<std::vector<Chunk>> needed_, finished_;  // by layer, as forward needs and as backward finishes them
  Link link_;
  bool stepped_ = false;
};

}  // namespace

Replay replay(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages, Overlap overlap) {
  check(layers, messages);
  Replay result;
  result.waits.resize(messages.size());
  for (const ReplayLayer& l : layers) result.compute_seconds += l.forward_seconds + l.backward_seconds;
  for (const ReplayMessage& m : messages)
    result.exchange_seconds += m.link_seconds, result.compute_seconds += m.update_seconds;
  ComputeThread thread(layers, messages, overlap);
  double taken = 0, ahead = 0;
  for (int step = 0; step < kWarmUpSteps + kSteps; ++step) {
    const double began = thread.now;
    thread.step();
    const double took = thread.now - began, link_ahead = thread.link_free() - thread.now;
    if (step > 1 && std::abs(took - taken) + std::abs(link_ahead - ahead) <= kEqual * took) {
      result.step_seconds = took, result.waits = thread.waits;  // all further steps are like this one
      return result;
    }
    taken = took, ahead = link_ahead;
    if (step < kWarmUpSteps) continue;
    result.step_seconds += took / kSteps;
    for (std::size_t m = 0; m < messages.size(); ++m) result.waits[m] += thread.waits[m] / kSteps;
  }
  return result;
}

}  // namespace laconic::dist
