#include "dist/method/slim/slim.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "compress/codecs.h"
#include "core/raw.h"
#include "dist/collective/pieces.h"
#include "dist/method/ps/method.h"

namespace laconic::dist {
namespace {

/// Slim-DP, the workers' half (slim_server.cc has the other): every worker trains by itself, and every so many
/// steps sends a choice of what it has learned since, and takes over a choice of the server's parameters.
///
///     when a layer's gradient is ready     the worker's own update, put by; delta += what it changed, weighed by its
///                                          samples of the step, as a dense gradient is (n_k N / n)
///     every `local_steps` steps            chosen of delta: core and explorer, sent; delta = 0
///     before its next forward              w = what was put by; w[keys] = what came                      Merge
///
/// A change that is not sent is not accumulated: the worker's own parameters hold it already (`residual`, an
/// experiment, keeps it in delta for the next choice). So workers drift apart where nothing was pulled; that is the
/// method. What all have in common is the server's model: evaluation and weights take that, and drift says how far the
/// workers' are. Choosing overlaps with backward, bucket by bucket. The server's bits are those of any overlap and
/// number of servers.
/// source  SlimDP, Algorithms 1 and 2 (settled: values contain the learning rate; the mean over workers)
class SlimSync final : public PsSync {
 public:
  /// side.update : the worker's own
  SlimSync(WorkerSide side, Options options, const SlimSettings& settings)
      : PsSync(std::move(side), std::move(options)),
        rules_(settings),
        next_(arena().make_state()),
        delta_(arena().make_state()),
        states_(plan().buckets.size()) {
    table_.tensor("slimdp/delta", delta_, put_by(), "what slimdp has not sent");
    if (accounts()) {
      std::vector<StateTable::Number> bytes;
      for (State& s : states_)
        for (double* n : {&s.bytes.core, &s.bytes.explorer, &s.bytes.keys}) bytes.push_back(StateTable::Rounded{n});
      table_.numbers("slimdp/bytes", std::move(bytes), Join::anew, "the ledger of slimdp", false);
    }
    for (std::size_t b = 0; b < states_.size(); ++b)
      table_.row(
          [this, b](RankState& state) { state.save("slimdp/" + bucket(b).name + "/", states_[b].set, Join::anew); },
          [this, b](const StateDict& state) {
            states_[b].reader.forget();
            states_[b].set.load(state.part("slimdp/" + bucket(b).name + "/"),
                                static_cast<std::size_t>(bucket(b).elements));
          });
  }
  ~SlimSync() override { halt_what_is_under_way(); }

  Costs costs() const override {
    Costs costs = PsSync::costs();
    costs.update_seconds += own_update_seconds_;
    return costs;
  }

  /// Of what goes up, of the explorer that is drawn ahead and of what comes down there are keys and values of each
  /// bucket; messages themselves are under way in turns.
  double message_bytes() const override {
    double bytes = 0, longest = 0;
    for (std::size_t b = 0; b < states_.size(); ++b) {
      const compress::SlimFormat out = format(b, legs().up.get()), in = format(b, legs().down.get());
      const auto explorer = static_cast<double>(sizeof(std::uint32_t) * explorer_elements(rules_.chosen, out.n));
      bytes += 2 * chosen_bytes(out) + explorer;
      longest = std::max(longest, static_cast<double>(out.max_bytes() + in.max_bytes()));
    }
    return bytes + kSlimTurns * longest;
  }

