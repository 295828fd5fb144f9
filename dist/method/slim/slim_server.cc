#include <deque>
#include <optional>
#include <utility>

#include "dist/collective/pieces.h"
#include "dist/method/slim/slim.h"

namespace laconic::dist {

void tell_choice(Device device, const compress::SlimFormat& format, bool of_core) {
  if (of_core) GhostWork::tell(device, Work::selecting, format.n);
  GhostWork::tell(device, Work::scattering, format.count());
}

Task<> send_answer(Communicator& comm, int to, bool wants_keys, Leg leg) {
  const std::uint32_t answer = wants_keys ? 1 : 0;
  co_await send_header(comm, to, answer, leg);
}

Task<bool> recv_answer(Communicator& comm, int from, Leg leg) {
  const auto answer = co_await recv_header<std::uint32_t>(comm, from, leg);
  require<CommError>(answer <= 1, "slimdp: rank ", from, " answers ", answer, ". Do all ranks run the same program?");
  co_return answer == 1;
}

namespace {

/// The serving half of Slim-DP: adds what workers choose of their updates, and sends what it chooses of the parameters,
/// one set for all. It has no optimiser: momentum and weight decay are the workers'.
///
///     worker k                                             server
///     if they are many, asks              ──────────▶      its turn comes (turns.h)
///     chosen of what it has learned       ──────────▶      w[keys] += values / N                in rank order
///     (keys only if its core is new)      ◀──────────      0: taken;  1: that core is unknown here, send its keys
///     w[keys] = values                    ◀──────────      chosen of w, the same bytes to all
///     0: taken;  1: ... send its keys     ──────────▶
///
/// source  SlimDP, Algorithms 1 and 2 (settled: values contain the learning rate; selection is from the updated w)
/// throws  CommError naming the worker whose message is none, or who asks for keys that it was sent
class SlimServer final : public ParameterServer {
 public:
  SlimServer(Shard& shard, Options options, const SlimSettings& rules)
      : ParameterServer(shard, {}, std::move(options)), rules_(rules), layers_(shard.units().size()) {
    for (Layer& layer : layers_) layer.readers.resize(workers().size());
  }
  Task<> serve(Communicator& comm, const Shard::Unit& unit, StepContext context) override;
  /// Keys and values of each worker's choice, and of its own.
  double message_bytes() const override {
    const auto N = static_cast<double>(workers().size());
    double bytes = 0, longest = 0;
    for (const Shard::Unit& unit : shard().units()) {
      const compress::SlimFormat format{
          .rules = rules_.chosen, .n = static_cast<std::size_t>(unit.elements), .codec = legs().up.get()};
      bytes += (N + 1) * chosen_bytes(format);
      longest = std::max(longest, static_cast<double>(format.max_bytes()));
    }
    return bytes + kSlimTurns * (N + 1) * longest;
  }

  void save(StateDict& state) const override {
    ParameterServer::save(state);
    for (const Shard::Unit& unit : shard().units()) state.save("slimdp/" + unit.name + "/", layers_[place(unit)].set);
  }
  void load(const StateDict& state) override {
    ParameterServer::load(state);
    for (const Shard::Unit& unit : shard().units()) {
      Layer& layer = layers_[place(unit)];
      for (compress::SlimReader& reader : layer.readers) reader.forget();
      layer.set.load(state.part("slimdp/" + unit.name + "/"), static_cast<std::size_t>(unit.elements));
    }
  }

