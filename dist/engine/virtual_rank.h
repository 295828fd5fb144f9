#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <tuple>
#include <utility>
#include <vector>

#include "dist/engine/virtual_time.h"
#include "dist/transport/transport.h"

/// The parts of run_in_virtual_time(): the network with the ranks on it, and a rank's transport and engine.
namespace laconic::dist {

class VirtualRank;

/// The network between the ranks, and who may run.
class VirtualWorld {
 public:
  explicit VirtualWorld(const VirtualNetwork& network);
  void run(const std::function<void(VirtualEngine&)>& body);

  // ---- of ranks, while they may run ----

  void send(VirtualRank& from, Request& request);
  void receive(VirtualRank& to, Request& request);
  void cancel(VirtualRank& rank, Request& request);
  /// Returns when `rank` waits no more, or when the world has failed.
  void wait(VirtualRank& rank);
  /// All ranks end with this error. The first one stays.
  void fail(std::exception_ptr error) {
    if (!failure_) failure_ = std::move(error);
  }
  void require_going_on() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  /// When step() will next do something. LinkTime::max(): there is nothing to do.
  LinkTime next_time() const { return std::min(next_turn().first, model_.next_decision().value_or(LinkTime::max())); }

  const VirtualNetwork& network() const { return network_; }

  static LinkDuration nanoseconds(double seconds) { return LinkDuration(std::llround(1e9 * seconds)); }
  static double seconds_of(LinkTime t) { return std::chrono::duration<double>(t.time_since_epoch()).count(); }

 private:
  struct Receive {
    VirtualRank* by = nullptr;
    Request* request = nullptr;
    LinkTime asked{};
  };
  struct Flight {
    VirtualRank* from;
    Request* send;  // until it is sent, or cancelled
    std::size_t bytes;
    std::vector<std::byte> contents{};  // until somebody receives them
    Receive to{};
    std::optional<LinkTime> due{};
    bool dropped = false;  // its receive was cancelled
  };
  struct Channel {  // of (sender, receiver, slot): at most one of the two holds anything
    std::deque<SwitchModel::Id> sends;
    std::deque<Receive> receives;
  };
  using Flights = std::map<SwitchModel::Id, Flight>;

  Channel& channel(int sender, int receiver, int slot) {
    return network_.mirrored ? channels_[{0, 0, slot}] : channels_[{sender, receiver, slot}];
  }
  void match(Flights::iterator flight, const Receive& receive);
  void deliver(Flights::iterator flight);
  bool step();
  std::pair<LinkTime, VirtualRank*> next_turn() const;
  VirtualRank* next_rank() const;
  bool pass_on(VirtualRank* from);
  std::string standstill() const;

  const VirtualNetwork network_;
  SwitchModel model_;
  std::vector<SwitchModel::Event> events_;
  Flights flights_;
  std::map<std::tuple<int, int, int>, Channel> channels_;
  std::vector<std::unique_ptr<VirtualRank>> ranks_;
  std::exception_ptr failure_;
};

class VirtualTransport final : public Transport {
 public:
  VirtualTransport(VirtualWorld& world, VirtualRank& rank) : world_(world), rank_(rank) {
    set_window({.messages = 2, .small_bytes = 4096, .stall_seconds = kForever});  // as of an emulated network
  }
  int rank() const override;
  int size() const override { return world_.network().ranks; }
  void wake() override {}
  void abort(const std::string& reason, int) override { world_.fail(std::make_exception_ptr(CommError(reason))); }
  std::optional<Note> hear() override { return {}; }

  void complete_later(LinkTime at, Request& request, std::size_t bytes, std::exception_ptr error) {
    completions_.emplace(at, Completion{&request, bytes, std::move(error)});
  }
  bool forget(const Request& request) {
    return std::erase_if(completions_, [&](const auto& c) { return c.second.request == &request; }) > 0;
  }
  std::optional<LinkTime> next_completion() const {
    return completions_.empty() ? std::nullopt : std::optional(completions_.begin()->first);
  }

