#include "dist/server/rounds.h"

namespace laconic::dist {

Rounds::~Rounds() {
  if (!tickets_.empty()) engine_.halt();
}

void Rounds::submit(const std::string& what, const std::function<Task<>(Communicator&, const Shard::Unit&)>& body) {
  for (const Shard::Unit& unit : server_.shard().units())
    tickets_.push_back(engine_.submit({.name = what + unit.name,
                                       .slot = first_slot_ + static_cast<int>(unit.bucket),
                                       .priority = unit.priority,
                                       .device = server_.shard().arena().values().device(),
                                       .body = [body, &unit](Communicator& comm) { return body(comm, unit); }}));
}

void Rounds::begin(const StepContext& context) {
  submit("serving ",
         [this, context](Communicator& comm, const Shard::Unit& unit) { return server_.serve(comm, unit, context); });
  if (JointNorm* norm = server_.norm())
    tickets_.push_back(engine_.submit(norm->operation(norm_slot_, context.step)));
}

void Rounds::show() {
  submit("showing ", [this](Communicator& comm, const Shard::Unit& unit) { return server_.show(comm, unit); });
}

void Rounds::wait() {
  for (const Ticket& ticket : tickets_) engine_.wait(ticket);
  tickets_.clear();
}

}  // namespace laconic::dist
