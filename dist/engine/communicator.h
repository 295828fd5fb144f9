#pragma once
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/memory.h"
#include "core/slice.h"
#include "core/stream.h"
#include "dist/engine/task.h"

namespace laconic::dist {

class Endpoint;
class HopTrace;
class RequestPool;

/// The longest message where both directions of a link are busy. Longer ones lose 25 to 45 % of it over TCP: MPI asks
/// the receiver first, and the answer waits behind all that the receiver sends. These go at once.
inline constexpr std::size_t kMessageBytes = std::size_t{256} << 10;

/// One transfer under way. Belongs to the communicator that posted it; transports fill it in and call complete().
struct Request {
  /// device: nothing travels, it is complete when the device has come to it.
  enum class Kind : unsigned char { send, recv, device };
  Kind kind = Kind::send;
  int peer = 0;               ///< world rank on the other side
  int slot = 0;               ///< number of the plan's operation and its channel: messages match by it
  std::byte* data = nullptr;  ///< only read if kind is send
  std::size_t size = 0;       ///< bytes to send, or room for what comes
  Device device{};            ///< device of `data`
  std::size_t moved = 0;      ///< bytes that were sent or came
  bool done = false;
  std::exception_ptr error{};
  std::coroutine_handle<> waiter{};
  Scheduler* scheduler = nullptr;
  RequestPool* pool = nullptr;
  const Endpoint* owner = nullptr;
  HopTrace* hops = nullptr;  ///< told of it, for a trace
  std::uint32_t number =
      0;  ///< its number among the operation's requests in this direction with this peer, for a trace
  const Request* carries =
      nullptr;  ///< the one whose bytes, of a device's memory, this one moves (transport/staging.h)

  /// Only on the thread that runs the waiting coroutine.
  void complete(std::size_t bytes, std::exception_ptr failure = nullptr) {
    moved = bytes;
    error = std::move(failure);
    done = true;
    if (hops) [[unlikely]] tell_trace();
    if (waiter) scheduler->later(std::exchange(waiter, {}));
  }

 private:
  void tell_trace() const;  // hop_trace.cc
};

/// The requests of one communicator, used again and again; addresses are stable.
class RequestPool {
 public:
  Request& take(Request::Kind kind, int peer, int slot, Slice<std::byte> memory, const Endpoint* owner = nullptr) {
    if (free_.empty()) free_.push_back(&requests_.emplace_back());
    Request& r = *free_.back();
    free_.pop_back();
    r = Request{.kind = kind,
                .peer = peer,
                .slot = slot,
                .data = memory.data(),
                .size = memory.size(),
                .device = memory.device(),
                .pool = this,
                .owner = owner};
    live_.push_back(&r);
    return r;
  }
  void give_back(Request& r) {
    if (r.kind != Request::Kind::device) {
      const bool came = r.kind == Request::Kind::recv;
      (came ? received_bytes_ : sent_bytes_) += r.moved;
      ++(came ? received_ : sent_);
    }
    std::erase(live_, &r);
    free_.push_back(&r);
  }
  std::span<Request* const> live() const { return live_; }  ///< posted and not yet awaited to the end
  std::size_t sent_bytes() const { return sent_bytes_; }
  std::size_t received_bytes() const { return received_bytes_; }
  std::size_t sent() const { return sent_; }  ///< messages
  std::size_t received() const { return received_; }

 private:
  std::deque<Request> requests_;
  std::vector<Request*> free_, live_;
  std::size_t sent_bytes_ = 0, received_bytes_ = 0, sent_ = 0, received_ = 0;
};

/// Returned by send and recv: co_await it once. It yields the bytes that were moved, or throws CommError.
/// The transfer is under way from the call on, so two of them may be awaited one after the other.
class [[nodiscard]] Transfer {  // trivially destructible: see task.h
 public:
  Transfer() = default;  ///< finished already, 0 bytes
  explicit Transfer(Request& request) : request_(&request) {}