 private:
  struct Completion {
    Request* request;
    std::size_t bytes;
    std::exception_ptr error;
  };
  void start(Request& request) override;
  void cancel_started(Request& request) override;
  void start_tell(int, const std::string&) override {}
  int poll() override;
  void sleep(double) override {}

  VirtualWorld& world_;
  VirtualRank& rank_;
  std::multimap<LinkTime, Completion> completions_;
};

class VirtualRank final : public VirtualEngine, public GhostWork {
 public:
  VirtualRank(VirtualWorld& world, int rank) : world_(world), transport_(world, *this) {
    rank_ = rank;
    size_ = world.network().ranks;
  }
  ~VirtualRank() override { halt(); }

  // ---- the compute thread ----

  double now() const override { return VirtualWorld::seconds_of(computed_to_); }
  void compute(double seconds) override {
    computed_to_ += VirtualWorld::nanoseconds(seconds);
    if (world_.network().work.taken_from_computing == 0) return;
    computes_ = true;
    wait_while([this] { return world_.next_time() < computed_to_; });
    computes_ = false;
  }

  Ticket submit(Operation operation) override {
    world_.require_going_on();
    auto running = std::make_shared<Running>(Running{.operation = std::move(operation)});
    submitted_.emplace_back(computed_to_, running);
    ++open_;
    return ticket_of(std::move(running));
  }
  void wait(const Ticket& ticket) override {
    if (!ticket.valid()) return;
    const LinkTime before = computed_to_;
    await(*running_of(ticket));
    exposed_ += computed_to_ - before;
  }
  void run(std::string name, std::function<Task<>(Communicator&)> body, Device device, bool = false) override {
    const Ticket ticket = submit({.name = std::move(name), .device = device, .body = std::move(body)});
    await(*running_of(ticket));
  }
  void drain() override {
    wait_while([this] { return open_ > 0; });
    computed_to_ = std::max(computed_to_, last_ended_);
  }
  void halt() noexcept override {
    scheduler_.clear();
    slots_.clear(), submitted_.clear(), starting_.clear(), finished_.clear();
    open_ = 0;
  }
  void abort(const std::string& reason, int exit_code) noexcept override { transport_.abort(reason, exit_code); }
  void wait_until(const std::function<bool()>&, const std::string&) override {}
  void count_sent(Traffic more) override { transport_.count_sent(more); }
  void work_beside(Beside*) override {}
  EngineCounters counters() const override {
    const auto seconds = [](LinkDuration d) { return std::chrono::duration<double>(d).count(); };
    return {transport_.traffic(), seconds(busy_), seconds(exposed_), transport_.peak_buffer_bytes()};
  }
  void set_trace(Trace::Row*) override {}

  // ---- the world's ----

  /// The compute thread, from start to end.
  void run_body(const std::function<void(VirtualEngine&)>& body) {
    OnComputeThread work(*this);
    body(*this);
  }
  bool waits() const { return waits_ && waits_(); }
  LinkTime computed_to() const { return computed_to_; }
  bool ended = false;
  std::binary_semaphore may_run{0};  ///< one rank runs at a time

  /// When the communication thread has something to do.
  std::optional<LinkTime> next_turn() const {
    std::optional<LinkTime> at = transport_.next_completion();
    if (!submitted_.empty() && (!at || submitted_.front().first < *at)) at = submitted_.front().first;
    if (at) at = std::max(*at, free_);
    return at;
  }
  /// One round of its work, as ThreadEngine::turn().
  void turn(LinkTime at) {
    GhostWork* const before = std::exchange(GhostWork::current, this);
    now_ = at;
    while (!submitted_.empty() && submitted_.front().first <= at) {
      if (under_way_++ == 0) busy_since_ = submitted_.front().first;
      slots_.add(std::move(submitted_.front().second), [this](Running& first) { starting_.push_back(&first); });
      submitted_.pop_front();
    }
    start_all();
    scheduler_.run();
    finish();
    transport_.progress();
    scheduler_.run();
    finish();
    free_ = now_;
    GhostWork::current = before;
  }
  LinkTime thread_time() const { return now_; }  ///< of the communication thread, in its turn
  VirtualTransport& transport() { return transport_; }
  void handles_message(std::size_t bytes) {
    charge(world_.network().work.per_message, 1);
    charge(world_.network().work.per_byte, bytes);
  }
  std::string waits_for() const {
    std::string text;
    slots_.for_each([&](const Running& running) {
      if (running.comm && text.empty()) text = concat(running.operation.name, " ", running.comm->waits_for());
    });
    return text.empty() ? "nothing" : text;
  }