 private:
  struct Layer {  // one bucket
    compress::SlimSet set;
    std::vector<compress::SlimReader> readers;  // by worker
  };
  const SlimSettings rules_;
  std::vector<Layer> layers_;  // by unit
};

Task<> SlimServer::serve(Communicator& comm, const Shard::Unit& unit, StepContext context) {
  begin_round(unit, context);
  Layer& layer = layers_[place(unit)];
  const auto round = static_cast<std::uint64_t>(context.step / rules_.local_steps - 1);
  const auto id = static_cast<std::uint32_t>(unit.bucket);
  const Slice<float> w = shard().values(unit);
  const Device of_messages = device_of_messages(w.device());
  std::optional<GhostCodec> ghost_up, ghost_down;
  const compress::SlimFormat format{.rules = rules_.chosen,
                                    .n = static_cast<std::size_t>(unit.elements),
                                    .codec = codec_for(w.device(), legs().up.get(), ghost_up)};
  const std::size_t room = format.max_bytes(), N = workers().size();
  const bool in_turn = legs().is_large(static_cast<std::int64_t>(format.count()));
  const Leg down = legs().downward(unit.bucket, context.step, &sent());
  const auto key_of = [&](int rank) {
    return compress::SlimKey{legs().seed, round, id, 1 + static_cast<std::uint32_t>(rank)};
  };
  for (std::size_t i = 0; i < N; ++i) layer.readers[i].expect(format, key_of(workers()[i]));  // while they compute
  if (in_turn) co_await begin_turn(comm, unit, context);
  {
    const Scratch<std::byte> inboxes(comm, N * room, of_messages);
    std::deque<Incoming> coming;
    for (std::size_t i = 0; i < N; ++i) coming.emplace_back(comm, workers()[i], inboxes.slice().sub(i * room, room));
    for (Incoming& each : coming) co_await each.begins();
    for (std::size_t i = 0; i < N; ++i) {
      const int r = workers()[i];
      const Slice<std::byte> inbox = inboxes.slice().sub(i * room, room);
      const compress::SlimKey key = key_of(r);
      std::size_t came = co_await coming[i].arrives();
      for (bool again = false;; again = true) {
        const bool understood = reading([&] { return layer.readers[i].read(format, inbox.first(came), key); },
                                        "slimdp: what rank ", r, " sent of ", unit.name);
        require<CommError>(understood || !again, "slimdp: rank ", r, " was asked for the keys of ", unit.name,
                           " and did not send them.");
        std::optional<Incoming> keys;
        if (!understood) keys.emplace(comm, r, inbox);
        co_await send_answer(comm, r, !understood, down);
        if (understood) break;
        came = co_await keys->arrives();
      }
      layer.readers[i].add_to(static_cast<float>(context.gradient_scale), w);
      if (format.codec != nullptr) GhostWork::tell(w.device(), Work::decoding, format.count());
      GhostWork::tell(w.device(), Work::scattering, format.count());
    }
  }
  if (in_turn) end_turn();
  ++version(unit);

  layer.set.choose(rules_.chosen, w, {legs().seed, round, id, 0});
  std::vector<float> values;
  layer.set.gather(w, values);
  tell_choice(w.device(), format, layer.set.core_is_new());
  compress::SlimFormat out = format;
  out.codec = codec_for(w.device(), legs().down.get(), ghost_down);
  const Slice<const float> chosen =
      w.device() == kGhost ? Slice<const float>(w.first(format.count())) : slice(std::as_const(values));
  const auto pack = [&](bool with_keys, compress::Bytes& message) {
    compress::write_slim(out, layer.set, with_keys, static_cast<std::uint32_t>(round), chosen, down.key, message);
  };
  compress::Bytes message(of_messages), with_keys(of_messages);
  pack(layer.set.core_is_new(), message);
  layer.set.core_was_sent();
  const Slice<const std::byte> bytes = message.slice();
  co_await send_message(comm, workers(), bytes, out.max_bytes(), down);
  for (const int r : workers()) {
    const bool wants = co_await recv_answer(comm, r, Leg{});
    if (!wants) continue;
    if (with_keys.size() == 0) pack(true, with_keys);
    const std::vector<int> one{r};
    const Slice<const std::byte> again = with_keys.slice();
    co_await send_message(comm, one, again, out.max_bytes(), down);
    const bool still = co_await recv_answer(comm, r, Leg{});
    require<CommError>(!still, "slimdp: rank ", r, " asks again for the keys of ", unit.name, ".");
  }
}

}  // namespace

std::unique_ptr<ParameterServer> make_slim_server(Shard& shard, ParameterServer::Options options,
                                                  const SlimSettings& rules) {
  return std::make_unique<SlimServer>(shard, std::move(options), rules);
}

}  // namespace laconic::dist
