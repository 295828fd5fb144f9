#include "dist/method/onebit_adam/onebit_adam.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/host_copy.h"
#include "core/base/parallel.h"
#include "core/base/trace.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

const std::string kOwnState = "onebit-adam/";

/// On the host, or nowhere.
Tensor error_state(const ParameterArena& arena) {
  return arena.gradients().device() == kGhost ? arena.make_state() : Tensor::zeros({arena.size()});
}

}  // namespace

std::int64_t OnebitRules::seen(std::int64_t step) const {
  if (step <= warmup || refresh == 0) return std::min(step, warmup);
  std::int64_t count = warmup, left = step - warmup, interval = 1;
  for (; left > refresh * interval; interval *= 2) left -= refresh * interval, count += refresh;
  return count + left / interval;
}

bool OnebitRules::dense(std::int64_t step) const { return seen(step) > seen(step - 1); }

OnebitAdam::OnebitAdam(WorkerSide side, const OnebitRules& rules)
    : BucketSync(side.arena, side.engine, side.plan, "onebit-adam", side.facts, side.engine.size()),
      side_(std::move(side)),
      rules_(rules),
      dense_(side_.arena, side_.engine, side_.plan, side_.update, side_.facts),
      errors_(error_state(arena())),
      server_errors_(error_state(arena())),
      messages_(plan().buckets.size()) {
  require<UsageError>(side_.moments.take || on_ghosts(), "what `sync` onebit-adam sends is Adam's momentum, and ",
                      side_.facts.optimizer, " has none (`optimizer`): take adam or adamw");
  const int N = engine().size();
  for (std::size_t b = 0; b < messages_.size(); ++b) {
    const Bucket& here = bucket(b);
    Message& message = messages_[b];
    for (int i = here.first; i < here.first + here.count; ++i) {
      Parameter& p = parameter(i);
      const Held held = held_by(here, p.info);
      message.parts.push_back({.parameter = p,
                               .first = held.offset - here.offset,
                               .elements = held.elements,
                               .account = {held.name, "signs", held.elements, side_.facts.ledger_every}});
    }
    message.ranges.resize(static_cast<std::size_t>(N));
    message.to.resize(static_cast<std::size_t>(N));
    for (int r = 0; r < N; ++r) {
      compress::ScaledSigns& range = message.ranges[static_cast<std::size_t>(r)];
      for_averaged(here, arena().parameters(), r, N, [&](std::size_t i, std::size_t first, std::size_t count) {
        const std::size_t before = range.bytes();
        range.add(first, count);
        const int times = r == engine().rank() ? N - 1 : 1;  // its own goes to all others, as an average
        message.parts[i].bytes += times * static_cast<double>(range.bytes() - before);
      });
      message.most_bytes = std::max(message.most_bytes, range.bytes());
    }
  }
}

void OnebitAdam::begin_step(const StepContext& context) {
  const std::int64_t update = context.update();
  const bool dense = rules_.dense(update);
  if (dense != dense_now_) flush();
  if (dense_now_ && !dense) end_dense();
  if (dense && update > rules_.warmup && !on_ghosts()) side_.moments.thaw(update - 1 - rules_.seen(update - 1));
  dense_now_ = dense;
  dense_.begin_step(context);
  BucketSync::begin_step(context);
}

/// Also of a training that is resumed after it. Other numbers of workers average other elements: what this
/// rank holds of an average's error where it averages nothing goes with its own error, N times, since that is one of N.
void OnebitAdam::end_dense() {
  if (on_ghosts()) return;
  side_.moments.freeze();
  const int N = engine().size();
  for (std::size_t b = 0; b < messages_.size(); ++b) {
    const Slice<float> e = part(errors_, bucket(b)), server = part(server_errors_, bucket(b));
    for (int r = 0; r < N; ++r)
      for_averaged(bucket(b), arena().parameters(), r, N, [&](std::size_t, std::size_t first, std::size_t count) {
        for (std::size_t k = first; r != engine().rank() && k < first + count; ++k)
          if (server[k] != 0) e[k] += static_cast<float>(N) * std::exchange(server[k], 0.0f);
      });
  }
}

void OnebitAdam::gradient_ready(Parameter& p, Rows rows) {
  dense_now_ ? dense_.gradient_ready(p, rows) : BucketSync::gradient_ready(p, rows);
}

void OnebitAdam::before_forward(Parameter& p, Rows rows) {
  dense_now_ ? dense_.before_forward(p, rows) : BucketSync::before_forward(p, rows);
}

void OnebitAdam::end_step() { dense_now_ ? dense_.end_step() : BucketSync::end_step(); }

void OnebitAdam::flush() { dense_now_ ? dense_.flush() : BucketSync::flush(); }

Operation OnebitAdam::exchange(std::size_t b) {
  const auto begin = Clock::now();
  Message& message = messages_[b];
  for (std::size_t r = 0; r < message.to.size(); ++r) {
    message.to[r].clear();
    message.to[r].append(message.ranges[r].bytes());
  }
  {
    const Trace::Span span(bucket(b).name, "signs");
    compress(b);
  }
  select_seconds_ += seconds_since(begin);
  return {.name = "momentum of " + bucket(b).name, .body = [this, b](Communicator& comm) { return join(comm, b); }};
}

