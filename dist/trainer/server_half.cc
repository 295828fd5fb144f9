#include "dist/trainer/server_half.h"

#include <cstring>
#include <numeric>

#include "core/host_copy.h"
#include "dist/trainer/internals.h"

namespace laconic {

ServerHalf::ServerHalf(const TrainerOptions& o, const dist::Plan& plan, const std::vector<ParameterInfo>& all,
                       const std::vector<int>& owner, int server, int workers, int servers)
    : shard_(std::make_unique<dist::Shard>(plan, all, owner, server, o.device)),
      optimizer_(dist::server_method(o.sync)->workers_update ? nullptr : make_optimizer(shard_->arena(), o.optimizer)) {
  const dist::Update update = [this, clip = o.clip](Parameter& p, Rows rows, const dist::StepContext& context) {
    if (clip.kind == Clip::Kind::value) clip_value(p.grad(), clip.limit / context.gradient_scale);
    optimizer_->update(p, rows, context.lr, context.gradient_scale);
  };
  dist::ParameterServer::Options options{.workers = dist::leaders_of(workers, o.server.local_aggregate),
                                         .legs = dist::make_legs(*dist::server_method(o.sync), o.server, plan.codec,
                                                                 o.codec_feedback, o.seed)};
  if (o.clip.kind == Clip::Kind::norm) {
    dist::JointNorm::Options norm{.buckets = plan.buckets.size(), .own = shard_->units().size()};
    norm.servers.resize(static_cast<std::size_t>(servers > 0 ? servers : workers));
    std::iota(norm.servers.begin(), norm.servers.end(), servers > 0 ? workers : 0);
    norm.limit = [most = o.clip.limit](double scale, double squares) {
      return scale * clip_scale(scale * scale * squares, most);
    };
    options.norm = std::make_shared<dist::JointNorm>(std::move(norm));
  }
  server_ = dist::make_server(*dist::server_method(o.sync), o.server, *shard_, update, std::move(options));
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
