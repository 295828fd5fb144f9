#include "dist/method/slim/slim_sync.h"

#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "core/raw.h"
#include "dist/collective/pieces.h"

namespace laconic::dist {

SlimSync::SlimSync(WorkerSide side, Options options, const Rules& rules)
    : PsSync(std::move(side), std::move(options)),
      rules_(rules),
      next_(arena().make_state()),
      delta_(arena().make_state()),
      states_(plan().buckets.size()) {
  table_.tensor("slimdp/delta", delta_, put_by(), "what slimdp has not sent");
  const auto bytes = [this] {
    std::vector<double*> all;
    for (State& s : states_) all.insert(all.end(), {&s.bytes.core, &s.bytes.explorer, &s.bytes.keys});
    return all;
  };
  if (accounts())  // whole numbers
    table_.row(
        [bytes](RankState& state) {
          std::vector<std::int64_t> words;
          for (const double* n : bytes()) words.push_back(std::llround(*n));
          state.set_numbers("slimdp/bytes", words, Join::anew);
        },
        [bytes](const StateDict& state) {
          if (!state.contains("slimdp/bytes")) return;
          const std::vector<double*> all = bytes();
          const auto words = state.numbers("slimdp/bytes", all.size(), "the ledger of slimdp");
          for (std::size_t i = 0; i < all.size(); ++i) *all[i] = static_cast<double>(words[i]);
        });
  for (std::size_t b = 0; b < states_.size(); ++b)
    table_.row(
        [this, b](RankState& state) { state.save("slimdp/" + bucket(b).name + "/", states_[b].set, Join::anew); },
        [this, b](const StateDict& state) {
          states_[b].reader.forget();
          states_[b].set.load(state.part("slimdp/" + bucket(b).name + "/"),
                              static_cast<std::size_t>(bucket(b).elements));
        });
}

void tell_choice(Device device, const compress::SlimFormat& format, bool of_core) {
  if (of_core) GhostWork::tell(device, Work::selecting, format.n);
  GhostWork::tell(device, Work::scattering, format.count());
}

/// The gradient is complete, but the rest of backward still needs the old values: the update is made and put by.
void SlimSync::filled(std::size_t b) {
  const Bucket& here = bucket(b);
  State& state = states_[b];
  auto begin = Clock::now();
  next_.range(here.offset, here.elements).copy_from(arena().values().range(here.offset, here.elements));
  StepContext own = context_of(b);
  own.gradient_scale = own.scale_to_own_mean();
  for (int i = here.first; i < here.first + here.count; ++i)
    side().update(parameter(i), rows_of(here, parameter(i)), own);
  const Slice<float> delta = part(delta_, here);
  compress::put_step_by(part(arena().values(), here), part(next_, here), delta, static_cast<float>(own.own_weight));
  GhostWork::tell(delta.device(), Work::adding, 2 * delta.size_bytes());  // three vectors, each read and written
  arena().changed(here.first, here.count);
  own_update_seconds_ += seconds_since(begin);

  state.exchanged = joins(context_of(b));
  if (!state.exchanged) return;
  const Trace::Span span(here.name, "select");
  begin = Clock::now();
  state.set.choose(rules_.chosen, delta, key_of(b, round_of(context_of(b))));
  state.set.gather(delta, state.values);
  tell_choice(delta.device(), format(b, nullptr), state.set.core_is_new());
  if (rules_.residual) {
    for (const auto* keys : {&state.set.core(), &state.set.explorer()})
      compress::clear_sent({}, delta, slice(*keys), false);
  } else {
    raw::fill(delta_.range(here.offset, here.elements), 0.0f);
  }
  select_seconds_ += seconds_since(begin);
}

Task<> SlimSync::talk(Communicator& comm, std::size_t b, StepContext context) {
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

void SlimSync::arrived(std::size_t b) {
  const Bucket& here = bucket(b);
  const Tensor values = arena().values().range(here.offset, here.elements);
  values.copy_from(next_.range(here.offset, here.elements));
  if (std::exchange(states_[b].exchanged, false)) {
    states_[b].reader.overwrite(part(arena().values(), here));
    GhostWork::tell(values.device(), Work::scattering, format(b, nullptr).count());
  }
  arena().changed(here.first, here.count);
}

void SlimSync::account(std::size_t b, LedgerRow& row) const {
  const compress::SlimBytes& bytes = states_[b].bytes;
  row.choice = "core, explorer";
  row.sent = static_cast<double>(format(b, nullptr).count());
  row.more = {bytes.core, bytes.explorer, bytes.keys};
}

Costs SlimSync::costs() const {
  Costs costs = PsSync::costs();
  costs.update_seconds += own_update_seconds_;
  return costs;
}

/// Of what goes up, of the explorer that is drawn ahead and of what comes down there are keys and values of each
/// bucket; messages themselves are under way in turns.
double SlimSync::message_bytes() const {
  double bytes = 0, longest = 0;
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const compress::SlimFormat out = format(b, legs().up.get()), in = format(b, legs().down.get());
    const auto explorer = static_cast<double>(sizeof(std::uint32_t) * explorer_elements(rules_.chosen, out.n));
    bytes += 2 * chosen_bytes(out) + explorer;
    longest = std::max(longest, static_cast<double>(out.max_bytes() + in.max_bytes()));
  }
  return bytes + kSlimTurns * longest;
}

}  // namespace laconic::dist
