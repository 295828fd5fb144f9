#include "dist/engine.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace laconic::dist {

Engine::Engine(std::function<std::unique_ptr<Transport>()> make, Options options)
    : options_(options),
      beat_seconds_(std::min(2.0, options.timeout_seconds / 8)),
      quiet_seconds_(std::min(5.0, options.timeout_seconds / 4)) {
  std::exception_ptr error;
  bool ready = false;
  thread_ = std::thread([&, this, make = std::move(make)] {
    pthread_setname_np(pthread_self(), "laconic-comm");
    try {
      transport_ = make();
      rank_ = transport_->rank();
      size_ = transport_->size();
      signs_.resize(static_cast<std::size_t>(size_));
    } catch (...) {
      error = std::current_exception();
    }
    const bool usable = error == nullptr;
    {
      std::lock_guard lock(mutex_);
      ready = true;
      changed_.notify_all();
    }  // from here on the constructor's variables may be gone
    if (usable) serve_until_stopped();
    transport_.reset();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready; });
  lock.unlock();
  if (error) {
    thread_.join();
    std::rethrow_exception(error);
  }
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);  // the thread destroys the transport once it has seen stop_, not before
    stop_ = true;
    asked_.notify_all();
    transport_->wake();
  }
  thread_.join();
}

int Engine::reserve_slots(int count) {
  constexpr int kMost = std::numeric_limits<int>::max() / TransportCommunicator::kSlotsPerOperation;
  require<Error>(count >= 0 && count <= kMost - next_slot_, "engine: ", count, " more slots after ", next_slot_,
                 " are too many: there are ", kMost, " in all. Reserve them once and use them again.");
  return std::exchange(next_slot_, next_slot_ + count);
}

// ---- compute thread ----

Ticket Engine::submit(Operation operation) {
  auto running = std::make_unique<Running>();
  running->operation = std::move(operation);
  running->ticket = std::make_shared<Ticket::State>();
  const Ticket ticket(running->ticket);
  if (Trace::Row* row = Trace::current(); row && trace_.load()) {
    running->ticket->name = running->operation.name;
    running->ticket->arrow = Trace::arrow_id({static_cast<std::uint64_t>(rank_), ++arrows_});
    row->arrow_leaves(running->ticket->arrow);
  }
  if (size_ == 1) {
    run_here(*running);
    return ticket;
  }
  bool asleep = false, working = false;
  if (!borrowed_) running->ready = Event::now(running->operation.device);  // else the order of work is this thread's
  {
    std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    submitted_.push_back(std::move(running));
    if (open_++ == 0) busy_since_ = Clock::now();
    asleep = idle_ && !borrowed_;
    working = borrowed_;  // in run(): this thread sees it itself
    if (asleep) asked_.notify_all();
  }
  if (!asleep && !working) transport_->wake();
  return ticket;
}

void Engine::run_here(Running& running) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  Scheduler here;
  std::vector<Running*> finished;
  running.comm = std::make_unique<TransportCommunicator>(*transport_, running.operation.slot,
                                                         running.operation.priority, running.operation.device);
  running.task = supervise(running, finished);
  running.task.start(here);
  here.run();
  const bool done = running.task.done();
  running.comm->cancel();
  running.task = {};
  running.ticket->done = true;
  running.ticket->error = running.error;
  if (!done)
    running.ticket->error = std::make_exception_ptr(
        CommError(concat(running.operation.name, ": waits for a message, but this is the only rank.")));
}

void Engine::at_failure(std::function<void()> f) {
  const std::lock_guard lock(at_failure_mutex_);
  at_failure_ = std::move(f);
}

void Engine::wait(const Ticket& ticket, bool patiently) { wait_for(ticket, true, patiently); }

void Engine::run(std::string name, std::function<Task<>(Communicator&)> body, Device device, bool patiently) {
  Operation operation{
      .name = std::move(name), .slot = 0, .priority = 0, .device = device, .body = std::move(body)};
  {
    std::lock_guard lock(mutex_);
    borrowed_ = transport_->any_thread() && idle_ && open_ == 0 && !failure_ && !stop_ && !abort_asked_;
  }
  if (!borrowed_)
    return wait_for(submit(std::move(operation)), false, patiently);  // only this thread changes borrowed_
  wait_working(submit(std::move(operation)), patiently);
}

/// Does the communication thread's work until the operation has ended, then gives everything back.
void Engine::wait_working(const Ticket& ticket, bool patiently) {
  {
    std::lock_guard lock(mutex_);
    waiting_since_ = Clock::now();
    patient_ = patiently;
  }
  try {
    while (!ticket.state_->done) turn();
  } catch (...) {
    fail(std::current_exception());
  }
  std::lock_guard lock(mutex_);
  waiting_since_.reset();
  borrowed_ = false;
  if (failure_) asked_.notify_all();
  if (ticket.state_->error) std::rethrow_exception(ticket.state_->error);
  if (!ticket.state_->done) std::rethrow_exception(failure_);
}

