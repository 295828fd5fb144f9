#include "dist/trainer/server_half.h"

#include <cstring>
#include <numeric>

#include "core/host_copy.h"
#include "dist/trainer/internals.h"

namespace laconic {

ServerHalf::ServerHalf(const dist::Method& method, const dist::TrainingFacts& facts, const TrainerOptions& o,
                       const dist::Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner,
                       int server)
    : shard_(std::make_unique<dist::Shard>(plan, all, owner, server, o.device)),
      optimizer_(method.traits().workers_update ? nullptr : make_optimizer(shard_->arena(), o.optimizer)) {
  dist::ServerSide side{.facts = facts, .codec = plan.codec, .shard = *shard_};
  if (optimizer_)
    side.update = [this, limit = facts.clip_value](Parameter& p, Rows rows, const dist::StepContext& context) {
      if (limit > 0) clip_value(p.grad(), limit / context.gradient_scale);
      optimizer_->update(p, rows, context.lr, context.gradient_scale);
    };
  if (facts.clip_norm > 0) {
    dist::JointNorm::Options norm{.buckets = plan.buckets.size(), .own = shard_->units().size()};
    norm.servers.resize(static_cast<std::size_t>(facts.servers > 0 ? facts.servers : facts.workers));
    std::iota(norm.servers.begin(), norm.servers.end(), facts.servers > 0 ? facts.workers : 0);
    norm.limit = [most = facts.clip_norm](double scale, double squares) {
      return scale * clip_scale(scale * scale * squares, most);
    };
    side.norm = std::make_shared<dist::JointNorm>(std::move(norm));
  }
  server_ = method.server(std::move(side));
}

void ServerHalf::save(StateDict& state) const {
  StateDict part;
  server_->save(part);
  state.merge(part, "server/");
  part = {};
  if (optimizer_) optimizer_->save(part);
  state.merge(part, "server/optimizer/");
}

void ServerHalf::load(const StateDict& state) {
  server_->load(state.part("server/"));
  if (optimizer_) optimizer_->load(state.part("server/optimizer/"));
}

std::uint64_t ServerHalf::checksum() const {
  std::uint64_t hash = laconic::checksum({});
  for (const dist::Shard::Unit& unit : shard_->units())
    for (const Parameter* p : unit.parameters) hash = laconic::checksum(p->value().slice(), hash);
  return hash;
}

std::uint64_t checksum(Slice<const float> values, std::uint64_t hash) {
  for (const float v : HostCopy<float>(values)) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

}  // namespace laconic