void OnebitAdam::compress(std::size_t b) {
  Message& message = messages_[b];
  const Slice<float> g = part(arena().gradients(), bucket(b));
  if (on_ghosts()) {
    for (const compress::Bytes& to : message.to) std::memset(to.data(), 0, to.size());
    GhostWork::tell(Work::gathering, g.size());
    return GhostWork::tell(Work::selecting, g.size());
  }
  for (const Part& p : message.parts) side_.moments.form(p.parameter, rows_of(bucket(b), p.parameter));
  float* const e = part(errors_, bucket(b)).data();
  const auto errors = [&](const Part& p) { return errors_.range(bucket(b).offset + p.first, p.elements); };
  {
    const HostCopy<float> m{Slice<const float>(g)};
    for (Part& p : message.parts) {
      for (std::int64_t k = p.first; k < p.first + p.elements; ++k) e[k] += m.data()[k];
      p.account.before(context_of(b).step, errors(p));
      if (side_.watch && !bucket(b).chunk())
        side_.watch(p.parameter, {e + p.first, static_cast<std::size_t>(p.elements)});
    }
  }
  parallel_for(static_cast<std::int64_t>(message.to.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r)
      message.ranges[r].extract(e, message.to[r].data());
  });
  for (Part& p : message.parts) p.account.after(errors(p));
}

Task<> OnebitAdam::join(Communicator& comm, std::size_t b) {
  Message& message = messages_[b];
  co_await alltoallv(comm, message.to, message.most_bytes, message.from);
  average(b, comm.rank());
  co_await allgatherv(comm, message.average.slice(), message.most_bytes, message.averages);
}

/// On the communication thread.
void OnebitAdam::average(std::size_t b, int rank) {
  Message& message = messages_[b];
  const compress::ScaledSigns& range = message.ranges[static_cast<std::size_t>(rank)];
  message.average.clear();
  std::byte* const to = message.average.append(range.bytes()).data();
  const int N = message.from.size();
  if (on_ghosts()) {
    const auto elements = static_cast<std::size_t>(bucket(b).elements);
    std::memset(to, 0, range.bytes());
    GhostWork::tell(Work::scattering, elements);
    return GhostWork::tell(Work::selecting, elements / static_cast<std::size_t>(N));
  }
  float* const e = part(server_errors_, bucket(b)).data();
  for (int r = 0; r < N; ++r) {
    require<CommError>(message.from[r].size() == range.bytes(), "onebit-adam: rank ", r, " sent ",
                       message.from[r].size(), " bytes of ", bucket(b).name, " to be averaged, and not ", range.bytes(),
                       ". Do all ranks run the same program?");
    range.add_to(message.from[r].data(), 1.0f / static_cast<float>(N), e);
  }
  range.extract(e, to);
}

void OnebitAdam::read(std::size_t b, float* momentum) const {
  const Message& message = messages_[b];
  for (std::size_t r = 0; r < message.ranges.size(); ++r) {
    const Slice<const std::byte> theirs = message.averages[static_cast<int>(r)];
    require<CommError>(theirs.size() == message.ranges[r].bytes(), "onebit-adam: rank ", r, " averaged ", theirs.size(),
                       " bytes of ", bucket(b).name, ", and not ", message.ranges[r].bytes(),
                       ". Do all ranks run the same program?");
    message.ranges[r].read(theirs.data(), momentum);
  }
}

void OnebitAdam::arrived(std::size_t b) {
  Message& message = messages_[b];
  buffer_bytes_[b] = message.from.capacity() + message.averages.capacity() + message.average.size();
  for (const compress::Bytes& to : message.to) buffer_bytes_[b] += to.size();
  const Slice<float> m = part(arena().gradients(), bucket(b));
  if (on_ghosts()) {
    GhostWork::tell(Work::scattering, m.size());
    for (const Part& p : message.parts) side_.update(p.parameter, rows_of(bucket(b), p.parameter), context_of(b));
    return;
  }
  write_on_host(m, [&](float* to) { read(b, to); });
  for (const Part& p : message.parts)
    side_.moments.take(p.parameter, rows_of(bucket(b), p.parameter), context_of(b),
                       rules_.seen(context_of(b).update()));
}

Costs OnebitAdam::costs() const {
  Costs costs = dense_.costs();
  const Costs own = BucketSync::costs();
  costs.select_seconds += own.select_seconds, costs.update_seconds += own.update_seconds;
  costs.buffer_bytes += own.buffer_bytes;
  return costs;
}

double OnebitAdam::message_bytes() const {
  double bytes = 0;
  for (const Message& m : messages_) {
    for (const compress::ScaledSigns& range : m.ranges) bytes += static_cast<double>(range.bytes());
    bytes += static_cast<double>(m.most_bytes) + engine().size() * static_cast<double>(2 * m.most_bytes + kPartHeader);
  }
  return std::max(bytes, dense_.message_bytes());
}

std::vector<LedgerRow> OnebitAdam::ledger() const {
  std::vector<LedgerRow> rows;
  for (std::size_t b = messages_.size(); b-- > 0;)  // as forward reaches them
    for (std::size_t i = messages_[b].parts.size(); i-- > 0;) {
      const Part& p = messages_[b].parts[i];
      p.account.add_row(rows, static_cast<double>(p.elements), p.bytes);
    }
  return rows;
}

void OnebitAdam::save(RankState& state) const {
  state.set(kOwnState + "errors", errors_, Join::mean);  // of which the mean over workers counts, as of gradients
  state.set(kOwnState + "server_errors", server_errors_, Join::sum);
  for (const Message& message : messages_)
    for (const Part& p : message.parts) state.save(kOwnState + p.account.name() + "/", p.account, Join::own);
}

void OnebitAdam::load(const StateDict& state) {
  const StateDict mine = state.part(kOwnState);
  mine.copy_to(errors_, "errors", "what onebit-adam has lost");
  mine.copy_to(server_errors_, "server_errors", "what averages of onebit-adam have lost");
  for (Message& message : messages_)
    for (Part& p : message.parts) p.account.load(mine.part(p.account.name() + "/"));
}

}  // namespace laconic::dist
