#include "dist/collective/pieces.h"

#include <algorithm>
#include <exception>
#include <vector>

namespace laconic::dist {
namespace {

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
  const std::size_t piece = std::max(std::size_t{256} << 10, static_cast<std::size_t>(N) << 16);
  return std::max(1, static_cast<int>((bytes + piece - 1) / piece));
}

std::size_t messages_of(std::size_t bytes) {
  constexpr std::size_t message = 256 << 10;
  return std::max<std::size_t>(1, (bytes + message - 1) / message);
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