 private:
  struct State {  // of one bucket
    compress::SlimSet set;
    compress::SlimReader reader;  // reads what the server sends
    std::vector<float> values;    // chosen
    bool exchanged = false;       // in this step
    compress::SlimBytes bytes;    // over the network, both ways
  };
  bool drifts() const override { return true; }
  bool joins(const StepContext& context) const override { return context.step % rules_.local_steps == 0; }
  compress::SlimKey key_of(std::size_t b, std::uint64_t round) const {
    return {legs().seed, round, static_cast<std::uint32_t>(b), 1 + static_cast<std::uint32_t>(engine().rank())};
  }
  std::uint64_t round_of(const StepContext& context) const {
    return static_cast<std::uint64_t>(context.step / rules_.local_steps - 1);
  }
  /// What was chosen of the changes; of a ghost's as many elements.
  Slice<const float> chosen(std::size_t b) const {
    if (delta_.device() == kGhost) return part(delta_, bucket(b)).first(format(b, nullptr).count());
    return slice(states_[b].values);
  }
  compress::SlimFormat format(std::size_t b, const compress::Codec* codec) const {
    return {.rules = rules_.chosen, .n = static_cast<std::size_t>(bucket(b).elements), .codec = codec};
  }

  /// The gradient is complete, but the rest of backward still needs the old values: the update is made and put by.
  void filled(std::size_t b) override {
    const Bucket& here = bucket(b);
    State& state = states_[b];
    const auto begin = Clock::now();
    part_of(next_, b).copy_from(part_of(arena().values(), b));
    StepContext own = context_of(b);
    own.gradient_scale = own.scale_to_own_mean();
    for_parts(b, [&](Parameter& p, Rows rows) { side().update(p, rows, own); });
    const Slice<float> delta = part(delta_, here);
    compress::put_step_by(part(arena().values(), here), part(next_, here), delta, static_cast<float>(own.own_weight));
    GhostWork::tell(delta.device(), Work::adding, 2 * delta.size_bytes());  // three vectors, each read and written
    arena().changed(here.first, here.count);
    own_update_seconds_ += seconds_since(begin);

    state.exchanged = joins(context_of(b));
    if (!state.exchanged) return;
    const Doing select(here.name, "select", select_seconds_);
    state.set.choose(rules_.chosen, delta, key_of(b, round_of(context_of(b))));
    state.set.gather(delta, state.values);
    tell_choice(delta.device(), format(b, nullptr), state.set.core_is_new());
    if (rules_.residual) {
      for (const auto* keys : {&state.set.core(), &state.set.explorer()})
        compress::clear_sent({}, delta, slice(*keys), false);
    } else {
      raw::fill(part_of(delta_, b), 0.0f);
    }
  }

  Task<> talk(Communicator& comm, std::size_t b, StepContext context) override {
    State& state = states_[b];
    if (!state.exchanged) co_return;
    const std::vector<int> server{server_of(b)};
    const auto round = static_cast<std::uint32_t>(round_of(context));
    const Leg up = legs().upward(b, context.step, comm.rank(), &this->up(b)), down{.moved = &this->down(b)};
    const auto note = [&](const compress::SlimFormat& form, Slice<const std::byte> message) {
      if (server[0] == comm.rank() || message.device() == kGhost) return;
      const compress::SlimBytes bytes = compress::bytes_of(form, message);
      state.bytes.core += bytes.core, state.bytes.explorer += bytes.explorer, state.bytes.keys += bytes.keys;
    };
    const Device device = delta_.device(), of_messages = device_of_messages(device);
    std::optional<GhostCodec> ghost_up, ghost_down;
    const compress::SlimFormat out = format(b, codec_for(device, legs().up.get(), ghost_up)),
                               in = format(b, codec_for(device, legs().down.get(), ghost_down));
    if (legs().is_large(static_cast<std::int64_t>(out.count()))) co_await take_turn(comm, b, context.step);
    for (bool with_keys = state.set.core_is_new();; with_keys = true) {
      compress::Bytes message(of_messages);
      compress::write_slim(out, state.set, with_keys, round, chosen(b), up.key, message);
      const Slice<const std::byte> bytes = message.slice();
      note(out, bytes);
      co_await send_message(comm, server, bytes, out.max_bytes(), up);
      const bool wanted = co_await recv_answer(comm, server[0], down);
      require<CommError>(!wanted || !with_keys, "slimdp: the server asks for the keys of ", bucket(b).name,
                         " that it was sent.");
      if (!wanted) break;
    }
    state.set.core_was_sent();
    const compress::SlimKey key{legs().seed, round, static_cast<std::uint32_t>(b), 0};
    const Scratch<std::byte> inbox(comm, in.max_bytes(), of_messages);
    for (bool again = false;; again = true) {
      const Slice<std::byte> room = inbox.slice();
      Incoming coming(comm, server[0], room);
      state.reader.expect(in, key);  // while the server still adds
      state.set.draw_ahead(rules_.chosen, in.n, key_of(b, round_of(context) + 1));
      const std::size_t came = co_await coming.arrives();
      if (server[0] != comm.rank()) *down.moved += came + coming.length_bytes();
      const bool understood = reading([&] { return state.reader.read(in, room.first(came), key); },
                                      "slimdp: what the server of ", bucket(b).name, " sent");
      require<CommError>(understood || !again, "slimdp: the server was asked for the keys of ", bucket(b).name,
                         " and did not send them.");
      co_await send_answer(comm, server[0], !understood, up);
      note(in, room.first(came));
      if (understood) break;
    }
    if (in.codec != nullptr) GhostWork::tell(device, Work::decoding, in.count());
  }

