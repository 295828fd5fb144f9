#include "dist/method/exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/clock.h"
#include "core/base/parallel.h"
#include "core/base/trace.h"
#include "core/host_copy.h"
#include "dist/collective/allgatherv.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

Tensor range_of(const Tensor& part, const Held& held) { return part.range(held.offset, held.elements); }

}  // namespace

std::vector<PartPlace> places_of(const Bucket& bucket, std::size_t number, bool whole, int rank, int workers,
                                 std::uint64_t seed, const std::vector<std::shared_ptr<Parameter>>& parameters) {
  std::vector<PartPlace> places;
  const auto place = [&](const std::string& name, Shape shape, std::int64_t offset, std::int64_t n, std::size_t id) {
    places.push_back({.name = name,
                      .shape = shape,
                      .offset = offset,
                      .elements = n,
                      .number = id,
                      .rank = rank,
                      .workers = workers,
                      .seed = seed});
  };
  if (whole) place(bucket.name, {bucket.elements}, bucket.offset, bucket.elements, number);
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    Held held = held_by(bucket, parameters[static_cast<std::size_t>(i)]->info);
    if (!whole) place(held.name, held.shape, held.offset, held.elements, static_cast<std::size_t>(i));
    held.offset -= places.back().offset;
    places.back().parameters.push_back(std::move(held));
  }
  return places;
}

Tensor Part::gather(Slice<const float> gradient, const StepContext&) {
  const Slice<float> residual = state(0);
  for (std::size_t i = 0; i < gradient.size(); ++i) residual[i] += gradient[i];
  return state_tensor(0);
}

Exchange::Exchange(WorkerSide side, ExchangeForm form, const MakePart& make)
    : BucketSync(side.arena, side.engine, side.plan, form.name, side.facts, side.engine.size()),
      side_(std::move(side)),
      form_(std::move(form)),
      late_(arena().gradients().device().kind == Device::Kind::cuda && engine().size() > 1 && !side_.watch),
      messages_(plan().buckets.size()) {
  const std::size_t N = static_cast<std::size_t>(engine().size());
  const std::string& prefix = form_.prefix;
  for (const ExchangeForm::State& kept : form_.state) {
    state_.push_back(Tensor::zeros({arena().size()}, DType::f32, on_ghosts() ? kGhost : kCpu));
    table_.tensor(prefix + kept.name, state_.back(), kept.join, kept.what);
  }
  for (std::size_t b = 0; b < messages_.size(); ++b) {
    Message& message = messages_[b];
    message.to.resize(form_.joined ? N : 1);
    std::vector<std::size_t> most(message.to.size()), joined(message.to.size());
    for (PartPlace& place : places_of(bucket(b), b, form_.whole, engine().rank(), engine().size(), side_.facts.seed,
                                      arena().parameters())) {
      for (const Tensor& all : state_) place.state.push_back(all.range(place.offset, place.elements));
      Unit unit{.first = static_cast<std::size_t>(place.offset - bucket(b).offset)};
      int next = form_.whole ? bucket(b).first : static_cast<int>(place.number);
      for (const Held& held : place.parameters)
        unit.accounts.push_back(
            {parameter(next++),
             LedgerAccount(held.name, form_.choice, held.elements, side_.facts.ledger_every,
                           form_.by_choice ? LedgerAccount::Of::choices : LedgerAccount::Of::squares)});
      unit.part = make(std::move(place));
      for (std::size_t r = 0; r < most.size(); ++r) {
        most[r] += unit.part->bytes(static_cast<int>(r)) + (form_.varies && !form_.whole ? kPartHeader : 0);
        if (form_.joined) joined[r] += unit.part->joined_bytes(static_cast<int>(r));
      }
      message.units.push_back(std::move(unit));
    }
    for (Unit& unit : message.units) {
      table_.object(prefix + unit.part->place().name + "/", *unit.part, Join::own);
      for (Account& account : unit.accounts) account.ledger.keep_in(table_, prefix + account.ledger.name() + "/");
    }
    message.most = *std::ranges::max_element(most), message.most_joined = *std::ranges::max_element(joined);
  }
}

Operation Exchange::exchange(std::size_t b) {
  Message& message = messages_[b];
  for (compress::Bytes& to : message.to) to.clear();
  const Slice<float> gradients = part(arena().gradients(), bucket(b));
  if (!on_ghosts()) for_parts(b, [&](Parameter& p, Rows rows) { before_gather(p, rows); });
  if (!late_) {
    const auto begin = Clock::now();
    if (on_ghosts())
      make_of_ghosts(b);
    else
      make(b, HostCopy<float>(Slice<const float>(gradients)).slice());
    select_seconds_ += seconds_since(begin);
  }
  return {.name = is_dense(b) ? "sum of " + bucket(b).name : concat(form_.operation, " ", bucket(b).name),
          .body = [this, b](Communicator& comm) { return run(comm, b); }};
}

