#include "dist/server/server.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/raw.h"

namespace laconic::dist {
namespace {

std::string place_of(const std::string& name) { return name + ":place"; }

}  // namespace

void ParameterServer::begin_round(const Shard::Unit& unit, const StepContext& context) {
  std::int64_t& last = steps_[place(unit)];
  require<CommError>(context.step > last, "server: a round of ", unit.name, " in step ", context.step,
                     " after one in step ", last,
                     " would add gradients twice. Resume all ranks from the same checkpoint.");
  last = context.step;
  if (o_.legs.differences && version(unit) == 0)  // nothing was updated yet: the workers hold what is held here
    held(unit).copy_from(shard_.arena().values().range(unit.offset, unit.elements));
}

void ParameterServer::apply(const Shard::Unit& unit, const StepContext& context) {
  for (Parameter* p : unit.parameters) update_(*p, p->all_rows(), context);
  ++version(unit);
}

Task<> ParameterServer::limit(const Shard::Unit& unit, StepContext& context) {
  if (!o_.norm) co_return;
  std::vector<Tensor> gradients;
  for (const Parameter* p : unit.parameters) gradients.push_back(p->grad());
  o_.norm->add(context.step, unit.bucket, raw::sum_of_squares(gradients));
  context.gradient_scale = co_await o_.norm->scale(context.step, context.gradient_scale);
}

Task<> ParameterServer::begin_turn(Communicator& comm, const Shard::Unit& unit, const StepContext& context) {
  Turn mine{.step = static_cast<std::uint32_t>(context.step)};
  const Leg up{}, down{.moved = &sent_};
  for (const int r : o_.workers) {
    const auto asked = co_await recv_header<Turn>(comm, r, up);
    require<CommError>(asked.step == mine.step, "server: rank ", r, " pushes ", unit.name, " of step ", asked.step,
                       " in step ", mine.step, ". Resume all of them alike.");
    if (!std::isnan(mine.scale) && !(asked.scale <= mine.scale)) mine.scale = asked.scale;
  }
  const Waiting::Wait place = turns_.take(unit.priority);
  co_await place;
  for (const int r : o_.workers) co_await send_header(comm, r, mine, down);
}

/// Buckets that ask for a turn come two at a time, and about as many go; the others all at once.
double ParameterServer::message_bytes() const {
  double bytes = 0, most_in_turn = 0;
  for (const Shard::Unit& unit : shard_.units()) {
    const auto n = static_cast<std::size_t>(unit.elements);
    const auto both = static_cast<double>(room_to_receive(o_.legs.up.get(), n, o_.workers.size()) +
                                          room_to_send(o_.legs.down.get(), n));
    if (o_.legs.takes_turn(unit.elements))
      most_in_turn = std::max(most_in_turn, both);
    else
      bytes += both;
  }
  return bytes + kTurns * most_in_turn;
}

Task<> ParameterServer::serve(Communicator& comm, const Shard::Unit& unit, StepContext context) {
  begin_round(unit, context);
  const Leg up = o_.legs.upward(unit.bucket, context.step, 0);
  const Slice<float> sum = shard_.sum(unit);
  const bool in_turn = o_.legs.takes_turn(unit.elements);
  if (in_turn) co_await begin_turn(comm, unit, context);
  co_await recv_sum(comm, o_.workers, sum, up);
  if (in_turn) end_turn();
  co_await limit(unit, context);
  apply(unit, context);
  co_await send_values(comm, unit, context);
}

Task<> ParameterServer::send_values(Communicator& comm, const Shard::Unit& unit, const StepContext& context) {
  Leg down = o_.legs.downward(unit.bucket, context.step, &sent_);
  Slice<const float> fresh = shard_.values(unit);
  if (o_.legs.differences) {
    const Tensor change = shard_.arena().gradients().range(unit.offset, unit.elements);  // the sum has been used
    change.copy_from(shard_.arena().values().range(unit.offset, unit.elements));
    raw::axpy(change, -1.0f, held(unit));
    fresh = down.decoded = change.slice();
  }
  co_await send_floats(comm, o_.workers, fresh, down);
  if (!o_.legs.differences) co_return;
  clear_padding(shard_.arena().gradients(), shard_.parameters(unit));
  add_in_place(held(unit).slice(), down.decoded);
}

Task<> ParameterServer::show(Communicator& comm, const Shard::Unit& unit) {
  const Slice<const float> values = shard_.values(unit);
  co_await send_floats(comm, o_.workers, values, Leg{});
}

void ParameterServer::save(StateDict& state) const {
  for (const Shard::Unit& unit : shard_.units())
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter* const p = unit.parameters[i];
      state.set("values/" + p->info.name, p->value());
      state.set_text(place_of("values/" + p->info.name),
                     concat(unit.workers_offset[i], " ", p->info.offset, " ", p->info.index));
      if (held_.defined()) state.set("held/" + p->info.name, held_.range(p->info.offset, p->info.elements));
    }
  state.set_numbers("versions", versions_);
  state.set_numbers("steps", steps_);
}

std::vector<Place> places_in(const StateDict& server) {
  std::vector<Place> places;
  for (const auto& [name, values] : server) {
    if (!name.starts_with("values/")) continue;
    Place place{.elements = values.elements(), .values = values};
    std::istringstream in(server.text(place_of(name)));
    in >> place.workers_offset >> place.offset >> place.index;
    constexpr std::int64_t kMost = std::int64_t{1} << 48;  // so that places and lengths can be added up
    const auto [least, most] = std::minmax({place.workers_offset, place.offset, place.index});
    require<DataError>(!in.fail() && in.eof() && least >= 0 && most <= kMost && values.dtype() == DType::f32,
                       "resume: what a server says of ", name, " is damaged. Use an older checkpoint.");
    places.push_back(std::move(place));
  }
  return places;
}

void ParameterServer::load(const StateDict& state) {
  std::vector<ExpectedTensor> expected;
  const StateDict values = state.part("values/");
  for (const Shard::Unit& unit : shard_.units())
    for (const Parameter* p : unit.parameters) expected.push_back({p->info.name, p->info.shape});
  require_match(expected, values, "checkpoint", "this server");
  versions_ = state.numbers("versions", versions_.size(), "a server's list of versions");
  steps_ = state.numbers("steps", steps_.size(), "a server's list of steps");
  for (const Shard::Unit& unit : shard_.units())
    for (Parameter* p : unit.parameters) {
      p->value().copy_from(values.at(p->info.name));
      if (!held_.defined()) continue;
      const Tensor& theirs = state.at("held/" + p->info.name);
      require<DataError>(theirs.dtype() == DType::f32 && theirs.elements() == p->info.elements,
                         "resume: what workers hold of ", p->info.name, " is damaged. Use an older checkpoint.");
      held_.range(p->info.offset, p->info.elements).copy_from(theirs);
    }
}

}  // namespace laconic::dist
