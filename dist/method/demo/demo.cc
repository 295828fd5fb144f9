#include "dist/method/demo/demo.h"

#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/host_copy.h"
#include "core/base/trace.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

const std::string kPrefix = "demo/";

float sign_of(float v) { return v > 0 ? 1.0f : v < 0 ? -1.0f : v; }

}  // namespace

Demo::Demo(WorkerSide side, DemoRules rules)
    : BucketSync(side.arena, side.engine, side.plan, "demo", side.facts, side.engine.size()),
      side_(std::move(side)),
      rules_(rules),
      momentum_(arena().gradients().device().kind == Device::Kind::cuda ? Tensor::zeros({arena().size()})
                                                                        : arena().make_state()),
      messages_(plan().buckets.size()) {
  for (std::size_t b = 0; b < messages_.size(); ++b)
    for (int i = bucket(b).first; i < bucket(b).first + bucket(b).count; ++i) {
      Parameter& p = parameter(i);
      const Held held = held_by(bucket(b), p.info);
      Message& message = messages_[b];
      message.parts.push_back({p,
                               static_cast<std::size_t>(held.offset - bucket(b).offset),
                               held.elements,
                               Chunks(held.shape, rules.side, rules.most),
                               {held.name, "chunks", held.elements, side_.facts.ledger_every}});
      message.bytes += message.parts.back().chunks.message_bytes();
    }
}

Operation Demo::exchange(std::size_t b) {
  const auto begin = Clock::now();
  Message& message = messages_[b];
  message.packet.clear();
  message.packet.append(message.bytes);
  {
    const Trace::Span span(bucket(b).name, "extract");
    extract(b);
  }
  select_seconds_ += seconds_since(begin);
  return {.name = "coefficients of " + bucket(b).name, .body = [&message](Communicator& comm) {
            return allgatherv(comm, message.packet.slice(), message.bytes, message.all);
          }};
}

void Demo::extract(std::size_t b) {
  Message& message = messages_[b];
  const Slice<float> g = part(arena().gradients(), bucket(b)), m = part(momentum_, bucket(b));
  if (g.device() == kGhost) {
    std::memset(message.packet.data(), 0, message.bytes);
    GhostWork::tell(Work::gathering, g.size());
    return GhostWork::tell(Work::selecting, g.size());
  }
  const HostCopy<float> here{Slice<const float>(g)};
  const auto beta = static_cast<float>(rules_.decay);
  for (std::size_t i = 0; i < g.size(); ++i) m[i] = beta * m[i] + here.data()[i];
  std::byte* to = message.packet.data();
  for (Part& p : message.parts) {
    const Slice<float> own = m.sub(p.first, static_cast<std::size_t>(p.elements));
    if (side_.watch && !bucket(b).chunk()) side_.watch(p.parameter, own);
    const Tensor all = momentum_.range(bucket(b).offset + static_cast<std::int64_t>(p.first), p.elements);
    p.account.before(context_of(b).step, all);
    p.chunks.extract(own.data(), to);
    to += p.chunks.message_bytes();
    p.account.after(all);
  }
}

void Demo::arrived(std::size_t b) {
  Message& message = messages_[b];
  buffer_bytes_[b] = message.all.capacity() + message.packet.size();
  const Slice<float> g = part(arena().gradients(), bucket(b));
  if (g.device() == kGhost)
    GhostWork::tell(Work::scattering, g.size());
  else
    write_on_host(g, [&](float* to) { combine(b, to); });
  StepContext context = context_of(b);
  if (rules_.sign) context.gradient_scale = 1;  // a sign is no sum
  for (const Part& p : message.parts) side_.update(p.parameter, rows_of(bucket(b), p.parameter), context);
}

/// gradients : of the bucket
void Demo::combine(std::size_t b, float* gradients) {
  const Message& message = messages_[b];
  std::size_t at = 0;
  for (int r = 0; r < engine().size(); ++r)
    require<CommError>(message.all[r].size() == message.bytes, "demo: rank ", r, " sent ", message.all[r].size(),
                       " bytes of ", bucket(b).name, ", and not ", message.bytes,
                       ". Do all ranks run the same program?");
  for (const Part& p : message.parts) {
    std::vector<const std::byte*> theirs;
    for (int r = 0; r < engine().size(); ++r) {
      const Slice<const std::byte> one = message.all[r].sub(at, p.chunks.message_bytes());
      reading([&] { p.chunks.check(one); }, "demo: what rank ", r, " sent of ", p.parameter.info.name);
      theirs.push_back(one.data());
    }
    float* const q = gradients + p.first;
    p.chunks.combine(theirs, q);
    if (rules_.sign)
      for (std::int64_t i = 0; i < p.elements; ++i) q[i] = sign_of(q[i]);
    at += p.chunks.message_bytes();
  }
}

std::vector<LedgerRow> Demo::ledger() const {
  std::vector<LedgerRow> rows;
  for (std::size_t b = messages_.size(); b-- > 0;)  // as forward reaches them
    for (std::size_t i = messages_[b].parts.size(); i-- > 0;) {
      const Part& p = messages_[b].parts[i];
      p.account.add_row(rows, static_cast<double>(p.chunks.kept()),
                        (engine().size() - 1) * static_cast<double>(p.chunks.message_bytes()));
    }
  return rows;
}

double Demo::message_bytes() const {
  double bytes = 0;
  for (const Message& m : messages_)
    bytes += static_cast<double>(m.bytes) + engine().size() * static_cast<double>(kPartHeader + m.bytes);
  return bytes;
}

void Demo::save(RankState& state) const {
  state.set(kPrefix + "momentum", momentum_, rules_.sign ? Join::mean : put_by());
  for (const Message& message : messages_)
    for (const Part& p : message.parts) state.save(kPrefix + p.account.name() + "/", p.account, Join::own);
}

void Demo::load(const StateDict& state) {
  const StateDict mine = state.part(kPrefix);
  mine.copy_to(momentum_, "momentum", "the momentum of demo");
  for (Message& message : messages_)
    for (Part& p : message.parts) p.account.load(mine.part(p.account.name() + "/"));
}

}  // namespace laconic::dist
