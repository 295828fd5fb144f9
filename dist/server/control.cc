#include "dist/server/control.h"

#include <numeric>

#include "dist/collective/reduce.h"
#include "dist/server/leg.h"

namespace laconic::dist {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 30;

Task<> send_command(Communicator& comm, Command command, int first, int end) {
  std::vector<int> servers(static_cast<std::size_t>(end - first));
  std::iota(servers.begin(), servers.end(), first);
  const Slice<const std::byte> bytes = Slice<const Command>(&command, 1).bytes();
  co_await send_bytes(comm, servers, bytes, Leg{});
}

}  // namespace

void ServerControl::tell(const Command& command) {
  engine_.submit({.name = "telling the servers",
                  .slot = slot_,
                  .priority = 1 << 30,
                  .body = [command, first = workers_, end = engine_.size()](Communicator& comm) {
                    return send_command(comm, command, first, end);
                  }});
}

Command ServerControl::next(bool patiently) {
  Command command;
  const Slice<std::byte> bytes = Slice<Command>(&command, 1).bytes();
  const Ticket ticket = engine_.submit({.name = "waiting to be told what to do",
                                        .slot = slot_,
                                        .priority = 1 << 30,
                                        .body = [bytes](Communicator& comm) { return recv_exactly(comm, 0, bytes); }});
  engine_.wait(ticket, patiently);
  require<CommError>(command.kind <= Command::Kind::end,
                     "server: rank 0 sends a command that this version does not know (",
                     static_cast<std::uint32_t>(command.kind), "). Start all ranks with the same program.");
  return command;
}

void send_text(Engine& engine, int to, const std::string& text) {
  std::uint64_t size = text.size();
  const Slice<const std::byte> length = Slice<const std::uint64_t>(&size, 1).bytes();
  const Slice<const std::byte> bytes = Slice<const char>(text.data(), text.size()).bytes();
  engine.run("telling a server of the model", [&](Communicator& comm) -> Task<> {
    co_await comm.send(to, length);
    co_await comm.send(to, bytes);
  });
}

std::string recv_text(Engine& engine, int from) {
  std::uint64_t size = 0;
  std::string text;
  const Slice<std::byte> length = Slice<std::uint64_t>(&size, 1).bytes();
  engine.run("hearing of the model", [&](Communicator& comm) -> Task<> {
    co_await recv_exactly(comm, from, length);
    require<CommError>(size <= kMaxTextBytes, "server: rank ", from, " announces a text of ", size,
                       " bytes. Start all ranks with the same program.");
    text.resize(size);
    const Slice<std::byte> bytes = Slice<char>(text.data(), text.size()).bytes();
    co_await recv_exactly(comm, from, bytes);
  });
  return text;
}

void send_floats(Engine& engine, int to, Slice<const float> x) {
  const std::vector<int> one{to};
  engine.run("sending a server its values", [&](Communicator& comm) { return send_floats(comm, one, x, Leg{}); },
             x.device());
}

void recv_floats(Engine& engine, int from, Slice<float> x) {
  engine.run("receiving values", [&](Communicator& comm) { return recv_floats(comm, from, x, Leg{}); }, x.device());
}

}  // namespace laconic::dist