void Engine::wait_for(const Ticket& ticket, bool exposed, bool patiently) {
  if (!ticket.valid()) return;
  std::unique_lock lock(mutex_);
  const Ticket::State& state = *ticket.state_;
  if (!state.done && !failure_) {
    const Clock::time_point begin = Clock::now();
    waiting_since_ = begin;
    patient_ = patiently;
    changed_.wait(lock, [&] { return state.done || failure_; });  // the communication thread watches the time-out
    waiting_since_.reset();
    const Clock::time_point end = Clock::now();
    if (exposed) exposed_seconds_ += seconds(end - begin);
    if (Trace::Row* row = Trace::current(); row && state.arrow)
      row->add({.name = "waits for " + state.name,
                .category = "wait",
                .begin = begin,
                .end = end,
                .arrows = {{state.arrow, end}}});
  }
  if (Trace::Row* row = Trace::current(); row && state.arrow) row->arrow_arrives(state.arrow);
  if (state.done) state.ended.wait();
  if (state.done && state.error) std::rethrow_exception(state.error);
  if (!state.done) std::rethrow_exception(failure_);
}

void Engine::drain() {
  std::unique_lock lock(mutex_);
  waiting_since_ = Clock::now();
  patient_ = false;
  changed_.wait(lock, [&] { return open_ == 0 || failure_; });
  waiting_since_.reset();
  ended_.wait();
  if (failure_) std::rethrow_exception(failure_);
}

void Engine::halt() noexcept {
  std::unique_lock lock(mutex_);
  if (failure_) return;
  if (open_ == 0) {  // what has ended may still be under way on the device
    const Event ended = ended_;
    lock.unlock();
    try {
      ended.wait();
    } catch (const Error&) {
      // The device is broken: it does nothing any more.
    }
    return;
  }
  halt_asked_ = true;
  asked_.notify_all();
  transport_->wake();
  changed_.wait(lock, [&] { return failure_ != nullptr; });
}

void Engine::abort(const std::string& reason, int exit_code) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (!abort_asked_) {
      abort_asked_ = true;
      abort_reason_ = reason;
      abort_code_ = exit_code;
    }
    asked_.notify_all();
    transport_->wake();
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return abort_done_; });
  } catch (...) {  // out of memory while ending: the others find out by their time-out
  }
}

EngineCounters Engine::counters() const {
  std::lock_guard lock(mutex_);
  const double running = open_ > 0 ? seconds(Clock::now() - busy_since_) : 0;
  Traffic sent = transport_->traffic();
  sent.messages += messages_beside_.load(std::memory_order_relaxed);
  sent.bytes += bytes_beside_.load(std::memory_order_relaxed);
  return {sent, comm_seconds_ + running, exposed_seconds_, transport_->peak_buffer_bytes()};
}

// ---- communication thread ----

void Engine::serve_until_stopped() {
  try {
    serve();
  } catch (...) {
    fail(std::current_exception());
  }
  // After a failure only an abort is still of interest.
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return stop_ || (abort_asked_ && !abort_done_); });
    if (!abort_asked_ || abort_done_) break;
    const std::string reason = abort_reason_;
    lock.unlock();
    transport_->abort(reason, abort_code_);
    lock.lock();
    abort_done_ = true;
    changed_.notify_all();
  }
  lock.unlock();
  fail(nullptr);  // whatever was still under way
}

void Engine::serve() {
  last_progress_ = Clock::now();
  while (sleep_while_idle() && turn()) {
  }
}

/// False if the engine failed while the compute thread worked.
bool Engine::sleep_while_idle() {
  std::unique_lock lock(mutex_);
  if (open_ == 0) {
    idle_ = true;
    const auto asked = [&] {
      return !borrowed_ && (stop_ || abort_asked_ || halt_asked_ || failure_ || !submitted_.empty());
    };
    // Wakes now and then to hear what other ranks ask.
    const std::chrono::duration<double> beat(std::min(beat_seconds_, 1e8));
    if (size_ == 1) asked_.wait(lock, asked);
    while (!asked_.wait_for(lock, beat, asked) && borrowed_) {
    }
    idle_ = false;
  }
  return failure_ == nullptr;
}

/// One round of the communication thread's work; false if it is told to stop.
bool Engine::turn() {
  if (!take_submitted()) return false;
  start_ready();
  scheduler_.run();
  finish();
  const bool moved = transport_->progress() > 0;
  if (moved) last_progress_ = Clock::now();
  beat();
  scheduler_.run();
  finish();
  bool under_way;
  {
    std::lock_guard lock(mutex_);
    under_way = open_ > 0 && submitted_.empty();
  }
  if (!moved && under_way)
    transport_->wait(unready_.empty() ? beat_seconds_ : std::min(beat_seconds_, Transport::kDevicePollSeconds));
  return true;
}

