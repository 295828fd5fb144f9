#include "dist/server/joint_norm.h"

#include "dist/collective/meeting.h"

namespace laconic::dist {

JointNorm::Step& JointNorm::at(std::int64_t step) {
  const auto [it, fresh] = steps_.try_emplace(step);
  if (fresh) {
    it->second.squares.resize(o_.buckets);
    it->second.complete = o_.own == 0;
    // A step begins when its worker has all that the one before has sent, so nobody waits for an older one.
    std::erase_if(steps_, [&](const auto& older) { return older.first < step && older.second.known; });
  }
  return it->second;
}

void JointNorm::add(std::int64_t number, std::size_t bucket, double sum_of_squares) {
  Step& step = at(number);
  step.squares[bucket] = sum_of_squares;
  if (++step.added != o_.own) return;
  step.complete = true;
  step.for_own.wake_all();
}

Task<double> JointNorm::scale(std::int64_t number, double gradient_scale) {
  Step& step = at(number);
  const Waiting::Wait known = step.for_all.unless(step.known);
  co_await known;
  co_return o_.limit(gradient_scale, step.sum);
}

Task<> JointNorm::exchange(Communicator& comm, std::int64_t number) {
  Step& step = at(number);
  const Waiting::Wait complete = step.for_own.unless(step.complete);
  co_await complete;
  if (o_.servers.size() > 1) {
    const std::unique_ptr<Communicator> servers = comm.subgroup(o_.servers);
    const Slice<double> squares = slice(step.squares);
    co_await sum_over_ranks(*servers, squares);  // one server's number is not zero, for each bucket
  }
  for (const double s : step.squares) step.sum += s;
  step.known = true;
  step.for_all.wake_all();
}

}  // namespace laconic::dist
