#include "dist/server/server.h"

namespace laconic::dist {

std::int64_t& ParameterServer::version(const Shard::Unit& unit) {
  return versions_[static_cast<std::size_t>(&unit - shard_.units().data())];
}

void ParameterServer::apply(const Shard::Unit& unit, const StepContext& context) {
  for (Parameter* p : unit.parameters) update_(*p, p->all_rows(), context);
  ++version(unit);
}

Task<> ParameterServer::serve(Communicator& comm, const Shard::Unit& unit, StepContext context) {
  const Leg up = o_.legs.upward(unit.bucket, context.step, 0);
  const Slice<float> sum = shard_.sum(unit);
  co_await recv_sum(comm, o_.workers, sum, up);
  apply(unit, context);
  const Leg down = o_.legs.downward(unit.bucket, context.step, &sent_);
  const Slice<const float> fresh = shard_.values(unit);
  co_await send_floats(comm, o_.workers, fresh, down);
}

void ParameterServer::save(StateDict& state) const {
  for (const Shard::Unit& unit : shard_.units())
    for (const Parameter* p : unit.parameters) state.set("values/" + p->info.name, p->value());
  state.set("versions",
            Tensor::of({static_cast<std::int64_t>(versions_.size())}, std::span<const std::int64_t>(versions_)));
}

void ParameterServer::load(const StateDict& state) {
  std::vector<ExpectedTensor> expected;
  const StateDict values = state.part("values/");
  for (const Shard::Unit& unit : shard_.units())
    for (const Parameter* p : unit.parameters) expected.push_back({p->info.name, p->info.shape});
  require_match(expected, values, "checkpoint", "this server");
  const Tensor& versions = state.at("versions");
  require<DataError>(
      versions.dtype() == DType::i64 && versions.elements() == static_cast<std::int64_t>(versions_.size()),
      "resume: a server's counts of updates are damaged. Use an older checkpoint.");
  for (const Shard::Unit& unit : shard_.units())
    for (Parameter* p : unit.parameters) p->value().copy_from(values.at(p->info.name));
  for (std::size_t i = 0; i < versions_.size(); ++i) versions_[i] = versions.data<std::int64_t>()[i];
}

}  // namespace laconic::dist
