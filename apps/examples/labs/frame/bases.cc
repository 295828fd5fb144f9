// What the strategies of the labs begin with.
#include "../labs.h"

namespace lab {

Buckets::Buckets(const WorkerSide& side)
    : arena_(side.arena),
      engine_(side.engine),
      plan_(side.plan),
      update_(side.update),
      scale_(side.facts.mean ? 1.0 / side.engine.size() : 1.0),
      first_slot_(side.engine.reserve_slots(static_cast<int>(side.plan.buckets.size()))),
      context_of_(side.plan.buckets.size()) {
  require<UsageError>(arena_.values().device() == kCpu, "the labs run on the CPU (`device`): leave it out");
}

void Buckets::begin_step(const StepContext& context) {
  context_ = context;
  context_.gradient_scale = scale_;
}

std::size_t Buckets::bucket_of(const Parameter& p) const {
  return static_cast<std::size_t>(plan_.bucket_of[static_cast<std::size_t>(p.info.index)]);
}

Slice<float> Buckets::gradients_of(std::size_t b) const {
  const Bucket& bucket = plan_.buckets[b];
  return arena_.gradients().slice().sub(static_cast<std::size_t>(bucket.offset),
                                        static_cast<std::size_t>(bucket.elements));
}

Ticket Buckets::submit(std::size_t b, std::function<Task<>(Communicator&)> work) {
  context_of_[b] = context_;
  return engine_.submit({.name = "exchange of " + plan_.buckets[b].name,
                         .slot = first_slot_ + static_cast<int>(b),
                         .priority = static_cast<int>(b),
                         .body = std::move(work)});
}

void Buckets::update(std::size_t b) {
  const Bucket& bucket = plan_.buckets[b];
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    Parameter& p = *arena_.parameters()[static_cast<std::size_t>(i)];
    update_(p, p.all_rows(), context_of_[b]);
  }
}

Local::Local(const WorkerSide& side)
    : NoSync(side.arena, side.update), arena_(side.arena), engine_(side.engine), joint_(side.arena) {
  require<UsageError>(arena_.values().device() == kCpu, "the labs run on the CPU (`device`): leave it out");
}

void Local::begin_step(const StepContext& context) {
  step_ = context.step;
  NoSync::begin_step(context);
}

void Local::show_joint_model() {
  const Tensor& mean = arena_.gradients();  // nobody needs them after a flush
  mean.copy_from(arena_.values());
  engine_.run("joint model", [&](Communicator& comm) { return ring_allreduce(comm, mean.slice()); });
  raw::scale(mean, 1.0f / static_cast<float>(engine_.size()));
  joint_.show();
}

Task<> gather(Communicator& comm, const std::vector<Element>& mine, std::vector<std::vector<Element>>& all) {
  const std::size_t bytes = mine.size() * sizeof(Element);
  all.resize(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = mine;
  std::vector<std::pair<int, Transfer>> coming;
  std::vector<Transfer> going;
  for (int i = 1; i < comm.size(); ++i) {
    const int from = (comm.rank() + comm.size() - i) % comm.size(), to = (comm.rank() + i) % comm.size();
    std::vector<Element>& theirs = all[static_cast<std::size_t>(from)];
    theirs.resize(mine.size());
    coming.emplace_back(from, comm.recv(from, slice(theirs).bytes()));
    going.push_back(comm.send(to, slice(mine).bytes()));
  }
  for (const auto& [from, transfer] : coming) {
    const Transfer receiving = transfer;
    co_await all_of(comm, receiving, from, bytes);
  }
  for (const Transfer sending : going) co_await sending;
}

}  // namespace lab
