#pragma once
#include <functional>

#include "dist/engine/communicator.h"

namespace laconic::dist {

/// Runs both halves of one operation on a rank that is a worker and serves its own bucket, beside each other, until
/// both have ended; if one throws the other is ended too, and its error is thrown. They talk by the same calls as over
/// a network, which never sees these messages: so neither half knows that they live together.
///
///     worker's half  <--- queue, memory copied --->  server's half  <--- the operation's network --->  other ranks
///
/// Both halves run on the communication thread. A message waits until the other half has asked for it.
/// `serve` and `work` : given the communicator of their half
Task<> run_both(Communicator& network, const std::function<Task<>(Communicator&)>& serve,
                const std::function<Task<>(Communicator&)>& work);

}  // namespace laconic::dist