Task<> Exchange::run(Communicator& comm, std::size_t b) {
  Message& message = messages_[b];
  const Slice<float> gradients = part(arena().gradients(), bucket(b));
  const auto here = [&] { return Slice<float>(reinterpret_cast<float*>(message.here.data()), gradients.size()); };
  if (late_) {
    if (message.here.size() == 0) message.here = Pinned(gradients.size_bytes(), gradients.device());
    copy_bytes_later(message.here.data(), kCpu, gradients.data(), gradients.device(), gradients.size_bytes());
    co_await comm.device_comes(gradients.device());
    const auto begin = Clock::now();
    make(b, here());
    message.seconds += seconds_since(begin);
  }
  if (is_dense(b)) {
    co_await ring_allreduce(comm, gradients);
    co_return;
  }
  if (form_.joined) {
    co_await alltoallv(comm, message.to, message.most, message.from);
    join(b);
    co_await allgatherv(comm, message.joined.slice(), message.most_joined, message.all);
  } else {
    co_await allgatherv(comm, message.to[0].slice(), message.most, message.all);
  }
  if (!late_) co_return;
  take(b, here());
  copy_bytes_later(gradients.data(), gradients.device(), message.here.data(), kCpu, gradients.size_bytes());
}

std::vector<Part*> Exchange::parts() const {
  std::vector<Part*> all;
  for (const Message& message : messages_)
    for (const Unit& unit : message.units) all.push_back(unit.part.get());
  return all;
}

void Exchange::make_of_ghosts(std::size_t b) {
  Message& message = messages_[b];
  const auto elements = static_cast<std::size_t>(bucket(b).elements);
  if (form_.gathers) GhostWork::tell(Work::gathering, elements);
  if (is_dense(b)) return;
  GhostWork::tell(Work::selecting, elements);
  const auto zeros = [](compress::Bytes& to, std::size_t bytes) { std::memset(to.append(bytes).data(), 0, bytes); };
  for (std::size_t r = 0; r < message.to.size(); ++r)
    for (const Unit& unit : message.units) {
      if (!form_.varies) {
        zeros(message.to[r], unit.part->bytes(static_cast<int>(r)));
        continue;
      }
      part_.clear();
      zeros(part_, static_cast<std::size_t>(unit.part->expected_bytes()));
      form_.whole ? zeros(message.to[r], part_.size()) : append_part(message.to[r], part_.slice());
    }
}

void Exchange::make(std::size_t b, Slice<const float> gradients) {
  const Trace::Span span(bucket(b).name, form_.span);
  for (Unit& unit : messages_[b].units) make_part(unit, b, gradients.sub(unit.first, unit.part->size()));
}

void Exchange::make_part(Unit& unit, std::size_t b, Slice<const float> gradient) {
  Message& message = messages_[b];
  Part& part = *unit.part;
  const std::int64_t step = context_of(b).step;
  const std::vector<Held>& held = part.place().parameters;
  const Tensor offered = part.gather(gradient, context_of(b));
  if (is_dense(b)) {
    for (Account& account : unit.accounts)
      account.ledger.sent(ring_allreduce_cost(engine().size(), 4 * static_cast<double>(part.size())).bytes);
    return;
  }
  for (std::size_t i = 0; offered.defined() && i < held.size(); ++i) {
    const Tensor some = range_of(offered, held[i]);
    if (side_.watch && !bucket(b).chunk()) side_.watch(unit.accounts[i].parameter, some.slice());
    unit.accounts[i].ledger.before(step, some);
  }
  const std::size_t before = message.to[0].size();
  if (form_.varies && !form_.whole) {
    part_.clear();
    part.make(part_, 0);
    append_part(message.to[0], part_.slice());
  } else {
    for (std::size_t r = 0; r < message.to.size(); ++r)
      message.to[r].reserve(message.to[r].size() + part.bytes(static_cast<int>(r)));
    parallel_for(static_cast<std::int64_t>(message.to.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r)
        part.make(message.to[r], static_cast<int>(r));
    });
  }
  for (std::size_t i = 0; offered.defined() && i < held.size(); ++i) {
    LedgerAccount& ledger = unit.accounts[i].ledger;
    ledger.after(range_of(offered, held[i]), part.chosen());
    if (!form_.joined) ledger.sent((engine().size() - 1) * static_cast<double>(message.to[0].size() - before));
  }
}

