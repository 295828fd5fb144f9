#include "dist/predict/replay.h"

#include <algorithm>
#include <cmath>
#include <optional>

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
  std::vector<Chunk> coming_;   // in the order of being ready; those before come_ have come
  std::size_t come_ = 0;
  std::vector<Chunk> waiting_;  // a heap, the most urgent first
  std::vector<std::optional<double>> ended_;  // by chunk
};

/// One chunk of a message, and the seconds of its layer's forward or backward that stand before it.
struct ChunkTime {
  double at;
  int message, chunk, id;
};

}  // namespace

Replay replay(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages, Overlap overlap) {
  Replay result;
  result.waits.resize(messages.size());
  for (const auto& l : layers) {
    require<Error>(l.forward_seconds >= 0 && l.backward_seconds >= 0, "replay: layer ", l.name, " takes ",
                   l.forward_seconds, " and ", l.backward_seconds, " s. Times cannot be negative.");
    result.compute_seconds += l.forward_seconds + l.backward_seconds;
  }
  // The chunks of each layer, as forward needs them and as backward finishes them.
  std::vector<std::vector<ChunkTime>> needed(layers.size()), finished(layers.size());
  int ids = 0;
  for (int m = 0; m < static_cast<int>(messages.size()); ++m) {
    const ReplayMessage& message = messages[static_cast<std::size_t>(m)];
    require<Error>(message.layer >= 0 && message.layer < static_cast<int>(layers.size()), "replay: message ",
                   message.name, " belongs to layer ", message.layer, " of ", layers.size(), ".");
    require<Error>(
        message.ready_seconds >= 0 &&
            message.ready_seconds <= 1.000001 * layers[static_cast<std::size_t>(message.layer)].backward_seconds,
        "replay: message ", message.name, " is ready ", message.ready_seconds, " s into a backward of ",
        layers[static_cast<std::size_t>(message.layer)].backward_seconds, " s.");
    require<Error>(message.chunks >= 1 && message.pieces >= 1 && message.link_seconds >= 0 &&
                       message.delay_seconds >= 0 && message.core_seconds >= 0 && message.update_seconds >= 0,
                   "replay: message ", message.name, " has ", message.chunks, " chunks of ", message.pieces,
                   " pieces and takes ", message.link_seconds, " s. Give at least one of each, and times from 0 up.");
    const auto l = static_cast<std::size_t>(message.layer);
    for (int c = 0; c < message.chunks; ++c, ++ids) {
      needed[l].push_back({layers[l].forward_seconds * c / message.chunks, m, c, ids});
      finished[l].push_back({message.ready_seconds * (c + 1) / message.chunks, m, c, ids});
    }
    result.exchange_seconds += message.link_seconds;
    result.compute_seconds += message.update_seconds;
  }
  const auto earlier = [](const ChunkTime& a, const ChunkTime& b) { return a.at < b.at; };
  for (auto* events : {&needed, &finished})
    for (auto& of_layer : *events) std::stable_sort(of_layer.begin(), of_layer.end(), earlier);

  Link link;
  double now = 0;
  std::vector<double> waits(messages.size());  // in a step
  const auto message_of = [&](const ChunkTime& e) -> const ReplayMessage& {
    return messages[static_cast<std::size_t>(e.message)];
  };
  const auto submit = [&](const ChunkTime& e) {
    const ReplayMessage& m = message_of(e);
    // Urgency: the layer's place in forward, then the rows' in the layer.
    link.submit(e.id, now, m.layer + static_cast<double>(e.chunk) / m.chunks, m.pieces, m.link_seconds / m.chunks,
                m.core_seconds / m.chunks);
  };
  const auto wait = [&](const ChunkTime& e) {
    const double before = now;
    now = std::max(now, link.done(e.id) + message_of(e).delay_seconds);
    waits[static_cast<std::size_t>(e.message)] += now - before;
  };
  const auto update = [&](const ChunkTime& e) { now += message_of(e).update_seconds / message_of(e).chunks; };

  double taken = 0, ahead = 0;
  for (int step = 0; step < kWarmUpSteps + kSteps; ++step) {
    const double began = now;
    std::fill(waits.begin(), waits.end(), 0);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      double done = 0;
      if (overlap == Overlap::forward && step > 0)
        for (const ChunkTime& e : needed[l]) {
          now += e.at - done;
          done = e.at;
          wait(e);
          update(e);
        }
      now += layers[l].forward_seconds - done;
    }
    for (std::size_t l = layers.size(); l-- > 0;) {
      double done = 0;
      for (const ChunkTime& e : finished[l]) {
        now += e.at - done;
        done = e.at;
        if (overlap != Overlap::none) submit(e);
      }
      now += layers[l].backward_seconds - done;
    }
    if (overlap == Overlap::none)
      for (std::size_t l = layers.size(); l-- > 0;)
        for (const ChunkTime& e : finished[l]) submit(e);
    if (overlap != Overlap::forward) {
      for (const auto& of_layer : needed)
        for (const ChunkTime& e : of_layer) wait(e);
      for (const auto& of_layer : needed)
        for (const ChunkTime& e : of_layer) update(e);
    }
    const double took = now - began, link_ahead = link.free() - now;
    if (step > 1 && std::abs(took - taken) + std::abs(link_ahead - ahead) <= kEqual * took) {
      result.step_seconds = took, result.waits = waits;  // all further steps are like this one
      return result;
    }
    taken = took, ahead = link_ahead;
    if (step < kWarmUpSteps) continue;
    result.step_seconds += took / kSteps;
    for (std::size_t m = 0; m < waits.size(); ++m) result.waits[m] += waits[m] / kSteps;
  }
  return result;
}

}  // namespace laconic::dist
