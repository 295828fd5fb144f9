#include "dist/transport/transport.h"

#include <algorithm>

#include "dist/hop_trace.h"

namespace laconic::dist {

void Transport::post(Request& request, int priority) {
  if (staging_.takes(request)) [[unlikely]]
    return staging_.post(request, priority);
  post_from_host(request, priority);
}

void Transport::post_from_host(Request& request, int priority) {
  if (request.kind == Request::Kind::recv) return start_recv(request);
  const auto same_order = [&](const Queued& q) {
    return q.request->peer == request.peer && q.request->slot == request.slot;
  };
  const bool waits_for_none = window_.messages == 0 || (request.size <= window_.small_bytes &&
                                                        std::none_of(queue_.begin(), queue_.end(), same_order));
  if (waits_for_none) return hand_over(request);
  const auto behind = std::upper_bound(queue_.begin(), queue_.end(), priority,
                                       [](int p, const Queued& other) { return p > other.priority; });
  queue_.insert(behind, {&request, priority});
  refill();
}

void Transport::post_native(Request& request, NativeCollectives& collectives) {
  if (request.device.kind == Device::Kind::cuda)
    staging_.post(request, 0, &collectives);
  else
    collectives.allreduce(request);
}

void Transport::hand_over(Request& request) {
  count_sent(request.size);
  if (const Request& told = request.carries ? *request.carries : request; told.hops) told.hops->handed_over(told);
  try {
    start_send(request);
  } catch (...) {
    request.complete(0, std::current_exception());
  }
}

/// Hands over what now has a place. Comes after every call that may have completed sends, before their coroutines go
/// on.
void Transport::refill() {
  const auto now = [] { return Clock::now(); };
  if (std::erase_if(placed_, [](const Request* r) { return r->done; }) > 0) moved_ = now();
  while (!queue_.empty()) {
    const bool large = queue_.front().request->size > window_.small_bytes;  // small ones are here to keep their order
    if (large && static_cast<int>(placed_.size()) >= window_.messages) {
      if (std::chrono::duration<double>(now() - moved_).count() < window_.stall_seconds) return;
      placed_.erase(placed_.begin());
    }
    Request& next = *queue_.front().request;
    queue_.pop_front();
    hand_over(next);
    if (!large) continue;
    moved_ = now();
    if (!next.done) placed_.push_back(&next);
  }
}

void Transport::cancel(Request& request) {
  if (!staging_.cancel(request)) cancel_from_host(request);
}

void Transport::cancel_from_host(Request& request) {
  if (std::erase_if(queue_, [&](const Queued& q) { return q.request == &request; }) > 0) return;
  std::erase(placed_, &request);
  cancel_started(request);
}

int Transport::progress() {
  const int count = poll();
  refill();
  return count + staging_.advance();
}

void Transport::wait(double at_most_seconds) {
  if (staging_.copying()) at_most_seconds = std::min(at_most_seconds, kDevicePollSeconds);
  sleep(queue_.empty() ? at_most_seconds : std::min(at_most_seconds, window_.stall_seconds));
  refill();
}

TransportCommunicator::TransportCommunicator(Transport& transport, int slot, int priority, Device device)
    : transport_(transport),
      rank_(transport.rank()),
      slot_(slot * kSlotsPerOperation),
      priority_(priority),
      device_(device) {}

TransportCommunicator::TransportCommunicator(TransportCommunicator& parent, std::vector<int> group, int rank, int slot)
    : transport_(parent.transport_),
      parent_(&parent),
      group_(std::move(group)),
      rank_(rank),
      slot_(slot),
      priority_(parent.priority_),
      device_(parent.device_),
      ended_(parent.ended_),
      trace_(parent.trace_) {
  parent.children_.push_back(this);
}

TransportCommunicator::~TransportCommunicator() {
  cancel();
  if (parent_ != nullptr) std::erase(parent_->children_, this);
  for (TransportCommunicator* child : children_) child->parent_ = nullptr;
}

void TransportCommunicator::require_named(Device device) const {
  require<Error>(device.kind != Device::Kind::cuda || device == device_, "communicator: memory on ", device,
                 " in an operation on ", device_,
                 ", which does not wait for that device. Name it in Operation::device.");
}

/// A request that could not even be posted (its device is broken) is in nobody's hands: nobody else would complete it.
template <class F>
void TransportCommunicator::begin(Request& request, F post) {
  try {
    post();
  } catch (...) {
    if (!request.done) request.complete(0, std::current_exception());
  }
}

Transfer TransportCommunicator::post(Request::Kind kind, int peer, Slice<std::byte> memory) {
  require<CommError>(peer >= 0 && peer < this->size(), "communicator: rank ", rank_, " of ", this->size(),
                     " was asked to talk to rank ", peer, ". Ranks are 0 to ", this->size() - 1, ".");
  require_named(memory.device());
  const int world = group_.empty() ? peer : group_[static_cast<std::size_t>(peer)];
  Request& request = pool_.take(kind, world, slot_, memory);
  if (ended_) {
    request.complete(0, ended_);
  } else {
    if (trace_) trace_->posted(request);
    begin(request, [&] { transport_.post(request, priority_); });
  }
  return Transfer(request);
}

Transfer TransportCommunicator::send(int to, Slice<const std::byte> bytes) {
  // A request describes both directions; the memory of a send is only read.
  return post(Request::Kind::send, to, {const_cast<std::byte*>(bytes.data()), bytes.size(), bytes.device()});
}

Transfer TransportCommunicator::recv(int from, Slice<std::byte> bytes) {
  return post(Request::Kind::recv, from, bytes);
}

NativeCollectives& TransportCommunicator::native() const {
  auto* const native = dynamic_cast<NativeCollectives*>(&transport_);
  require<UsageError>(
      native != nullptr && group_.empty(),
      "allreduce mpi: workers that are threads of one process, and groups of ranks, have no collectives "
      "of MPI. Start the program by laconic launch, or use --allreduce ring.");
  return *native;
}

Transfer TransportCommunicator::native_allreduce(Slice<float> x) {
  NativeCollectives& collectives = native();
  require_named(x.device());
  // Prepared by operation, not by channel.
  Request& request = pool_.take(Request::Kind::send, rank_, slot_ / kSlotsPerOperation, x.bytes());
  if (trace_) trace_->not_counted();
  begin(request, [&] { transport_.post_native(request, collectives); });
  return Transfer(request);
}

std::unique_ptr<Communicator> TransportCommunicator::subgroup(std::span<const int> ranks) {
  std::vector<int> group;
  int own = -1;
  for (int r : ranks) {
    require<CommError>(r >= 0 && r < size(), "subgroup: there is no rank ", r, " among ", size(), ".");
    if (r == rank_) own = static_cast<int>(group.size());
    group.push_back(group_.empty() ? r : group_[static_cast<std::size_t>(r)]);
  }
  require<CommError>(own >= 0, "subgroup: rank ", rank_, " is not a member of the group it asked for.");
  return std::unique_ptr<Communicator>(new TransportCommunicator(*this, std::move(group), own, slot_));
}

std::unique_ptr<Communicator> TransportCommunicator::channel(int index) {
  require<Error>(index >= 0 && index < kChannels, "communicator: there is no channel ", index, " among ", kChannels,
                 ".");
  require<Error>(slot_ % kSlotsPerOperation == 0, "communicator: a channel has no channels of its own.");
  return std::unique_ptr<Communicator>(new TransportCommunicator(*this, group_, rank_, slot_ + 1 + index));
}

void TransportCommunicator::end(std::exception_ptr error) {
  ended_ = error;
  for (TransportCommunicator* child : children_) child->end(error);
  for (Request* request : pool_.live()) {
    if (request->done) continue;
    transport_.cancel(*request);
    request->complete(0, error);
  }
}

void TransportCommunicator::cancel() {
  for (TransportCommunicator* child : children_) child->cancel();
  while (!pool_.live().empty()) {
    Request& request = *pool_.live().back();
    if (!request.done) transport_.cancel(request);
    pool_.give_back(request);
  }
}

TransportCommunicator::Waiting TransportCommunicator::waiting() const {
  Waiting all{.received_bytes = pool_.received_bytes(), .sent_bytes = pool_.sent_bytes()};
  for (const Request* r : pool_.live()) {
    if (r->done) continue;
    if (all.count++ > 0) continue;
    all.first = r->kind == Request::Kind::recv
                    ? concat("waits for rank ", r->peer, " (up to ", r->size, " bytes to come)")
                    : concat("sends ", r->size, " bytes that rank ", r->peer, " does not take");
  }
  for (const TransportCommunicator* child : children_) {
    const Waiting theirs = child->waiting();
    if (all.first.empty()) all.first = theirs.first;
    all.count += theirs.count;
    all.received_bytes += theirs.received_bytes;
    all.sent_bytes += theirs.sent_bytes;
  }
  return all;
}

std::string TransportCommunicator::waits_for() const {
  const Waiting all = waiting();
  if (all.count == 0) return "";
  return concat(all.first, all.count > 1 ? concat(" and ", all.count - 1, " more transfers") : "", "; ",
                all.received_bytes, " bytes came and ", all.sent_bytes, " went so far");
}

}  // namespace laconic::dist