 private:
  /// While it lives, work on ghosts takes the compute thread's time.
  class OnComputeThread final : public GhostWork {
   public:
    explicit OnComputeThread(VirtualRank& rank) : rank_(rank), before_(std::exchange(current, this)) {}
    ~OnComputeThread() { current = before_; }
    OnComputeThread(const OnComputeThread&) = delete;
    OnComputeThread& operator=(const OnComputeThread&) = delete;
    GhostPayloads payloads() const override { return rank_.payloads(); }
    void did(Work work, std::size_t amount) override {
      rank_.compute(rank_.world_.network().work.of(work) * static_cast<double>(amount));
    }

   private:
    VirtualRank& rank_;
    GhostWork* const before_;
  };

  GhostPayloads payloads() const override { return world_.network().payloads; }
  void did(Work work, std::size_t amount) override { charge(world_.network().work.of(work), amount); }
  void charge(double each, std::size_t amount) {
    const double seconds = each * static_cast<double>(amount);
    now_ += VirtualWorld::nanoseconds(seconds);
    if (computes_) computed_to_ += VirtualWorld::nanoseconds(world_.network().work.taken_from_computing * seconds);
  }

  void wait_while(std::function<bool()> condition) {
    waits_ = std::move(condition);
    world_.wait(*this);
    waits_ = nullptr;
    world_.require_going_on();
  }
  void await(const Running& running) {
    wait_while([&running] { return !running.done; });
    computed_to_ = std::max(computed_to_, running.ended_at);
    if (running.error) std::rethrow_exception(running.error);
  }
  void start_all() {
    std::stable_sort(starting_.begin(), starting_.end(),
                     [](const Running* a, const Running* b) { return a->operation.priority > b->operation.priority; });
    for (Running* running : std::exchange(starting_, {})) {
      const Operation& o = running->operation;
      running->comm = std::make_unique<TransportCommunicator>(transport_, o.slot, o.priority, o.device);
      running->task = supervise(*running);
      running->task.start(scheduler_);
    }
  }
  Task<> supervise(Running& running) {
    try {
      co_await running.operation.body(*running.comm);
    } catch (...) {
      running.error = std::current_exception();
    }
    finished_.push_back(&running);
  }
  void finish() {
    while (!finished_.empty()) {
      for (Running* running : std::exchange(finished_, {})) {
        const auto dead = slots_.end(*running, [this](Running& next) { starting_.push_back(&next); });
        dead->release();
        dead->ended_at = last_ended_ = now_;
        dead->done = true;
        --open_;
        if (--under_way_ == 0) busy_ += now_ - busy_since_;
      }
      start_all();
      scheduler_.run();
    }
  }

  VirtualWorld& world_;
  VirtualTransport transport_;
  std::deque<std::pair<LinkTime, std::shared_ptr<Running>>> submitted_;
  OperationSlots slots_;
  std::vector<Running*> starting_, finished_;
  Scheduler scheduler_;
  std::function<bool()> waits_;  // of the compute thread
  bool computes_ = false;        // meanwhile
  LinkTime computed_to_{}, now_{}, free_{}, busy_since_{}, last_ended_{};
  LinkDuration exposed_{0}, busy_{0};
  int open_ = 0, under_way_ = 0;  // operations: not ended; of them, begun
};

}  // namespace laconic::dist
