#include "dist/server/rounds.h"

namespace laconic::dist {

Rounds::~Rounds() {
  if (!tickets_.empty()) engine_.halt();
}

void Rounds::begin(const StepContext& context) {
  for (const Shard::Unit& unit : server_.shard().units())
    tickets_.push_back(engine_.submit(
        {.name = "serving " + unit.name,
         .slot = first_slot_ + static_cast<int>(unit.bucket),
         .priority = unit.priority,
         .body = [this, &unit, context](Communicator& comm) { return server_.serve(comm, unit, context); }}));
}

void Rounds::wait() {
  for (const Ticket& ticket : tickets_) engine_.wait(ticket);
  tickets_.clear();
}

}  // namespace laconic::dist
