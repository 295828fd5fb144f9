#include "dist/trainer/servers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "core/host_copy.h"
#include "dist/trainer/checkpointing.h"

namespace laconic {

std::uint64_t checksum(Slice<const float> values, std::uint64_t hash) {
  for (const float v : HostCopy<float>(values)) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

ServerHalf::ServerHalf(const dist::Method& method, const dist::TrainingFacts& facts, const TrainerOptions& o,
                       const dist::Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner,
                       int server)
    : before_(bytes_made_here()),
      shard_(std::make_unique<dist::Shard>(plan, all, owner, server, o.device)),
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
  bytes_ = static_cast<double>(bytes_made_here() - before_);
}

void ServerHalf::save(StateDict& state) const {
  server_->save(state);
  if (optimizer_) state.save("optimizer/", *optimizer_);
}

void ServerHalf::load(const StateDict& state) {
  server_->load(state);
  if (optimizer_) optimizer_->load(state.part("optimizer/"));
}

void ServerHalf::rejoin(const std::string& checkpoint, const Manifest& manifest) {
  if (!optimizer_) return;
  StateDict state;
  optimizer_->save(state);
  std::map<std::string, Tensor> joined;
  for (const auto& [name, tensor] : state) {
    joined[name] = Tensor::zeros(tensor.shape(), tensor.dtype());
    state.set(name, joined[name]);
  }
  std::int64_t missing = 0;
  for (const dist::Shard::Unit& unit : shard_->units())
    for (const Parameter* p : unit.parameters) missing += p->info.elements;
  const auto take = [&](const StateDict& theirs, const dist::Place& place) {
    for (const dist::Shard::Unit& unit : shard_->units())
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        const ParameterInfo& info = unit.parameters[i]->info;
        const std::int64_t begin = std::max(place.workers_offset, unit.workers_offset[i]);
        const std::int64_t end =
            std::min(place.workers_offset + place.elements, unit.workers_offset[i] + info.elements);
        if (begin >= end) continue;
        missing -= end - begin;
        for (auto& [name, to] : joined) {
          const Tensor& from = theirs.at(name);
          const bool counts = name == "updates";  // one for each parameter
          const std::int64_t there = counts ? place.index : place.offset + begin - place.workers_offset;
          const std::int64_t here = counts ? info.index : info.offset + begin - unit.workers_offset[i];
          const std::int64_t n = counts ? 1 : end - begin;
          require<DataError>(from.dtype() == to.dtype() && from.shape().rank() == 1 && there + n <= from.elements(),
                             "resume: the state of a server in ", checkpoint, " is damaged. Use an older checkpoint.");
          to.range(here, n).copy_from(from.range(there, n));
        }
      }
  };
  CheckpointStore::each_server(checkpoint, manifest, [&](const StateDict& server) {
    const StateDict theirs = server.part("optimizer/");
    for (const dist::Place& place : dist::places_in(server)) take(theirs, place);
  });
  require<DataError>(missing == 0, "resume: the servers in ", checkpoint, " do not know the whole model. Use an older ",
                     "checkpoint.");
  optimizer_->load(state);
}

void Servers::take_values(const std::string& checkpoint, const Manifest& manifest) const {
  std::int64_t missing = arena_.elements();
  CheckpointStore::each_server(checkpoint, manifest, [&](const StateDict& server) {
    for (const dist::Place& place : dist::places_in(server)) {
      require<DataError>(place.workers_offset + place.elements <= arena_.values().elements(), "resume: a server in ",
                         checkpoint, " has parameters that this model has not. Use an older checkpoint.");
      arena_.values().range(place.workers_offset, place.elements).copy_from(place.values.view({-1}));
      missing -= place.elements;
    }
  });
  require<DataError>(missing == 0, "resume: the servers in ", checkpoint, " do not hold the whole model. Use an older ",
                     "checkpoint.");
  arena_.changed();
}

void Servers::join(dist::WorkerSide& side, const dist::Method& method, const TrainerOptions& options) {
  const int dedicated = worker_.servers(), N = worker_.size;
  server_rank_ = dist::servers_of(plan_, dedicated > 0 ? dedicated : N);
  const std::vector<ParameterInfo> parameters = dist::infos_of(arena_.parameters());
  if (dedicated == 0) {
    half_ = std::make_unique<ServerHalf>(method, side.facts, options, plan_, parameters, server_rank_, worker_.rank);
    side.own = &half_->server();
  } else {
    for (int& rank : server_rank_) rank += N;
    side.control = &*control_;
    meet(worker_.engine, "telling the servers of the model", worker_.rank == 0 ? dist::to_json(parameters) : "");
  }
  side.server_rank = server_rank_;
}

/// It is made on ghosts: the largest bucket's server is first in need of memory (servers_of).
double Servers::dedicated_bytes(const dist::Method& method, const dist::TrainingFacts& facts,
                                TrainerOptions options) const {
  const int servers = worker_.servers();
  if (servers == 0) return 0;
  options.device = kGhost;
  const std::vector<int> owner = dist::servers_of(plan_, servers);
  const std::vector<ParameterInfo> parameters = dist::infos_of(arena_.parameters());
  double most = 0;
  for (int server = 0; server < servers; ++server) {
    const ServerHalf half(method, facts, options, plan_, parameters, owner, server);
    most = std::max(most, half.bytes() + half.message_bytes());
  }
  return most;
}

void Servers::give_values() const {
  if (half_)
    for (const dist::Shard::Unit& unit : half_->shard().units())
      half_->shard().arena().values().range(unit.offset, unit.elements).copy_from(values(unit.bucket));
  if (!control_ || worker_.rank != 0) return;
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const std::vector<int> server{server_rank_[b]};
    const Slice<float> x = values(b).slice();
    worker_.engine.run(
        "sending a server its values",
        [&](dist::Communicator& comm) { return dist::send_floats(comm, server, x, dist::Leg{}); }, x.device());
  }
}

void Servers::audit(std::int64_t step) {
  if (half_)
    for (const dist::Shard::Unit& unit : half_->shard().units())
      require<Error>(checksum(half_->shard().values(unit)) == checksum(values(unit.bucket).slice()),
                     "audit: after step ", step, " this worker's ", unit.name,
                     " is not its server's. This is a defect.");
  if (!control_) return;
  tell({.kind = dist::Command::Kind::audit});
  const std::vector<std::string> theirs = meet(worker_.engine, "audit of the servers", "");
  for (int rank = worker_.size; rank < worker_.engine.size(); ++rank) {
    std::uint64_t hash = checksum({});
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b)
      if (server_rank_[b] == rank) hash = checksum(values(b).slice(), hash);
    require<CommError>(theirs[static_cast<std::size_t>(rank)] == concat(hash), "audit: after step ", step, " rank ",
                       rank, " serves other parameters than the workers hold. This is a defect.");
  }
}

}  // namespace laconic