/// By unit, what has come of it: the messages of all ranks, or what each has made of its share.
std::vector<Theirs> Exchange::theirs(std::size_t b, bool joined) const {
  const Message& message = messages_[b];
  const Gathered& all = form_.joined && !joined ? message.from : message.all;
  std::vector<std::vector<Slice<const std::byte>>> parts(message.units.size());
  for (int r = 0; r < engine().size(); ++r) {
    if (form_.varies) {
      std::vector<Slice<const std::byte>> own{all[r]};
      if (!form_.whole) own = parts_of(all[r], static_cast<int>(parts.size()), message.most, r);
      for (std::size_t u = 0; u < parts.size(); ++u) parts[u].push_back(own[u]);
      continue;
    }
    std::vector<std::size_t> lengths;
    for (const Unit& unit : message.units)
      lengths.push_back(joined ? unit.part->joined_bytes(r) : unit.part->bytes(form_.joined ? engine().rank() : 0));
    const std::size_t whole = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    const std::string did = joined ? form_.joined : "sent",
                      what = form_.joined && !joined ? concat(" to be ", form_.joined) : "";
    require<CommError>(all[r].size() == whole, form_.name, ": rank ", r, " ", did, " ", all[r].size(), " bytes of ",
                       bucket(b).name, what, ", and not ", whole, ". Do all ranks run the same program?");
    std::size_t at = 0;
    for (std::size_t u = 0; u < parts.size(); at += lengths[u++]) parts[u].push_back(all[r].sub(at, lengths[u]));
  }
  std::vector<Theirs> theirs;
  for (std::size_t u = 0; u < parts.size(); ++u)
    theirs.emplace_back(form_.name, message.units[u].part->place().name, std::move(parts[u]));
  return theirs;
}

/// On the communication thread.
void Exchange::join(std::size_t b) {
  Message& message = messages_[b];
  message.joined.clear();
  if (on_ghosts()) {  // one rank may stand for all
    const auto elements = static_cast<std::size_t>(bucket(b).elements);
    for (const Unit& unit : message.units) {
      const Slice<std::byte> to = message.joined.append(unit.part->joined_bytes(engine().rank()));
      std::memset(to.data(), 0, to.size());
    }
    GhostWork::tell(Work::scattering, elements);
    if (form_.joins_by_choice)
      GhostWork::tell(Work::selecting, elements / static_cast<std::size_t>(message.from.size()));
    return;
  }
  const std::vector<Theirs> all = theirs(b, false);
  for (std::size_t u = 0; u < all.size(); ++u) message.units[u].part->join(all[u], message.joined);
}

void Exchange::take(std::size_t b, Slice<float> gradients) {
  Message& message = messages_[b];
  const std::vector<Theirs> all = theirs(b, form_.joined != nullptr);
  for (std::size_t u = 0; u < all.size(); ++u) {
    Unit& unit = message.units[u];
    unit.part->take(all[u], gradients.sub(unit.first, unit.part->size()));
    LedgerAccount& ledger = unit.accounts[0].ledger;
    if (ledger.measuring()) ledger.received(unit.part->united());
  }
}

void Exchange::arrived(std::size_t b) {
  Message& message = messages_[b];
  select_seconds_ += std::exchange(message.seconds, 0);
  buffer_bytes_[b] = message.all.capacity() + message.from.capacity() + message.joined.size();
  for (const compress::Bytes& to : message.to) buffer_bytes_[b] += to.size();
  const Slice<float> gradients = part(arena().gradients(), bucket(b));
  const auto all_of = [&](auto f) {
    for (Unit& unit : message.units) f(unit);
  };
  if (on_ghosts()) {
    std::size_t some = 0;
    all_of([&](const Unit& unit) { some += unit.part->scattered(); });
    if (!is_dense(b)) GhostWork::tell(Work::scattering, some > 0 ? some : gradients.size());
  } else if (is_dense(b)) {
    change_on_host(part_of(arena().gradients(), b), [&](float* to) {
      all_of([&](Unit& unit) { unit.part->take_sum({to + unit.first, unit.part->size()}); });
    });
  } else if (!late_) {
    write_on_host(gradients, [&](float* to) { take(b, {to, gradients.size()}); });
  }
  StepContext context = context_of(b);
  if (form_.result == ExchangeForm::Result::mean) context.gradient_scale *= engine().size();
  if (form_.result == ExchangeForm::Result::final) context.gradient_scale = 1;
  for_parts(b, [&](Parameter& p, Rows rows) { update(p, rows, context); });
}

double Exchange::message_bytes() const {
  const int N = engine().size();
  double bytes = 0;
  for (const Message& m : messages_) {
    const std::size_t all = form_.joined ? m.most_joined : m.most;
    bytes += static_cast<double>(all) + N * static_cast<double>(kPartHeader + all);
    if (form_.joined) bytes += 2 * N * static_cast<double>(m.most);
    for (const Unit& unit : m.units) bytes += unit.part->working_bytes();
  }
  return bytes;
}

std::vector<LedgerRow> Exchange::ledger() const {
  std::vector<LedgerRow> rows;
  if (side_.facts.ledger_every == 0) return rows;
  for (auto m = messages_.rbegin(); m != messages_.rend(); ++m)  // as forward reaches them
    for (auto unit = m->units.rbegin(); unit != m->units.rend(); ++unit)
      for (std::size_t i = unit->accounts.size(); i-- > 0;) {
        const LedgerAccount& ledger = unit->accounts[i].ledger;
        const Part::Sent sent = unit->part->sent(i);
        rows.push_back(form_.by_choice ? ledger.row() : ledger.row(sent.elements, sent.bytes));
      }
  return rows;
}

}  // namespace laconic::dist
