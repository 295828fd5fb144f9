#include "dist/method/ef21/ef21.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/clock.h"
#include "core/host_copy.h"
#include "core/raw.h"
#include "core/base/trace.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

constexpr compress::SparseFormat kEf21Format{.coding = compress::IndexCoding::rice};
const std::string kEf21Prefix = "ef21/";

/// A selector may choose more than k; the rest waits, so that a message is smaller than all of the gradient.
std::size_t most_chosen(std::size_t k, std::size_t n) { return std::min(n, 2 * k); }

/// k of n elements and their values.
double expected_part_bytes(std::size_t k, std::size_t n) {
  return compress::expected_rice_bytes(k, n) + 4 * static_cast<double>(k);
}

Tensor state_like(const ParameterArena& arena) {
  return Tensor::zeros({arena.size()}, DType::f32, arena.values().device() == kGhost ? kGhost : kCpu);
}

}  // namespace

Ef21::Ef21(WorkerSide side, const Ef21Rules& rules)
    : BucketSync(side.arena, side.engine, side.plan, "ef21", side.facts, side.engine.size()),
      side_(std::move(side)),
      rules_(rules),
      v_(state_like(arena())),
      h_(state_like(arena())),
      g_(state_like(arena())),
      messages_(plan().buckets.size()),
      views_(static_cast<std::size_t>(engine().size())) {
  std::int64_t longest = 0;
  for (std::size_t b = 0; b < messages_.size(); ++b)
    for (const auto& p : parameters_of(bucket(b))) {
      const Held held = held_by(bucket(b), p->info);
      const std::int64_t offset = held.offset, n = held.elements;
      require<UsageError>(n < std::numeric_limits<std::uint32_t>::max(), p->info.name, " has ", n,
                          " elements: their indices have 32 bits. Let it travel in chunks (`chunk`).");
      const auto k = static_cast<std::size_t>(elements_to_send(n, rules.density));
      const auto elements = static_cast<std::size_t>(n);
      Message& message = messages_[b];
      message.runs.push_back({*p, held.name, arena().gradients().range(offset, n), v_.range(offset, n),
                              h_.range(offset, n), g_.range(offset, n), k,
                              max_sparse_bytes(kEf21Format, most_chosen(k, elements), elements),
                              compress::make_selector(rules.selector),
                              LedgerAccount(held.name, rules.selector, n, side_.facts.ledger_every)});
      message.most += kPartHeader + message.runs.back().most;
      longest = std::max(longest, n);
    }
  difference_ = Tensor::zeros({longest}, DType::f32, v_.device());
}

double Ef21::expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                            const Ef21Rules& rules, int workers) {
  double bytes = 0;
  for (const Bucket& bucket : plan.buckets) {
    bytes += kPartHeader;
    for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
      const std::int64_t n = held_by(bucket, parameters[static_cast<std::size_t>(i)]->info).elements;
      const auto k = static_cast<std::size_t>(elements_to_send(n, rules.density));
      bytes += kPartHeader + expected_part_bytes(k, static_cast<std::size_t>(n));
    }
  }
  return (workers - 1) * bytes;
}

/// On the compute thread: messages are made in the order of steps, whatever the overlap.
Operation Ef21::exchange(std::size_t b) {
  const auto since = Clock::now();
  const Trace::Span span(bucket(b).name, "select");
  Message& message = messages_[b];
  message.packet.clear();
  for (Run& run : message.runs)
    if (is_first(b))
      begin(run);
    else
      choose(run, b);
  select_seconds_ += seconds_since(since);
  if (is_first(b)) {
    const Slice<float> sum = part(arena().gradients(), bucket(b));
    return {.name = "sum of " + bucket(b).name,
            .body = [sum](Communicator& comm) { return ring_allreduce(comm, sum); }};
  }
  return {.name = "changes of " + bucket(b).name, .body = [&message](Communicator& comm) {
            return allgatherv(comm, message.packet.slice(), message.most, message.all);
          }};
}

void Ef21::begin(Run& run) {
  GhostWork::tell(run.v.device(), Work::gathering, run.size());
  if (run.v.device() == kGhost) return;
  run.v.copy_from(run.gradient);
  run.h.copy_from(run.v);
  run.account.sent(ring_allreduce_cost(engine().size(), 4 * static_cast<double>(run.size())).bytes);
}

