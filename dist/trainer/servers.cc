// Parameter servers as a worker's trainer sees them.
#include "dist/fingerprint.h"
#include "dist/trainer/internals.h"
#include "dist/trainer/server_half.h"

namespace laconic {

/// Who serves which bucket, and what a worker's half needs to meet its servers; if they are colocated, this rank's.
void Trainer::give_servers_their_parts(dist::WorkerSide& side) {
  const int dedicated = worker_.servers(), N = worker_.size;
  server_rank_ = dist::servers_of(plan_, dedicated > 0 ? dedicated : N);
  if (dedicated == 0) {
    half_ = std::make_unique<ServerHalf>(*method_, facts_, o_, plan_, dist::infos_of(arena_->parameters()),
                                         server_rank_, worker_.rank);
    side.own = &half_->server();
  } else {
    for (int& rank : server_rank_) rank += N;
    side.shows = [this] { tell_servers({.kind = dist::Command::Kind::show}); };
    side.begins = [this](const dist::StepContext& context) {
      tell_servers(
          {.kind = dist::Command::Kind::step, .step = context.step, .lr = context.lr, .scale = context.gradient_scale});
    };
    if (worker_.rank == 0) {
      const std::string parameters = dist::to_json(dist::infos_of(arena_->parameters())), plan = plan_.json();
      for (int server = N; server < N + dedicated; ++server)
        for (const std::string& text : {parameters, plan}) dist::send_text(worker_.engine, server, text);
    }
  }
  side.server_rank = server_rank_;
}

/// All workers hold rank 0's parameters: now the servers get theirs.
void Trainer::give_servers_their_values() {
  const auto values = [&](std::size_t bucket) {
    const dist::Bucket& b = plan_.buckets[bucket];
    return arena_->values().range(b.offset, b.elements);
  };
  if (half_)
    for (const dist::Shard::Unit& unit : half_->shard().units())
      half_->shard().arena().values().range(unit.offset, unit.elements).copy_from(values(unit.bucket));
  if (!control_ || worker_.rank != 0) return;
  for (int k = 0; k < worker_.servers(); ++k)
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b)
      if (server_rank_[b] == worker_.size + k) dist::send_floats(worker_.engine, worker_.size + k, values(b).slice());
}

void Trainer::tell_servers(const dist::Command& command) {
  if (!control_ || worker_.rank != 0 || dismissed_) return;
  control_->tell(command);
  dismissed_ = command.kind == dist::Command::Kind::end;
}

/// Whether the servers hold the bits that the workers hold.
void Trainer::audit_servers() {
  if (half_) {
    for (const dist::Shard::Unit& unit : half_->shard().units()) {
      const dist::Bucket& b = plan_.buckets[unit.bucket];
      require<Error>(
          checksum(half_->shard().values(unit)) == checksum(arena_->values().range(b.offset, b.elements).slice()),
          "audit: after step ", step_, " this worker's ", b.name, " is not its server's. This is a defect.");
    }
  }
  if (!control_ || worker_.rank != 0 || dismissed_) return;
  tell_servers({.kind = dist::Command::Kind::audit});
  for (int k = 0; k < worker_.servers(); ++k) {
    std::uint64_t hash = checksum({});
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      if (server_rank_[b] != worker_.size + k) continue;
      const dist::Bucket& bucket = plan_.buckets[b];
      for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
        const Parameter& p = *arena_->parameters()[static_cast<std::size_t>(i)];
        hash = checksum(
            bucket.chunk() ? p.value().rows(bucket.rows.first, bucket.rows.count).slice() : p.value().slice(), hash);
      }
    }
    const std::string theirs = dist::recv_text(worker_.engine, worker_.size + k);
    require<CommError>(theirs == concat(hash), "audit: after step ", step_, " rank ", worker_.size + k,
                       " serves other parameters than the workers hold. This is a defect.");
  }
}

}  // namespace laconic
