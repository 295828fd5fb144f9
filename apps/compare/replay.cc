#include "apps/compare/replay.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/compare/compare.h"
#include "compress/codecs.h"
#include "core/error.h"
#include "dist/method/allreduce/allreduce_sync.h"

namespace laconic {
namespace {

constexpr int kWarmUpSteps = 10, kSteps = 10;

/// A link that sends one piece at a time. It is run only as far as somebody waits for it, so that every piece that is
/// ready when a choice is made has been handed over by then.
class Link {
 public:
  /// A chunk in `pieces` parts; a smaller `need` is more urgent. Times of calls do not decrease.
  void submit(int id, double ready, double need, int pieces, double seconds) {
    for (int i = 0; i < pieces; ++i) queue_.push_back({id, ready, need, seconds / pieces});
    chunks_[id] = {pieces, 0};
  }
  /// When the last piece of that chunk has left.
  double sent(int id) {
    while (chunks_.at(id).pieces_left > 0) serve();
    return chunks_.at(id).end;
  }

 private:
  struct Chunk {
    int pieces_left;
    double end;
  };
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
    for (auto it = best; it != queue_.end() && it->ready <= free_; ++it)
      if (it->need < best->need) best = it;
    Chunk& chunk = chunks_.at(best->id);
    free_ += best->seconds;
    if (--chunk.pieces_left == 0) chunk.end = free_;
    queue_.erase(best);
  }

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
              dist::Overlap overlap) {
  using dist::Overlap;
  Replay result;
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
                       message.delay_seconds >= 0 && message.update_seconds >= 0,
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

  double measured_from = 0;
  for (int step = 0; step < kWarmUpSteps + kSteps; ++step) {
    if (step == kWarmUpSteps) measured_from = now;
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
  }
  result.step_seconds = (now - measured_from) / kSteps;
  return result;
}

Exchange exchange_of(const std::vector<std::string>& words, int workers, const std::optional<dist::LinkSpec>& rate) {
  Exchange e{workers, rate};
  if (const auto link = value_of(words, "--link")) e.link = dist::LinkSpec::parse(*link, "--link");
  for (const std::string& one : values_of(words, "--link-of")) {
    if (!e.link || one.find('=') == std::string::npos) continue;
    const auto slow = dist::LinkSpec::parse(one.substr(one.find('=') + 1), "--link-of");
    e.link->bits_per_second = std::min(e.link->bits_per_second, slow.bits_per_second);
    e.link->latency = std::max(e.link->latency, slow.latency);
  }
  if (const auto overlap = value_of(words, "--overlap")) e.overlap = dist::overlap_named(*overlap);
  return e;
}

std::optional<Replay> bound_of(const LayerTimes& times, const std::string& plan, const Exchange& e,
                               double compute_seconds) {
  if (!e.link) return std::nullopt;
  const double bytes_per_second = static_cast<double>(e.link->bits_per_second) / 8;
  const double latency = std::chrono::duration<double>(e.link->latency).count();

  double measured_ms = 0;
  for (const auto& l : times.layers) {
    measured_ms += l.forward_ms + l.backward_ms;
    for (const auto& p : l.parameters) measured_ms += p.update_ms;
  }
  const double scale = measured_ms > 0 ? compute_seconds / measured_ms : 0;  // ms to s, and to all workers at work
  std::vector<ReplayLayer> layers;
  struct Place {
    int layer = 0;
    const LayerTimes::Parameter* parameter = nullptr;
  };
  std::map<std::string, Place> places;
  for (const auto& l : times.layers) {
    for (const auto& p : l.parameters) places[p.name] = {static_cast<int>(layers.size()), &p};
    layers.push_back({l.name, scale * l.forward_ms, scale * l.backward_ms});
  }

  std::vector<ReplayMessage> messages;
  try {
    auto json = nlohmann::json::parse(plan);
    const std::string what = json.value("travels", "plan");
    if (what != "plan" && what != "nothing") return std::nullopt;
    const bool travels = what == "plan" && e.workers > 1;
    if (json.contains("plan")) json = nlohmann::json(json["plan"]);
    const auto codec = compress::make_codec(json.value("codec", "none"));
    for (const auto& bucket : json.at("buckets")) {
      const auto names = bucket.at("parameters").get<std::vector<std::string>>();
      const bool chunk = bucket.contains("rows");
      // Chunks of one weight stand one after another: they are one message of the replay.
      if (!chunk || messages.empty() || messages.back().name != names.at(0)) {
        ReplayMessage m;
        m.name = names.size() > 1 ? names.front() + ".." + names.back() : names.at(0);
        m.layer = static_cast<int>(layers.size());
        double bytes = 0;
        for (const auto& name : names) {
          const auto found = places.find(name);
          require<DataError>(found != places.end(), "bound: the plan has a parameter ", name, " that no layer has");
          const auto& [layer, p] = found->second;
          if (layer < m.layer) m.layer = layer, m.ready_seconds = 0;
          if (layer == m.layer) m.ready_seconds = std::max(m.ready_seconds, scale * p->ready_ms);
          m.update_seconds += scale * p->update_ms;
          bytes += 4.0 * static_cast<double>(p->elements);
        }
        if (travels) {
          const auto allreduce = bucket.at("algorithm").get<std::string>();
          if (!dist::find_allreduce(allreduce)) return std::nullopt;
          // As one piece: all of a ring's pieces wait for the same latency together.
          const auto cost = dist::allreduce_cost(allreduce, e.workers, bytes, 1, codec.get());
          if (!cost) return std::nullopt;
          m.link_seconds = cost->bytes / bytes_per_second;
          m.delay_seconds = cost->messages * latency;
        }
        m.chunks = 0;
        m.pieces = bucket.value("pieces", 1);
        messages.push_back(m);
      }
      ++messages.back().chunks;
    }
  } catch (const nlohmann::json::exception& wrong) {
    throw DataError(concat("bound: the plan cannot be read (", wrong.what(), ")"));
  }
  return replay(layers, messages, e.overlap);
}

}  // namespace laconic
