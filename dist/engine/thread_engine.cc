#include "dist/engine/thread_engine.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <limits>
#include <utility>

#include "compress/codec.h"

namespace laconic::dist {

std::vector<Running*> DeviceOrder::take_ready() {
  const auto before = [](const Running* a, const Running* b) {
    const Operation &x = a->operation, &y = b->operation;
    return x.in_order != y.in_order ? x.in_order : !x.in_order && x.priority > y.priority;
  };
  std::stable_sort(waiting_.begin(), waiting_.end(), before);
  std::vector<Running*> ready;
  std::erase_if(waiting_, [&](Running* running) {
    if (running->operation.in_order)
      running->ready.wait();
    else if (!running->ready.reached())
      return false;
    if (running->operation.device.kind == Device::Kind::cuda) device_ = running->operation.device;
    ready.push_back(running);
    return true;
  });
  return ready;
}

void DeviceOrder::abandon() noexcept {
  waiting_.clear();
  try {
    synchronize(device_);
  } catch (const std::exception&) {
    // It works no more, or found what nobody waits for any more.
  }
}

ThreadEngine::ThreadEngine(std::function<std::unique_ptr<Transport>()> make, double timeout_seconds,
                           double tell_seconds)
    : watch_({.timeout_seconds = timeout_seconds,
              .tell_seconds = tell_seconds,
              .waiting = [this] { return waiting(); },
              .blocked = [this] { return queue_.blocked().has_value() || beside_waits_since_.has_value(); }}) {
  std::promise<void> ready;
  std::future<void> made = ready.get_future();
  thread_ = std::thread([this, ready = std::move(ready), make = std::move(make)]() mutable {
    pthread_setname_np(pthread_self(), "laconic-comm");
    try {
      transport_ = make();
      rank_ = transport_->rank();
      size_ = transport_->size();
      queue_.connect(*transport_);
      watch_.connect(*transport_);
    } catch (...) {
      return ready.set_exception(std::current_exception());
    }
    ready.set_value();
    serve();
    transport_.reset();
  });
  try {
    made.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

ThreadEngine::~ThreadEngine() {
  queue_.stop();
  thread_.join();
}

// ---- compute thread ----

Ticket ThreadEngine::submit(Operation operation) {
  const auto running = std::make_shared<Running>(Running{.operation = std::move(operation)});
  if (Trace::Row* row = Trace::current(); row && trace_.load()) {
    running->arrow = Trace::arrow_id({static_cast<std::uint64_t>(rank_), ++arrows_});
    row->arrow_leaves(running->arrow);
  }
  if (FlightRecorder* const flight = flight_.load())
    flight->compute(FlightEvent::Kind::submits, running->operation.name);
  if (size_ == 1)
    run_here(*running);
  else
    queue_.submit(running);
  return ticket_of(running);
}

void ThreadEngine::run_here(Running& running) {
  queue_.require_running();
  Scheduler here;
  std::vector<Running*> finished;
  begin(running, here, finished);
  here.run();
  if (!running.task.done())
    running.error = std::make_exception_ptr(
        CommError(concat(running.operation.name, ": waits for a message, but this is the only rank.")));
  running.release();
  running.done = true;
}

void ThreadEngine::work_beside(Beside* beside) {
  const std::lock_guard lock(beside_mutex_);
  beside_ = beside;
}

void ThreadEngine::run(std::string name, std::function<Task<>(Communicator&)> body, Device device, bool patiently) {
  const bool working = transport_->any_thread() && queue_.borrow(patiently);
  const Ticket ticket = submit({.name = std::move(name), .device = device, .body = std::move(body)});
  if (working) {
    try {
      while (!running_of(ticket)->done) turn();
    } catch (...) {
      fail(std::current_exception());
    }
    queue_.give_back();
  }
  wait_for(ticket, false, patiently);
}

void ThreadEngine::wait_for(const Ticket& ticket, bool exposed, bool patiently) {
  if (!ticket.valid()) return;
  const Running& awaited = *running_of(ticket);
  const Clock::time_point begin = Clock::now();
  if (FlightRecorder* const flight = flight_.load()) flight->compute(FlightEvent::Kind::waits, awaited.operation.name);
  const bool blocked = queue_.wait(&awaited, exposed, patiently);
  if (Trace::Row* row = Trace::current(); row && awaited.arrow) {
    const Clock::time_point end = Clock::now();
    if (blocked)
      row->add({.name = "waits for " + awaited.operation.name,
                .category = "wait",
                .begin = begin,
                .end = end,
                .arrows = {{awaited.arrow, end}}});
    row->arrow_arrives(awaited.arrow);
  }
  awaited.ended.wait();
  if (awaited.error) std::rethrow_exception(awaited.error);
}

void ThreadEngine::at(Phase phase, const std::string& name) {
  watch_.at(phase, name);
  if (FlightRecorder* const flight = flight_.load())
    flight->compute(phase == Phase::forward ? FlightEvent::Kind::forward : FlightEvent::Kind::backward, name);
}

void ThreadEngine::abort(const std::string& reason, int exit_code) noexcept {
  try {
    queue_.abort(reason, exit_code);
  } catch (...) {  // out of memory while ending: the others find out by their time-out
  }
}

EngineCounters ThreadEngine::counters() const {
  const auto [busy, exposed] = queue_.busy_and_exposed_seconds();
  return {transport_->traffic(), busy, exposed, transport_->peak_buffer_bytes(), transport_->sending_seconds()};
}

// ---- communication thread ----

void ThreadEngine::serve() {
  try {
    while (queue_.sleep_while_idle(watch_.beat_seconds()) && turn()) {
    }
  } catch (...) {
    fail(std::current_exception());
  }
  queue_.serve_aborts();
  fail(nullptr);  // whatever was still under way
}

/// One round of the communication thread's work; false if it is told to stop.
bool ThreadEngine::turn() {
  std::optional<RunningList> taken = queue_.take();
  if (!taken) return false;
  if (size_ == 1) {  // the rest is the compute thread's (run_here)
    watch_.tell_what_takes_long();
    return true;
  }
  if (!taken->empty()) watch_.moved();
  for (auto& running : *taken) slots_.add(std::move(running), [this](Running& first) { order_.add(first); });
  start_ready();
  scheduler_.run();
  finish();
  const bool moved = transport_->progress() > 0;
  if (moved) watch_.moved();
  if (watch_.due()) {
    beat();
    if (const auto blocked = queue_.blocked()) watch_.require_in_time(blocked->since, blocked->patient);
    if (beside_waits_since_) watch_.require_in_time(*beside_waits_since_, false);
  }
  scheduler_.run();
  finish();
  if (!moved && queue_.all_under_way())
    transport_->wait(order_.waits() ? std::min(watch_.beat_seconds(), Transport::kDevicePollSeconds)
                                    : watch_.beat_seconds());
  return true;
}

void ThreadEngine::start_ready() {
  if (!order_.waits()) return;
  for (Running* running : order_.take_ready()) {
    watch_.moved();
    begin(*running, scheduler_, finished_);
  }
}

void ThreadEngine::begin(Running& running, Scheduler& scheduler, std::vector<Running*>& finished) {
  const Operation& o = running.operation;
  const bool traced = trace_.load() != nullptr;
  FlightRecorder* const flight = flight_.load();
  const std::uint32_t run = ++runs_[o.slot];
  if (size_ > 1 && (traced || flight)) running.hops = std::make_unique<HopTrace>(rank_, run, traced, flight, o.name);
  running.comm = std::make_unique<TransportCommunicator>(*transport_, o.slot, o.priority, o.device, running.hops.get());
  running.task = supervise(running, finished);
  running.task.start(scheduler);
}

Task<> ThreadEngine::supervise(Running& running, std::vector<Running*>& finished) {
  const auto begin = Clock::now();
  const std::string& name = running.operation.name;
  entered_ = &running;
  FlightEvent event;
  event.slot = running.operation.slot, event.run = running.hops ? running.hops->run() : 0;
  const auto tell = [&](FlightEvent::Kind kind) {
    event.kind = kind;
    if (FlightRecorder* const flight = flight_.load()) flight->communication(event, name);
  };
  tell(FlightEvent::Kind::begins);
  try {
    co_await running.operation.body(*running.comm);
  } catch (const compress::OutOfRange& e) {
    running.error = std::make_exception_ptr(compress::OutOfRange(concat(name, ": ", e.what())));
  } catch (...) {
    running.error = std::current_exception();
  }
  if (Trace::Row* row = trace_.load(); row && running.hops && running.hops->traced())
    row->add(running.hops->event(name, begin, running.arrow));
  tell(FlightEvent::Kind::ends);
  finished.push_back(&running);
}

void ThreadEngine::finish() {
  while (!finished_.empty()) {
    RunningList dead;  // destroyed without the lock
    for (const Running* running : std::exchange(finished_, {}))
      dead.push_back(slots_.end(*running, [this](Running& next) { order_.add(next); }));
    // A body's captures must not outlive the wait, nor this turn, which a broken device may end.
    for (const auto& running : dead) running->release();
    start_ready();
    watch_.ended(dead.back()->operation.name);
    for (const auto& running : dead) running->ended = Event::now(running->operation.device);
    queue_.end(dead);
    scheduler_.run();
  }
}

void ThreadEngine::beat() {
  {
    const std::lock_guard lock(beside_mutex_);
    beside_waits_since_ = beside_ == nullptr ? std::nullopt : beside_->waits_since();
  }
  watch_.exchange_notes();
  watch_.tell_what_takes_long();
}

void ThreadEngine::wait_until(const std::function<bool()>& reached, const std::string& what) {
  struct Standing {
    ThreadEngine& engine;
    ~Standing() { engine.standing_ = nullptr; }
  } standing{*this};
  standing_ = entered_;
  stands_for_ = what;
  watch_.moved();
  while (!reached()) {
    queue_.require_going_on(what);
    transport_->progress();
    if (watch_.due()) beat();
    watch_.require_in_time({}, false);
    transport_->wait(std::min(watch_.beat_seconds(), Transport::kDevicePollSeconds));
  }
}

/// The one that stands for its device first, then by slot.
std::vector<WaitWatch::Waiting> ThreadEngine::waiting() const {
  std::vector<WaitWatch::Waiting> all;
  if (standing_ != nullptr) all.push_back({standing_->operation.name, "waits for " + stands_for_});
  slots_.for_each([&](const Running& running) {
    if (&running == standing_) return;
    all.push_back({running.operation.name, order_.waits(running)
                                               ? concat("waits for ", running.operation.device, " to come to it")
                                           : running.comm ? running.comm->waits_for()
                                                          : ""});
  });
  if (all.empty() && beside_waits_since_)
    all.push_back({"what was asked of a device last", "waits for other ranks to come to it"});
  return all;
}

void ThreadEngine::fail(std::exception_ptr error) {
  if (FlightRecorder* const flight = flight_.load(); flight && error) {
    FlightEvent event;
    event.kind = FlightEvent::Kind::fails;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      flight->communication(event, e.what());
    } catch (...) {  // nothing can be said of it
    }
  }
  scheduler_.clear();
  slots_.clear();
  finished_.clear();
  {
    const std::lock_guard lock(beside_mutex_);
    if (beside_ != nullptr) beside_->stop();
  }
  order_.abandon();  // nothing may be under way on memory that its owner now gives back
  queue_.fail(error);
}

}  // namespace laconic::dist
