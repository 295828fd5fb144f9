#include "dist/collective/pieces.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "dist/collective/reduce.h"

namespace laconic::dist {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths travel as they lie in memory");

template <class T>
Slice<T> message_at(Slice<T> bytes, std::size_t i) {
  return bytes.sub(i * kMessageBytes, std::min(kMessageBytes, bytes.size() - i * kMessageBytes));
}

Task<> one_after_another(Communicator& comm, int first, int count,
                         const std::function<Task<>(Communicator&, int)>& body, std::exception_ptr& error) {
  try {
    const std::unique_ptr<Communicator> channel = comm.channel(first);
    for (int j = first; j < count; j += Communicator::kChannels) co_await body(*channel, j);
  } catch (...) {
    if (error == nullptr) {
      error = std::current_exception();
      comm.end(error);
    }
  }
}

}  // namespace

int pieces_of(std::size_t bytes, int N) {
  const std::size_t piece = std::max(kMessageBytes, static_cast<std::size_t>(N) << 16);
  return std::max(1, static_cast<int>((bytes + piece - 1) / piece));
}

std::size_t messages_of(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + kMessageBytes - 1) / kMessageBytes);
}

std::vector<Slice<const std::byte>> messages_with_length(Slice<const std::byte> bytes, std::size_t most,
                                                         const std::uint64_t& length) {
  require<Error>(length == bytes.size() && bytes.size() <= most, "a message of ", bytes.size(), " bytes, announced as ",
                 length, ", where ", most, " are the most");
  std::vector<Slice<const std::byte>> messages;
  if (most > kMessageBytes) messages.push_back(Slice<const std::uint64_t>(&length, 1).bytes());
  for (std::size_t i = 0; i < messages_of(bytes.size()); ++i) messages.push_back(message_at(bytes, i));
  return messages;
}

Incoming::Incoming(Communicator& comm, int from, Slice<std::byte> room) : comm_(comm), from_(from), room_(room) {
  first_ = comm_.recv(from_, has_length() ? Slice<std::uint64_t>(&length_, 1).bytes() : room_);
}

Task<> Incoming::begins() {
  if (!has_length() || std::exchange(begun_, true)) co_return;
  const Transfer first = first_;
  co_await all_of(comm_, first, from_, sizeof length_);
  require<CommError>(length_ <= room_.size(), "rank ", from_, " announces ", length_, " bytes where ", room_.size(),
                     " are the most. Do all ranks run the same model and options?");
  for (std::size_t i = 0; i < messages_of(length_); ++i)
    coming_.push_back(comm_.recv(from_, message_at(room_.first(length_), i)));
}

Task<std::size_t> Incoming::arrives() {
  if (!has_length()) {
    const Transfer first = first_;
    const std::size_t came = co_await first;
    done_ = true;
    co_return came;
  }
  co_await begins();
  for (std::size_t i = 0; i < coming_.size(); ++i) {
    const Transfer transfer = coming_[i];
    co_await all_of(comm_, transfer, from_, message_at(room_.first(length_), i).size());
  }
  done_ = true;
  co_return static_cast<std::size_t>(length_);
}

Task<> in_pieces(Communicator& comm, int count, std::function<Task<>(Communicator&, int)> body) {
  if (count == 1) {
    co_await body(comm, 0);
    co_return;
  }
  Scheduler& scheduler = co_await CurrentScheduler{};
  std::exception_ptr error;
  std::vector<Task<>> running;
  for (int first = 0; first < std::min(Communicator::kChannels, count); ++first) {
    running.push_back(one_after_another(comm, first, count, body, error));
    running.back().start(scheduler);
  }
  for (const Task<>& task : running) co_await task;
  if (error) std::rethrow_exception(error);
}

}  // namespace laconic::dist
