#include "dist/sync/ps.h"

#include <utility>

#include "dist/server/loopback.h"

namespace laconic::dist {

PsSync::PsSync(const ParameterArena& arena, Engine& engine, Plan plan, Options options)
    : BucketSync(arena, engine, std::move(plan), options.name, options.overlap, options.workers, options.mean),
      o_(std::move(options)) {
  require<Error>(o_.server_rank.size() == this->plan().buckets.size(), o_.name, ": servers are named for ",
                 o_.server_rank.size(), " buckets of ", this->plan().buckets.size(), ".");
}

void PsSync::begin_step(const StepContext& context) {
  BucketSync::begin_step(context);
  began_ = false;
}

void PsSync::gradient_ready(Parameter& parameter, Rows rows) {
  if (!std::exchange(began_, true) && o_.begins && joins(context())) o_.begins(context());
  BucketSync::gradient_ready(parameter, rows);
}

Operation PsSync::exchange(std::size_t b) {
  return {.name = "push and pull of " + bucket(b).name,
          .body = [this, b, context = context_of(b)](Communicator& comm) { return round(comm, b, context); }};
}

Task<> PsSync::round(Communicator& comm, std::size_t b, StepContext context) {
  if (!serves(b) || !joins(context)) {
    co_await talk(comm, b, context);
    co_return;
  }
  const std::function<Task<>(Communicator&)> serve = [this, b, &context](Communicator& half) {
    return o_.own->serve(half, *o_.own->shard().unit_of(b), context);
  };
  const std::function<Task<>(Communicator&)> work = [this, b, &context](Communicator& half) {
    return talk(half, b, context);
  };
  co_await run_both(comm, serve, work);
}

Task<> PsSync::show(Communicator& comm, std::size_t b) {
  const Slice<float> here = gradients_of(b);
  const int server = server_of(b);
  if (!serves(b)) {
    co_await recv_floats(comm, server, here, Leg{});
    co_return;
  }
  const std::function<Task<>(Communicator&)> serve = [this, b](Communicator& half) {
    return o_.own->show(half, *o_.own->shard().unit_of(b));
  };
  const std::function<Task<>(Communicator&)> work = [server, here](Communicator& half) {
    return recv_floats(half, server, here, Leg{});
  };
  co_await run_both(comm, serve, work);
}

void PsSync::pull_whole() {
  if (o_.shows) o_.shows();
  std::vector<Ticket> tickets;
  for (std::size_t b = 0; b < plan().buckets.size(); ++b)
    tickets.push_back(engine().submit({.name = "pulling all of " + bucket(b).name,
                                       .slot = first_slot() + static_cast<int>(b),
                                       .priority = bucket(b).priority,
                                       .body = [this, b](Communicator& comm) { return show(comm, b); }}));
  for (const Ticket& ticket : tickets) engine().wait(ticket);
}

Task<> PsSync::talk(Communicator& comm, std::size_t b, StepContext context) {
  const std::vector<int> server{server_of(b)};
  const Slice<float> here = gradients_of(b);
  const Leg up = o_.legs.upward(b, context.step, comm.rank(), &sent_);
  co_await send_floats(comm, server, here, up);
  const Leg down = o_.legs.downward(b, context.step);
  co_await recv_floats(comm, server[0], here, down);
}

void PsSync::arrived(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  arena()
      .values()
      .range(bucket.offset, bucket.elements)
      .copy_from(arena().gradients().range(bucket.offset, bucket.elements));
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) parameter(i).value().bump_version();
}

void PsSync::end_step(StepStats& stats) {
  BucketSync::end_step(stats);
  const std::uint64_t up = sent_.load(std::memory_order_relaxed), down = o_.own ? o_.own->bytes_down() : 0;
  stats.bytes_up = up - std::exchange(seen_up_, up);
  stats.bytes_down = down - std::exchange(seen_down_, down);
}

}  // namespace laconic::dist