  bool await_ready() const noexcept { return request_ == nullptr || request_->done; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) const noexcept {
    request_->scheduler = coroutine.promise().scheduler;
    request_->waiter = coroutine;
  }
  std::size_t await_resume() const {
    if (request_ == nullptr) return 0;
    const std::exception_ptr error = std::move(request_->error);
    const std::size_t moved = request_->moved;
    request_->pool->give_back(*request_);
    if (error) std::rethrow_exception(error);
    return moved;
  }

 private:
  Request* request_ = nullptr;
};

/// Ranks that send each other messages within one operation.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual int rank() const = 0;  ///< 0 .. size()-1
  virtual int size() const = 0;  ///< N >= 1

  /// Transfers; leave the memory alone until they were awaited. Messages of one operation between two ranks keep their
  /// order; messages of other operations never mix with them.
  Transfer send(int to, Slice<const std::byte> bytes) {
    // A request describes both directions; the memory of a send is only read.
    return post(Request::Kind::send, to, {const_cast<std::byte*>(bytes.data()), bytes.size(), bytes.device()});
  }
  /// What comes may be shorter; yields its bytes.
  Transfer recv(int from, Slice<std::byte> bytes) { return post(Request::Kind::recv, from, bytes); }

  /// Scratch memory that came (or, if negative, went), for the counters.
  virtual void count_buffer(std::ptrdiff_t bytes) = 0;

  /// Forgets every transfer that was not awaited to its end; afterwards nobody touches the memory they were given.
  virtual void cancel() = 0;

 protected:
  virtual Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory) = 0;
};

/// An endpoint whose ranks can form groups, so that every collective runs on it: over MPI, and between threads of one
/// process. A view: transport, group, slot, priority; making one costs little and sends nothing. Used by one thread
/// only.
class Communicator : public Endpoint {
 public:
  /// This communicator cut down to some of its ranks, in this order; own rank among them. Local: sends nothing, so
  /// every member must name the same ranks. Messages of both between two ranks share one order.
  virtual std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) = 0;

  /// All its ranks with a message order of their own, so that parts of one operation may run beside each other
  /// (collective/pieces.h). 0 <= index < kChannels; a channel has no further ones. Local: sends nothing.
  virtual std::unique_ptr<Communicator> channel(int index) = 0;
  static constexpr int kChannels = 8;

  /// Complete when the device has done what the calling thread asked of it so far (DeviceComes of core/base/steps.h);
  /// other operations go on meanwhile. It throws what kernels have found, as synchronize() does. Here it just waits.
  virtual Transfer device_comes(Device device) {
    synchronize(device);
    return {};
  }

  /// Ends every transfer under way, and those still to come, with this error, so that all coroutines that use this
  /// communicator or views of it come to their end.
  virtual void end(std::exception_ptr error) = 0;
};

/// f() reads what a rank has sent, and its DataError becomes a CommError: "WHO is no message: ..."
template <class F, class... Parts>
auto reading(F f, const Parts&... who) {
  try {
    return f();
  } catch (const DataError& e) {
    throw CommError(concat(who..., " is no message: ", e.what()));
  }
}

/// Memory for messages on their way, from the caching allocator, contents undefined. Cancels what its communicator has
/// under way before it goes, so that a coroutine that ends by an exception never leaves a transfer behind that writes
/// into freed memory.
template <class T>
class Scratch {
 public:
  Scratch(Endpoint& comm, std::size_t elements, Device device)
      : comm_(comm), storage_(elements * sizeof(T), device), elements_(elements) {
    comm_.count_buffer(bytes());
  }
  ~Scratch() {
    comm_.cancel();
    comm_.count_buffer(-bytes());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Slice<T> slice() const { return {reinterpret_cast<T*>(storage_.data()), elements_, storage_.device()}; }
  Slice<T> first(std::size_t count) const { return slice().first(count); }

 private:
  std::ptrdiff_t bytes() const { return static_cast<std::ptrdiff_t>(elements_ * sizeof(T)); }

  Endpoint& comm_;
  Storage storage_;
  std::size_t elements_;
};

}  // namespace laconic::dist
