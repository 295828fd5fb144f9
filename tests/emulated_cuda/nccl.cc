#include "nccl.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

namespace {

struct Part {  // of one rank in an operation
  const float* from = nullptr;
  float* to = nullptr;
  cudaStream_t stream = nullptr;
  std::uint64_t at = 0;
  bool posted = false, reached = false;
};
struct Operation {
  explicit Operation(std::size_t ranks, std::size_t count) : count(count), parts(ranks) {}
  std::size_t count;
  std::vector<Part> parts;
  bool done = false;
};
struct Side {  // of a message, at its sender or its receiver
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
  std::uint64_t at = 0;
  bool posted = false, reached = false;
};
struct Message {
  Side send, receive;
  bool passed = false;
};
/// A message, and whether this rank sends it.
using End = std::pair<std::shared_ptr<Message>, bool>;
Side& own(const End& end) { return end.second ? end.first->send : end.first->receive; }
Side& other(const End& end) { return end.second ? end.first->receive : end.first->send; }

struct Group {
  explicit Group(int ranks) : ranks(ranks), aborted(static_cast<std::size_t>(ranks)) {}
  std::mutex mutex;  // of what follows
  const int ranks;
  std::set<int> devices;
  int came = 0;
  std::vector<bool> aborted;  // by rank
  std::map<std::uint64_t, std::shared_ptr<Operation>> operations;
  std::map<std::tuple<int, int, std::uint64_t>, std::shared_ptr<Message>> messages;  // from, to, which
};

std::mutex& meeting() {
  static std::mutex& m = *new std::mutex;
  return m;
}
std::map<std::uint64_t, std::shared_ptr<Group>>& groups() {
  static auto& all = *new std::map<std::uint64_t, std::shared_ptr<Group>>;
  return all;
}

struct Id {
  std::uint64_t process, number;
};

std::atomic<emulated_cuda::NcclFault> fault{emulated_cuda::NcclFault::none};

void add_up(Operation& o) {
  for (std::size_t i = 0; i < o.count; ++i) {
    float sum = o.parts[0].from[i];
    for (std::size_t r = 1; r < o.parts.size(); ++r) sum += o.parts[r].from[i];
    for (const Part& part : o.parts) part.to[i] = sum;
  }
}

/// In the stream of `rank`: whether the operation has happened.
bool come_to(Group& group, Operation& o, std::size_t rank) {
  std::vector<std::pair<cudaStream_t, std::uint64_t>> others;
  {
    std::lock_guard lock(group.mutex);
    o.parts[rank].reached = true;
    if (group.aborted[rank] || o.done) return true;
    for (const Part& part : o.parts)
      if (part.posted && !part.reached) others.emplace_back(part.stream, part.at);
  }
  for (const auto& [stream, at] : others) emulated_cuda::bring(stream, at);
  std::lock_guard lock(group.mutex);
  if (o.done) return true;
  for (const Part& part : o.parts)
    if (!part.reached) return false;
  add_up(o);
  o.done = true;
  return true;
}

/// Lets messages pass that both streams have come to; whether all have. With group.mutex held.
bool pass(const std::vector<End>& ends) {
  bool all = true;
  for (const End& end : ends) {
    Message& m = *end.first;
    if (!m.passed && m.send.reached && m.receive.reached) {
      if (m.send.bytes > 0) std::memcpy(m.receive.to, m.send.from, m.send.bytes);
      m.passed = true;
    }
    all = all && m.passed;
  }
  return all;
}

/// In the stream of `rank`: whether all messages of a group have passed.
bool come_to(Group& group, const std::vector<End>& ends, std::size_t rank) {
  std::vector<std::pair<cudaStream_t, std::uint64_t>> others;
  {
    std::lock_guard lock(group.mutex);
    if (group.aborted[rank]) return true;
    for (const End& end : ends) own(end).reached = true;
    if (pass(ends)) return true;
    for (const End& end : ends)
      if (const Side& side = other(end); side.posted && !side.reached) others.emplace_back(side.stream, side.at);
  }
  for (const auto& [stream, at] : others) emulated_cuda::bring(stream, at);
  std::lock_guard lock(group.mutex);
  return group.aborted[rank] || pass(ends);
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank;
  std::uint64_t next = 0;
  std::map<int, std::uint64_t> sent{}, received{};  // messages, by the other rank
  std::function<ncclResult_t()> in_progress{};
  bool connected = false;
};

namespace {

struct Call {
  ncclComm_t comm;
  cudaStream_t stream;
  int peer;
  Side side;
  bool sends;
};
thread_local std::vector<Call> calls;  // of the group that is open
thread_local int depth = 0;

/// f asks the stream for something: at once, or where it is the first, when the communicator has been asked twice how
/// far it is.
ncclResult_t connected(ncclComm_t comm, std::function<ncclResult_t()> f) {
  if (comm->in_progress) return ncclInvalidUsage;
  if (std::exchange(comm->connected, true)) return f();
  comm->in_progress = [f = std::move(f), asked = 0]() mutable { return ++asked < 2 ? ncclInProgress : f(); };
  return ncclInProgress;
}

ncclResult_t ask_for(ncclComm_t comm, cudaStream_t stream, const std::vector<Call>& all) {
  const std::shared_ptr<Group> group = comm->group;
  const int rank = comm->rank;
  std::lock_guard lock(group->mutex);
  std::vector<End> ends;
  for (const Call& call : all) {
    const std::uint64_t number = (call.sends ? comm->sent : comm->received)[call.peer]++;
    const std::tuple key(call.sends ? rank : call.peer, call.sends ? call.peer : rank, number);
    auto& there = group->messages[key];
    if (!there) there = std::make_shared<Message>();
    const End& end = ends.emplace_back(there, call.sends);
    own(end) = call.side;
    own(end).posted = true;
    if (!other(end).posted) continue;
    group->messages.erase(key);
    const Message& m = *end.first;
    if (m.send.bytes == m.receive.bytes) continue;
    std::fprintf(stderr, "emulated NCCL: rank %d sends %zu bytes where rank %d receives %zu.\n", std::get<0>(key),
                 m.send.bytes, std::get<1>(key), m.receive.bytes);
    std::abort();
  }
  const auto at = emulated_cuda::enqueue_when(
      stream, [group, rank, ends] { return come_to(*group, ends, static_cast<std::size_t>(rank)); });
  for (const End& end : ends) {
    own(end).stream = stream;
    own(end).at = at;
  }
  return ncclSuccess;
}

ncclResult_t close_group() {
  const std::vector<Call> all = std::exchange(calls, {});
  if (all.empty()) return ncclSuccess;
  const ncclComm_t comm = all[0].comm;
  const cudaStream_t stream = all[0].stream;
  for (const Call& call : all)
    if (call.comm != comm || call.stream != stream) return ncclInvalidUsage;
  return connected(comm, [=] { return ask_for(comm, stream, all); });
}

ncclResult_t add_call(ncclDataType_t type, Call call) {
  if (type != ncclUint8 || call.peer < 0 || call.peer >= call.comm->group->ranks) return ncclInvalidArgument;
  calls.push_back(call);
  return depth > 0 ? ncclSuccess : close_group();
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t count = 0;
  std::lock_guard lock(meeting());
  const Id made{static_cast<std::uint64_t>(getpid()), ++count};
  *id = {};
  std::memcpy(id->internal, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  Id made;
  std::memcpy(&made, id.internal, sizeof made);
  if (made.process != static_cast<std::uint64_t>(getpid())) return ncclSystemError;
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(meeting());
    auto& there = groups()[made.number];
    if (!there) there = std::make_shared<Group>(ranks);
    group = there;
  }
  int device = 0;
  cudaGetDevice(&device);
  const std::lock_guard lock(group->mutex);
  group->devices.insert(device);
  ++group->came;
  *comm = new ncclComm{group, rank};
  (*comm)->in_progress = [group] {
    const std::lock_guard alone(group->mutex);
    if (group->came < group->ranks) return ncclInProgress;
    return static_cast<int>(group->devices.size()) == group->ranks ? ncclSuccess : ncclInvalidUsage;
  };
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = fault == emulated_cuda::NcclFault::fails ? ncclRemoteError : ncclSuccess;
  if (*state != ncclSuccess || !comm->in_progress) return ncclSuccess;
  *state = fault == emulated_cuda::NcclFault::never_joins ? ncclInProgress : comm->in_progress();
  if (*state != ncclInProgress) comm->in_progress = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->in_progress) return ncclInvalidUsage;
  comm->in_progress = [] { return ncclSuccess; };
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    std::lock_guard lock(comm->group->mutex);
    comm->group->aborted[static_cast<std::size_t>(comm->rank)] = true;
  }
  return ncclCommDestroy(comm);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || operation != ncclSum) return ncclInvalidArgument;
  if (depth > 0) return ncclInvalidUsage;
  const std::shared_ptr<Group> group = comm->group;
  const auto rank = static_cast<std::size_t>(comm->rank);
  while (fault == emulated_cuda::NcclFault::hangs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(group->mutex);
    if (group->aborted[rank]) return ncclInvalidUsage;
  }
  return connected(comm, [=] {
    const std::lock_guard lock(group->mutex);
    auto& there = group->operations[comm->next++];
    if (!there) there = std::make_shared<Operation>(static_cast<std::size_t>(group->ranks), count);
    if (there->count != count) return ncclInvalidArgument;  // NCCL would hang, or worse
    const auto at = emulated_cuda::enqueue_when(stream, [group, rank, o = there] { return come_to(*group, *o, rank); });
    there->parts[rank] = {static_cast<const float*>(from), static_cast<float*>(to), stream, at, true, false};
    return ncclSuccess;
  });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_call(type, {comm, stream, peer, {.from = static_cast<const std::byte*>(from), .bytes = count}, true});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_call(type, {comm, stream, peer, {.to = static_cast<std::byte*>(to), .bytes = count}, false});
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  return --depth > 0 ? ncclSuccess : close_group();
}

void emulated_cuda::break_nccl(NcclFault now) { fault = now; }