  void arrived(std::size_t b) override {
    const Bucket& here = bucket(b);
    part_of(arena().values(), b).copy_from(part_of(next_, b));
    if (std::exchange(states_[b].exchanged, false)) {
      states_[b].reader.overwrite(part(arena().values(), here));
      GhostWork::tell(next_.device(), Work::scattering, format(b, nullptr).count());
    }
    arena().changed(here.first, here.count);
  }

  void account(std::size_t b, LedgerRow& row) const override {
    const compress::SlimBytes& bytes = states_[b].bytes;
    row.choice = "core, explorer";
    row.sent = static_cast<double>(format(b, nullptr).count());
    row.more = {bytes.core, bytes.explorer, bytes.keys};
  }

  const SlimSettings rules_;
  Tensor next_, delta_;  // laid out like the arena: values after this step's own update; changes not sent yet
  std::vector<State> states_;
  double own_update_seconds_ = 0;
};

/// A choice of what workers have learned up, a choice of the parameters down (SlimSync).
class Slim final : public ServedMethod {
 public:
  std::string name() const override { return "slimdp"; }
  std::string summary() const override { return "ps with a part of the parameters (Slim-DP)"; }
  Traits traits() const override {
    Traits traits = ServedMethod::traits();
    traits.workers_update = true, traits.same_bits = false;
    traits.keeps = "changes";
    traits.on_ghosts = true, traits.chooses_by = "exact";
    constexpr std::int64_t kMost = 1000;
    traits.every = rules_.local_steps;
    traits.period = std::min(kMost, std::min(rules_.local_steps, kMost) * std::min(rules_.chosen.core_every, kMost));
    return traits;
  }

  void settings(Settings& s) override {
    begin_group(s);
    compress::SlimRules& chosen = rules_.chosen;
    s.real_number("alpha", "A", chosen.alpha, 0, 1, "0.3", "share of the elements that slimdp sends");
    s.real_number("explore", "E", chosen.explore, 0, 1, "0.15", "of these the ones drawn at random, as a share of all");
    s.whole_number<std::int64_t>("core-every", "Q", chosen.core_every, 1, "exchanges until the others are chosen anew");
    s.whole_number<std::int64_t>("local-steps", "P", rules_.local_steps, 1,
                                 "steps of each worker from exchange to exchange");
    s.either("slim-scope", rules_.whole_model, "layer", "model",
             "choose from each parameter (large ones in chunks),\nor from all together [layer]");
    s.either("explorer-keys", chosen.keys_sent, "drawn", "sent", "both ends draw the same, or they travel [drawn]");
    s.flag("slim-residual", rules_.residual, "what was not sent stays to be chosen from");
    add_truncation(s);
  }