bool Engine::take_submitted() {
  RunningList taken;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return false;
    if (abort_asked_) throw CommError(abort_reason_);
    if (halt_asked_) throw CommError("engine: halted while operations were under way");
    taken.swap(submitted_);
  }
  if (taken.empty()) return true;
  last_progress_ = Clock::now();
  std::vector<Running*> startable;
  for (auto& running : taken) {
    RunningList& queue = slots_[running->operation.slot];
    queue.push_back(std::move(running));
    if (queue.size() > 1) continue;
    if (queue.front()->operation.in_order)
      start_if_ready(*queue.front());
    else
      startable.push_back(queue.front().get());
  }
  std::stable_sort(startable.begin(), startable.end(),
                   [](const Running* a, const Running* b) { return a->operation.priority > b->operation.priority; });
  for (Running* running : startable) start_if_ready(*running);
  return true;
}

void Engine::start_if_ready(Running& running) {
  if (running.operation.in_order)
    running.ready.wait();
  else if (!running.ready.reached())
    return unready_.push_back(&running);
  start(running);
}

void Engine::start_ready() {
  if (unready_.empty()) return;
  const std::vector<Running*> waiting = std::exchange(unready_, {});
  for (Running* running : waiting) start_if_ready(*running);
  if (unready_.size() < waiting.size()) last_progress_ = Clock::now();
}

void Engine::start(Running& running) {
  running.comm = std::make_unique<TransportCommunicator>(*transport_, running.operation.slot,
                                                         running.operation.priority, running.operation.device);
  if (running.operation.device.kind == Device::Kind::cuda) device_ = running.operation.device;
  if (trace_.load()) {
    const int slot = running.operation.slot;
    running.hops = std::make_unique<HopTrace>(rank_, slot, ++traced_runs_[slot]);
    running.comm->set_trace(running.hops.get());
  }
  running.task = supervise(running, finished_);
  running.task.start(scheduler_);
}

Task<> Engine::supervise(Running& running, std::vector<Running*>& finished) {
  const auto begin = Clock::now();
  entered_ = &running;
  try {
    co_await running.operation.body(*running.comm);
  } catch (...) {
    running.error = std::current_exception();
  }
  if (Trace::Row* row = trace_.load(); row && running.hops)
    row->add(running.hops->event(running.operation.name, begin, running.ticket->arrow));
  finished.push_back(&running);
}

void Engine::finish() {
  while (!finished_.empty()) {
    std::vector<Running*> ended;
    ended.swap(finished_);
    RunningList dead;  // destroyed without the lock
    for (Running* running : ended) {
      RunningList& queue = slots_[running->operation.slot];
      dead.push_back(std::move(queue.front()));
      queue.erase(queue.begin());
      if (!queue.empty()) start_if_ready(*queue.front());
    }
    last_operation_ = dead.back()->operation.name;
    last_ended_ = Clock::now();
    for (auto& running : dead) {
      running->comm->cancel();
      running->task = {};
      running->operation.body = nullptr;  // what it captured must not outlive the wait
      running->ready = Event::now(running->operation.device);
    }
    {
      std::lock_guard lock(mutex_);
      for (auto& running : dead) {
        running->ticket->error = std::move(running->error);
        running->ticket->ended = running->ready;
        if (running->operation.device.kind == Device::Kind::cuda) ended_ = running->ready;
        running->ticket->done = true;
      }
      open_ -= dead.size();
      if (open_ == 0) comm_seconds_ += seconds(Clock::now() - busy_since_);
      changed_.notify_all();
    }
    scheduler_.run();
  }
}

void Engine::fail(std::exception_ptr error) {
  scheduler_.clear();
  for (auto& [slot, queue] : slots_)
    for (auto& running : queue) {
      if (running->comm) running->comm->cancel();
      running->task = {};
    }
  slots_.clear();
  unready_.clear();
  finished_.clear();
  {
    const std::lock_guard lock(at_failure_mutex_);
    if (at_failure_) at_failure_();
  }
  try {
    synchronize(device_);  // nothing may be under way on memory that its owner now gives back
  } catch (const std::exception&) {
    // It works no more, or found what nobody waits for any more.
  }
  std::lock_guard lock(mutex_);
  submitted_.clear();
  open_ = 0;
  if (error && !failure_) failure_ = error;
  if (!failure_) failure_ = std::make_exception_ptr(CommError("engine: stopped"));
  changed_.notify_all();
}

}  // namespace laconic::dist
