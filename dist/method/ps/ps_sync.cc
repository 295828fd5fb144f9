#include "dist/method/ps/ps_sync.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/select/residual.h"
#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/method/allreduce_sync.h"
#include "dist/server/control.h"
#include "dist/server/loopback.h"

namespace laconic::dist {

namespace {

std::vector<int> members_of(int rank, int workers, int group) {
  std::vector<int> members;
  for (int r = rank / group * group; r < std::min(workers, rank / group * group + group); ++r) members.push_back(r);
  return members;
}

}  // namespace

std::vector<int> leaders_of(int workers, int group) {
  std::vector<int> leaders;
  for (int r = 0; r < workers; r += group) leaders.push_back(r);
  return leaders;
}

PsSync::PsSync(WorkerSide side, Options options)
    : BucketSync(side.arena, side.engine, side.plan, options.name, side.facts, side.facts.workers),
      side_(std::move(side)),
      o_(std::move(options)),
      members_(members_of(engine().rank(), side_.facts.workers, o_.group)),
      norm_slot_(engine().reserve_slots(1)),
      joint_(arena()),
      owed_(o_.legs.keeps_losses ? arena().make_state() : Tensor()),
      up_(this->plan().buckets.size()),
      down_(this->plan().buckets.size()) {
  require<Error>(side_.server_rank.size() == this->plan().buckets.size(), o_.name, ": servers are named for ",
                 side_.server_rank.size(), " buckets of ", this->plan().buckets.size(), ".");
  if (accounts()) {
    std::vector<StateTable::Number> bytes{&exchanges_};
    for (auto* leg : {&up_, &down_})
      for (auto& n : *leg) bytes.push_back(&n);
    table_.numbers("servers/ledger", std::move(bytes), Join::anew, "the ledger of servers", false);  // by the plan
  }
  if (owed_.defined()) table_.tensor(kLost, owed_, put_by(), kWhatIsLost, leaders());
}

PsSync::~PsSync() {
  if (norm_.valid()) engine().halt();
  halt_what_is_under_way();
}

void PsSync::flush() {
  BucketSync::flush();
  engine().wait(std::exchange(norm_, {}));
}

void PsSync::begin_step(const StepContext& context) {
  BucketSync::begin_step(context);
  began_ = false;
}

void PsSync::gradient_ready(Parameter& parameter, Rows rows) {
  if (!std::exchange(began_, true) && joins(context())) {
    ++exchanges_;
    if (side_.control != nullptr)
      side_.control->tell(
          {.kind = Command::Kind::step, .step = context().step, .lr = context().lr, .scale = context().gradient_scale});
    if (side_.own != nullptr && side_.own->norm() != nullptr) {
      engine().wait(std::exchange(norm_, {}));
      norm_ = engine().submit(side_.own->norm()->operation(norm_slot_, context().step));
    }
  }
  BucketSync::gradient_ready(parameter, rows);
}

Operation PsSync::exchange(std::size_t b) {
  return {.name = "push and pull of " + bucket(b).name,
          .body = [this, b, context = context_of(b)](Communicator& comm) { return round(comm, b, context); }};
}

Task<> PsSync::round(Communicator& comm, std::size_t b, StepContext context) {
  if (!joins(context)) {
    co_await talk(comm, b, context);
    co_return;
  }
  std::unique_ptr<Communicator> group;
  if (grouped()) {
    group = comm.subgroup(members_);
    const Slice<float> here = gradients_of(b);
    const Hops plain{};
    co_await allreduce(*group, here, bucket(b), plain);
  }
  const Half serve = [this, b, &context](Communicator& half) {
    return side_.own->serve(half, *side_.own->shard().unit_of(b), context);
  };
  const Half work = [this, b, &context](Communicator& half) { return talk(half, b, context); };
  co_await talk_and_serve(comm, b, work, serve);
  if (grouped()) co_await spread(*group, b);
}

/// Whoever leads no group serves when its group's sum is there: the others' pushes wait, and nothing waits for it
/// before.
Task<> PsSync::talk_and_serve(Communicator& comm, std::size_t b, const Half& work, const Half& serve) {
  if (leads() && serves(b))
    co_await run_both(comm, serve, work);
  else if (leads())
    co_await work(comm);
  else if (serves(b))
    co_await serve(comm);
}

Task<> PsSync::spread(Communicator& group, std::size_t b) {
  const Slice<std::byte> bytes = gradients_of(b).bytes();
  co_await broadcast(group, bytes);
}

Task<> PsSync::show(Communicator& comm, std::size_t b) {
  const Slice<float> here = gradients_of(b);
  const int server = server_of(b);
  const Half serve = [this, b](Communicator& half) { return side_.own->show(half, *side_.own->shard().unit_of(b)); };
  const Half work = [server, here](Communicator& half) { return recv_floats(half, server, here, Leg{}); };
  co_await talk_and_serve(comm, b, work, serve);
  if (!grouped()) co_return;
  const std::unique_ptr<Communicator> group = comm.subgroup(members_);
  const Slice<std::byte> bytes = here.bytes();
  co_await broadcast(*group, bytes);
}

void PsSync::pull_whole() {
  if (side_.control != nullptr) side_.control->tell({.kind = Command::Kind::show});
  std::vector<Ticket> tickets;
  for (std::size_t b = 0; b < plan().buckets.size(); ++b)
    tickets.push_back(engine().submit({.name = "pulling all of " + bucket(b).name,
                                       .slot = first_slot() + static_cast<int>(b),
                                       .priority = bucket(b).priority,
                                       .device = arena().values().device(),
                                       .body = [this, b](Communicator& comm) { return show(comm, b); }}));
  for (const Ticket& ticket : tickets) engine().wait(ticket);
}

Task<float> PsSync::take_turn(Communicator& comm, std::size_t b, std::int64_t step, float scale) {
  const Turn mine{static_cast<std::uint32_t>(step), scale};
  const Leg ask{.moved = &up_[b]}, answer{.moved = &down_[b]};
  co_await send_header(comm, server_of(b), mine, ask);
  const auto given = co_await recv_header<Turn>(comm, server_of(b), answer);
  require<CommError>(given.step == mine.step, "server: the turn of ", bucket(b).name, " in step ", given.step,
                     " came in step ", mine.step, ". Resume all ranks alike.");
  co_return given.scale;
}

Task<> PsSync::talk(Communicator& comm, std::size_t b, StepContext context) {
  const Slice<float> here = gradients_of(b);
  Leg up = o_.legs.upward(b, context.step, comm.rank(), &up_[b]);
  const Slice<float> x = owed_.defined() ? part(owed_, bucket(b)) : here;
  if (owed_.defined()) add_in_place(x, here);
  if (o_.legs.takes_turn(bucket(b).elements)) {
    const bool shares_scale = up.codec != nullptr && up.codec->shares_scale();
    const float scale = shares_scale ? up.codec->scale_of(x) : 0;
    up.key.scale = co_await take_turn(comm, b, context.step, scale);
  }
  co_await push(comm, b, up, x, owed_.defined());
  const Leg down = o_.legs.downward(b, context.step, &down_[b]);
  co_await recv_floats(comm, server_of(b), here, down);
}

Task<> PsSync::push(Communicator& comm, std::size_t b, Leg up, Slice<float> x, bool keeps_losses) {
  const std::vector<int> server{server_of(b)};
  if (keeps_losses) up.decoded = gradients_of(b);
  co_await send_floats(comm, server, x, up);
  if (keeps_losses) compress::keep_left(x, x, gradients_of(b));
}

void PsSync::arrived(std::size_t b) {
  const Bucket& bucket = this->bucket(b);
  const Tensor values = part_of(arena().values(), b), came = part_of(arena().gradients(), b);
  if (o_.legs.differences) {
    clear_padding(arena().gradients(), parameters_of(bucket));
    add_in_place(values.slice(), came.slice());
  } else {
    values.copy_from(came);
  }
  this->arena().changed(bucket.first, bucket.count);
}

Costs PsSync::costs() const {
  Costs costs = BucketSync::costs();
  costs.bytes_down = side_.own != nullptr ? side_.own->bytes_down() : 0;
  for (const auto& bytes : up_) costs.bytes_up += bytes.load(std::memory_order_relaxed);
  return costs;
}

/// What asks for a turn is under way in each server's turns, the rest all at once; each bucket has what is kept of its
/// round.
double PsSync::message_bytes() const {
  constexpr double kRound = 8 << 10;  // coroutines, requests; measured
  const TrainingFacts& f = side_.facts;
  double bytes = 0, most_in_turn = 0;
  for (const Bucket& b : plan().buckets) {
    const auto n = static_cast<std::size_t>(b.elements);
    const auto both =
        leads() ? static_cast<double>(room_to_send(o_.legs.up.get(), n) + room_to_receive(o_.legs.down.get(), n, 1))
                : 0;
    if (o_.legs.takes_turn(b.elements))
      most_in_turn = std::max(most_in_turn, both);
    else
      bytes += both;
    bytes += kRound;
    if (grouped())
      bytes += static_cast<double>(allreduce_room(b.allreduce, static_cast<int>(members_.size()), n, b.pieces));
  }
  return bytes + ParameterServer::kTurns * (f.servers > 0 ? f.servers : f.workers) * most_in_turn;
}

/// The server's model comes into the place of the gradients, and changes places with the worker's.
void PsSync::show_joint_model() {
  if (!drifts()) return;
  pull_whole();
  joint_.show();
}

void PsSync::hide_joint_model() {
  if (drifts()) joint_.hide();
}

std::optional<double> PsSync::drift() const { return drifts() ? std::optional(joint_.drift()) : std::nullopt; }

std::vector<LedgerRow> PsSync::ledger() const {
  std::vector<LedgerRow> rows;
  for (std::size_t b = accounts() ? plan().buckets.size() : 0; b-- > 0;) {  // the arena ends with what forward needs
    LedgerRow row{.parameter = bucket(b).name, .choice = "all", .elements = elements_in(bucket(b))};
    row.exchanges = exchanges_;
    row.sent = static_cast<double>(row.elements);
    row.bytes = static_cast<double>(up_[b].load());
    row.bytes_down = static_cast<double>(down_[b].load());
    account(b, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

Holders PsSync::leaders() const {
  const int group = std::max(1, o_.group);
  return {.place = leads() ? engine().rank() / group : -1, .count = (side_.facts.workers - 1) / group + 1};
}

}  // namespace laconic::dist