void Ef21::choose(Run& run, std::size_t b) {
  const std::size_t n = run.size();
  Message& message = messages_[b];
  part_.clear();
  if (run.v.device() == kGhost) {
    GhostWork::tell(Work::gathering, n);
    GhostWork::tell(Work::selecting, n);
    const auto bytes = static_cast<std::size_t>(expected_part_bytes(run.k, n));
    std::memset(part_.append(bytes).data(), 0, bytes);
    return append_part(message.packet, part_.slice());
  }
  const HostCopy<float> gradient{Slice<const float>(run.gradient.slice())};
  const Slice<float> v = run.v.slice(), h = run.h.slice();
  const Tensor difference = difference_.range(0, static_cast<std::int64_t>(n));
  const Slice<float> d = difference.slice();
  const auto eta = static_cast<float>(rules_.eta), kept = static_cast<float>(1 - rules_.eta);
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = kept * v[i] + eta * gradient.data()[i];
    d[i] = v[i] - h[i];
  }
  const StepContext& context = context_of(b);
  if (side_.watch && !bucket(b).chunk()) side_.watch(run.parameter, d);
  run.account.before_choice(context.step, difference);
  try {
    run.selector->select({.values = d,
                          .k = run.k,
                          .key = {.seed = side_.facts.seed,
                                  .step = static_cast<std::uint64_t>(context.step),
                                  .operation = static_cast<std::uint32_t>(run.parameter.info.index)}},
                         chosen_);
  } catch (const compress::NotANumber& e) {
    throw Error(concat("the momentum of ", run.name, " at step ", context.step, ": ", e.what(),
                       " Lower `lr`, or clip gradients (`clip` norm:5)."));
  }
  chosen_.shorten(most_chosen(run.k, n));
  for (std::size_t i = 0; i < chosen_.indices.size(); ++i) {
    h[chosen_.indices[i]] += chosen_.values[i];
    d[chosen_.indices[i]] = 0;
  }
  run.account.after_choice(chosen_.all_indices(), difference);
  encode_sparse(kEf21Format, chosen_.all_indices(), std::as_const(chosen_).all_values(), n, part_);
  run.account.sent((engine().size() - 1) * static_cast<double>(kPartHeader + part_.size()));
  append_part(message.packet, part_.slice());
}

void Ef21::arrived(std::size_t b) {
  Message& message = messages_[b];
  buffer_bytes_[b] = message.packet.size() + message.all.capacity();
  if (!is_first(b)) add_received(b);
  StepContext context = context_of(b);
  context.gradient_scale *= engine().size();  // g is a mean
  for (Run& run : message.runs) {
    if (run.g.device() != kGhost) {
      if (is_first(b)) {
        run.g.copy_from(run.gradient);
        raw::scale(run.g, 1.0f / static_cast<float>(engine().size()));
      }
      run.gradient.copy_from(run.g);
    }
    side_.update(run.parameter, rows_of(bucket(b), run.parameter), context);
  }
}

/// g += the mean of what was sent.
void Ef21::add_received(std::size_t b) {
  Message& message = messages_[b];
  const int N = engine().size();
  if (g_.device() == kGhost) {
    for (const Run& run : message.runs) GhostWork::tell(Work::scattering, static_cast<std::size_t>(N) * run.k);
    return;
  }
  std::size_t most = 0;
  for (const Run& run : message.runs) most = std::max(most, run.most);
  std::vector<std::vector<Slice<const std::byte>>> parts;
  for (int r = 0; r < N; ++r) parts.push_back(parts_of(message.all[r], static_cast<int>(message.runs.size()), most, r));
  for (std::size_t i = 0; i < message.runs.size(); ++i) {
    Run& run = message.runs[i];
    for (std::size_t r = 0; r < views_.size(); ++r)
      reading([&] { views_[r].read(kEf21Format, parts[r][i], run.size()); }, "ef21: what rank ", r, " sent of ",
              run.name);
    scatter_add(views_, 1.0f / static_cast<float>(N), run.g.slice());
    if (run.account.measuring()) run.account.received(compress::united(views_));
  }
}

std::vector<LedgerRow> Ef21::ledger() const {
  std::vector<LedgerRow> rows;
  if (side_.facts.ledger_every == 0) return rows;
  for (const Message& message : messages_)
    for (const Run& run : message.runs) rows.push_back(run.account.row());
  std::reverse(rows.begin(), rows.end());  // the arena ends with what forward reaches first
  return rows;
}

double Ef21::message_bytes() const {
  double bytes = 0;
  for (const Message& m : messages_) {
    bytes += static_cast<double>(m.most) + engine().size() * static_cast<double>(kPartHeader + m.most);
    for (const Run& run : m.runs) bytes += run.selector->bytes(run.k, run.size());
  }
  return bytes;
}

void Ef21::save(RankState& state) const {
  state.set(kEf21Prefix + "v", v_, Join::mean);
  state.set(kEf21Prefix + "h", h_, Join::mean);
  state.set(kEf21Prefix + "g", g_, Join::equal);
  for (const Message& message : messages_)
    for (const Run& run : message.runs) {
      const std::string prefix = kEf21Prefix + run.name + "/";
      state.save(prefix, *run.selector, Join::own);
      state.save(prefix, run.account, Join::own);
    }
}

void Ef21::load(const StateDict& state) {
  const StateDict mine = state.part(kEf21Prefix);
  for (const auto& [name, target] : {std::pair{"v", &v_}, {"h", &h_}, {"g", &g_}})
    mine.copy_to(*target, name, concat(name, " of ef21"));
  for (Message& message : messages_)
    for (Run& run : message.runs) {
      const StateDict part = mine.part(run.name + "/");
      run.selector->load(part);
      run.account.load(part);
    }
}

}  // namespace laconic::dist