  void check(const TrainingFacts& facts) const override {
    if (facts.clip_norm > 0)
      refuse("`sync` slimdp updates layer by layer on each worker, before the length of its whole gradient is known",
             "`clip`", "give `clip` value:X, or take `sync` ps");
    compress::require_sensible(rules_.chosen);
    ServedMethod::check(facts);
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    const std::string no_use = "`sync` slimdp has no use for it";
    if (setting == "fusion")
      return Refusal{no_use, "leave it out: what is chosen from is one parameter, or all (`slim-scope`)"};
    if (setting == "chunk" && rules_.whole_model)
      return Refusal{no_use, "leave it out: what is chosen from is all (`slim-scope`)"};
    return ServedMethod::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    constexpr std::size_t kAll = std::size_t{1} << 60;
    if (rules_.whole_model)
      plan.chunk_bytes = 0;
    else if (plan.chunk_is_default())
      plan.chunk_bytes = 1 << 20;
    plan.chunk_convolutions = true;
    plan.fusion = PlanOptions::Fusion::lazy;
    plan.bucket_bytes = rules_.whole_model ? kAll : 0;
  }

  LedgerForm ledger() const override {
    using Unit = LedgerColumn::Unit;
    static constexpr LedgerColumn columns[] = {
        exchanges_as("exchanges"),
        {"sent", "sent", Unit::number, [](const LedgerRow& r) { return r.sent; }},
        kUp,
        kDown,
        {"bytes_core", "core", Unit::bytes, [](const LedgerRow& r) { return r.more.at(0); }},
        {"bytes_explorer", "explorer", Unit::bytes, [](const LedgerRow& r) { return r.more.at(1); }},
        {"bytes_keys", "keys", Unit::bytes, [](const LedgerRow& r) { return r.more.at(2); }}};
    return {
        columns,
        "sent: elements each way; up, down: bytes between rank 0 and servers; core, explorer, keys: of both together"};
  }

  std::string describe(const TrainingFacts& facts) const override {
    std::string text = ServedMethod::describe(facts);
    return text.insert(name().size(), concat(", alpha = ", rules_.chosen.alpha, ", explorer ", rules_.chosen.explore));
  }

  /// The chosen values pass through the codec, without feedback.
  Legs legs(const std::string& codec, bool feedback, std::uint64_t seed) const override {
    if (compress::traits_of(codec).remembers)
      refuse("`sync` slimdp sends a choice of parameters, of which one bit says too little", "`codec` " + codec,
             "take qsgd:8:512");
    if (feedback) refuse("`sync` slimdp gathers nothing that was not sent", "`codec-feedback`", "leave it out");
    return ServedMethod::legs(codec, false, seed);
  }

  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override {
    return std::make_unique<SlimSync>(std::move(side), std::move(options), rules_);
  }
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override {
    return make_slim_server(side.shard, std::move(options), rules_);
  }

 protected:
  std::optional<double> bytes_of_round(const Bucket& bucket, const Legs& legs) const override {
    const compress::SlimRules& c = rules_.chosen;
    const double keys = (c.alpha - c.explore) / static_cast<double>(c.core_every) + (c.keys_sent ? c.explore : 0);
    const auto n = static_cast<double>(bucket.elements);
    const std::int64_t chosen = std::llround(c.alpha * n);
    double bytes = legs.is_large(chosen) ? 2 * sizeof(Turn) : 0;
    for (const auto& codec : {legs.up, legs.down})
      bytes += leg_bytes(codec.get(), static_cast<std::size_t>(chosen)) + 4 * keys * n;
    return bytes / static_cast<double>(rules_.local_steps);
  }

 private:
  SlimSettings rules_{};
};

}  // namespace

std::unique_ptr<Method> make_slim() { return std::make_unique<Slim>(); }

}  // namespace laconic::dist
