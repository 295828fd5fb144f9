#include "dist/server/control.h"

#include <numeric>

namespace laconic::dist {
namespace {

Task<> send_command(Communicator& comm, Command command, int first, int end) {
  std::vector<int> servers(static_cast<std::size_t>(end - first));
  std::iota(servers.begin(), servers.end(), first);
  const Slice<const std::byte> bytes = Slice<const Command>(&command, 1).bytes();
  co_await send_bytes(comm, servers, bytes, Leg{});
}

}  // namespace

void ServerControl::tell(const Command& command) {
  if (engine_.rank() != 0 || dismissed_) return;
  dismissed_ = command.kind == Command::Kind::end;
  engine_.submit({.name = "telling the servers",
                  .slot = slot_,
                  .priority = 1 << 30,
                  .body = [command, first = workers_, end = engine_.size()](Communicator& comm) {
                    return send_command(comm, command, first, end);
                  }});
}

Command ServerControl::next() {
  Command command;
  const Slice<std::byte> bytes = Slice<Command>(&command, 1).bytes();
  const Ticket ticket = engine_.submit({.name = "waiting to be told what to do",
                                        .slot = slot_,
                                        .priority = 1 << 30,
                                        .body = [bytes](Communicator& comm) { return recv_exactly(comm, 0, bytes); }});
  engine_.wait(ticket);
  require<CommError>(command.kind <= Command::Kind::end,
                     "server: rank 0 sends a command that this version does not know (",
                     static_cast<std::uint32_t>(command.kind), "). Start all ranks with the same program.");
  return command;
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
  if (JointNorm* norm = server_.norm()) tickets_.push_back(engine_.submit(norm->operation(norm_slot_, context.step)));
}

void Rounds::show() {
  submit("showing ", [this](Communicator& comm, const Shard::Unit& unit) { return server_.show(comm, unit); });
}

void Rounds::wait() {
  for (const Ticket& ticket : tickets_) engine_.wait(ticket);
  tickets_.clear();
}

}  // namespace laconic::dist
