#include "apps/compare/replay.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"

namespace laconic {
namespace {

constexpr int kWarmUpSteps = 10, kSteps = 10;

/// A link that sends one piece at a time. It is run only as far as somebody waits for it, so that every piece that is
/// ready when a choice is made has been handed over by then.
class Link {
 public:
  explicit Link(bool priority) : priority_(priority) {}

  /// A chunk in `pieces` parts; a smaller `need` is more urgent. Times of calls do not decrease.
  void submit(int id, double ready, double need, int pieces, double seconds) {
    for (int i = 0; i < pieces; ++i) queue_.push_back({id, ready, need, seconds / pieces});
    chunks_[id] = {ready, std::numeric_limits<double>::infinity(), 0, pieces};
  }
  /// When the last piece of that chunk has left.
  double sent(int id) {
    while (chunks_.at(id).pieces_left > 0) serve();
    return chunks_.at(id).end;
  }
  struct Chunk {
    double ready, begin, end;
    int pieces_left;
  };
  const Chunk& chunk(int id) const { return chunks_.at(id); }

 private:
  struct Piece {
    int id;
    double ready;
    double need;
    double seconds;
  };

  void serve() {
    // Pieces stand in the order of being ready; of equal need the first wins.
    auto best = queue_.begin();
    free_ = std::max(free_, best->ready);
    if (priority_)
      for (auto it = best; it != queue_.end() && it->ready <= free_; ++it)
        if (it->need < best->need) best = it;
    Chunk& chunk = chunks_.at(best->id);
    chunk.begin = std::min(chunk.begin, free_);
    free_ += best->seconds;
    if (--chunk.pieces_left == 0) chunk.end = free_;
    queue_.erase(best);
  }

  bool priority_;
  double free_ = 0;
  std::vector<Piece> queue_;
  std::map<int, Chunk> chunks_;
};

/// One chunk of a message, and the seconds of its layer's forward or backward that stand before it.
struct ChunkTime {
  double at;
  int message, chunk, id;
};

}  // namespace

Replay replay(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages,
              const ReplayOptions& options) {
  using Overlap = ReplayOptions::Overlap;
  Replay result;
  for (const auto& l : layers) {
    require<Error>(l.forward_seconds >= 0 && l.backward_seconds >= 0, "replay: layer ", l.name, " takes ",
                   l.forward_seconds, " and ", l.backward_seconds, " s. Times cannot be negative.");
    result.compute_seconds += l.forward_seconds + l.backward_seconds;
  }
  // The chunks of each layer, as forward needs them and as backward finishes them.
  std::vector<std::vector<ChunkTime>> needed(layers.size()), finished(layers.size());
  std::vector<int> first_id;
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
                       message.delay_seconds >= 0 && message.update_seconds >= 0,
                   "replay: message ", message.name, " has ", message.chunks, " chunks of ", message.pieces,
                   " pieces and takes ", message.link_seconds, " s. Give at least one of each, and times from 0 up.");
    first_id.push_back(ids);
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

  Link link(options.priority);
  double now = 0;
  const auto message_of = [&](const ChunkTime& e) -> const ReplayMessage& {
    return messages[static_cast<std::size_t>(e.message)];
  };
  const auto submit = [&](const ChunkTime& e) {
    const ReplayMessage& m = message_of(e);
    // Urgency: the layer's place in forward, then the rows' in the layer.
    link.submit(e.id, now, m.layer + static_cast<double>(e.chunk) / m.chunks, m.pieces, m.link_seconds / m.chunks);
  };
  const auto wait = [&](const ChunkTime& e) { now = std::max(now, link.sent(e.id) + message_of(e).delay_seconds); };
  const auto update = [&](const ChunkTime& e) { now += message_of(e).update_seconds / message_of(e).chunks; };

  double measured_from = 0, step_start = 0;
  for (int step = 0; step < kWarmUpSteps + kSteps; ++step) {
    step_start = now;
    if (step == kWarmUpSteps) measured_from = now;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      double done = 0;
      if (options.overlap == Overlap::forward && step > 0)
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
        if (options.overlap != Overlap::none) submit(e);
      }
      now += layers[l].backward_seconds - done;
    }
    if (options.overlap == Overlap::none)
      for (std::size_t l = layers.size(); l-- > 0;)
        for (const ChunkTime& e : finished[l]) submit(e);
    if (options.overlap != Overlap::forward) {
      for (const auto& of_layer : needed)
        for (const ChunkTime& e : of_layer) wait(e);
      for (const auto& of_layer : needed)
        for (const ChunkTime& e : of_layer) update(e);
    }
  }
  result.step_seconds = (now - measured_from) / kSteps;
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const int last = first_id[m] + messages[m].chunks - 1;
    Replay::Sent sent{messages[m].name, link.chunk(first_id[m]).ready - step_start, 0, 0};
    sent.end = link.sent(last) - step_start;
    for (int id = first_id[m]; id <= last; ++id) sent.end = std::max(sent.end, link.sent(id) - step_start);
    sent.begin = link.chunk(first_id[m]).begin - step_start;
    result.messages.push_back(sent);
  }
  return result;
}

}  // namespace laconic
