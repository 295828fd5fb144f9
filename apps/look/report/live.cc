#include "apps/look/report/live.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "apps/look/json_log.h"
#include "apps/look/report/report.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parse.h"

namespace laconic {
namespace {

constexpr std::size_t kMostConnections = 16, kMostRequestBytes = 8192, kMostDrainedBytes = 1 << 20;
constexpr double kRequestSeconds = 10;  // for a request to come, and for an answer to be taken
constexpr double kQuietSeconds = 30;    // until 204
constexpr double kDrainSeconds = 1;

/// A file descriptor that is closed.
class OwnDescriptor {
 public:
  explicit OwnDescriptor(int fd = -1) : fd_(fd) {}
  ~OwnDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  OwnDescriptor(OwnDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// An answer with its head. The connection ends after it.
std::string http(const char* status, const char* type, std::string_view body) {
  return concat("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(),
                "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n", body);
}
std::string refusal(const char* status) { return http(status, "text/plain", concat(status, "\n")); }

/// Somebody who asks one thing: reading, then held until there is an answer, then writing, then draining, for what was
/// not read when a connection is closed makes the other side lose the answer.
struct Connection {
  enum class State { reading, held, writing, draining, over };
  OwnDescriptor fd;
  State state = State::reading;
  std::string in{}, out{};
  std::size_t sent = 0, drained = 0;
  std::uint64_t after = 0;  ///< the version that the caller has, of one that is held
  Clock::time_point since = Clock::now();

  void enter(State next) { state = next, since = Clock::now(); }
  void answer(std::string text) {
    out = std::move(text);
    enter(State::writing);
  }
};

}  // namespace

LiveAddress LiveAddress::parse(const std::string& text, const std::string& where) {
  LiveAddress address;
  const auto colon = text.rfind(':');
  const std::string host = colon == text.npos ? "" : text.substr(0, colon);
  const auto port = number_from<int>(colon == text.npos ? text : text.substr(colon + 1));
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (colon != text.npos) address.host = brackets ? host.substr(1, host.size() - 2) : host;
  if (address.host == "localhost") address.host = "127.0.0.1";
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const bool is_host = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found) == 0;
  if (found) ::freeaddrinfo(found);
  require<UsageError>(is_host && !address.host.empty() && port && *port >= 0 && *port <= 65535, "'", text,
                      "' is no port from 0 to 65535 (", where,
                      "): give one, as 8080, or with an address of this machine, as 0.0.0.0:8080");
  address.port = *port;
  return address;
}

class LivePage::Server {
 public:
  Server(const LiveAddress& address, const std::string& title, double pace) : run_{.title = title}, pace_(pace) {
    listen_at(address);
    wake_ = OwnDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    require<Error>(wake_ >= 0, "--live: ", std::strerror(errno));
    sigset_t all, before;  // signals are the training's
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { serve(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Server() {
    ended_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
    thread_.join();
  }

  /// Called by the training.
  void tell(std::string text) {
    Line* const line = new Line{std::move(text), newest_.load(std::memory_order_relaxed)};
    while (!newest_.compare_exchange_weak(line->before, line, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  const std::string& url() const { return url_; }

 private:
  using State = Connection::State;

  void listen_at(const LiveAddress& address) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    const int failed = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
    require<Error>(failed == 0, "--live: ", address.host, ": ", failed ? ::gai_strerror(failed) : "");
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> at(found, ::freeaddrinfo);
    listener_ = OwnDescriptor(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;  // a port whose connections have just ended is free
    if (listener_ >= 0) ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool listens =
        listener_ >= 0 && ::bind(listener_, at->ai_addr, at->ai_addrlen) == 0 && ::listen(listener_, 128) == 0;
    require<Error>(listens, "port ", address.port, " of ", address.host, " cannot be served: ", std::strerror(errno),
                   " (--live): give another one, or 0 for any that is free");
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size);
    const bool v6 = name.ss_family == AF_INET6;
    const int taken =
        ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
    char name_here[256] = "";
    ::gethostname(name_here, sizeof name_here - 1);
    const bool every_interface = address.host == "0.0.0.0" || address.host == "::";
    const std::string host = every_interface ? name_here : v6 ? "[" + address.host + "]" : address.host;
    url_ = concat("http://", host, ":", taken, "/");
  }

  /// What the training has told since the last call.
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (std::unique_ptr<Line> line(newest_.exchange(nullptr, std::memory_order_acquire)); line;
         line.reset(line->before))
      all.push_back(std::move(line->text));
    std::ranges::reverse(all);
    return all;
  }

  void serve() {
    ::setpriority(PRIO_PROCESS, 0, 19);  // of this thread
    for (bool ended = false;;) {
      wait(ended);
      if (!std::exchange(ended, ended_.load()) && ended) end_ = Clock::now();  // before the last lines are taken
      for (const std::string& line : lines()) run_.add(json_from(line, "a line of a log")), ++version_;
      draw(ended);
      accept();
      for (Connection& c : connections_) go_on(c, ended);
      std::erase_if(connections_, [](const Connection& c) { return c.state == State::over; });
      if (!ended) continue;
      const bool a_page_asks_again = seconds_since(last_answer_) < pace_ && seconds_since(end_) < 0.3 * pace_;
      if (seconds_since(end_) > 1 || (connections_.empty() && !a_page_asks_again)) return;
    }
  }

  /// Until something comes, a second of the usual pace at most.
  void wait(bool ended) {
    std::vector<pollfd> all{{listener_, POLLIN, 0}, {wake_, static_cast<short>(ended ? 0 : POLLIN), 0}};
    for (const Connection& c : connections_)
      all.push_back({c.fd, static_cast<short>(c.state == State::writing ? POLLOUT : POLLIN), 0});
    const bool held = std::ranges::any_of(connections_, [](const Connection& c) { return c.state == State::held; });
    ::poll(all.data(), all.size(), static_cast<int>(pace_ * (ended ? 50 : held ? 200 : 1000)));
  }

  /// Makes the answer to those that are held. It takes longer the longer the run is: a twentieth of the time at most.
  void draw(bool ended) {
    const bool wanted = std::ranges::any_of(connections_, [](const Connection& c) { return c.state == State::held; });
    const auto begin = Clock::now();
    const bool more = ended ? !last_drawn_ : version_ > drawn_version_ && !run_.steps.empty() && begin >= next_drawing_;
    if (!wanted || !more) return;
    last_drawn_ = ended;
    drawn_version_ = version_;
    answer_ = http("200 OK", "application/json",
                   concat("{\"version\":", version_, ",\"ended\":", ended ? "true" : "false",
                          ",\"run\":", run_.steps.empty() ? "null" : drawn_as_json(run_), "}"));
    const auto end = Clock::now();
    next_drawing_ = begin + std::max(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pace_)),
                                     20 * (end - begin));
  }

  void accept() {
    for (;;) {
      OwnDescriptor fd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd < 0) {
        if (errno != EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // no descriptor is free
        return;
      }
      connections_.push_back({std::move(fd)});
      if (connections_.size() > kMostConnections) {
        if (connections_.size() > 2 * kMostConnections)
          connections_.pop_back();
        else
          connections_.back().answer(refusal("503 Service Unavailable"));
      }
    }
  }

  void go_on(Connection& c, bool ended) {
    if (c.state == State::reading) read(c);
    if (c.state == State::held) hold(c, ended);
    if (c.state == State::writing) write(c);
    if (c.state == State::draining) drain(c);
  }

  void read(Connection& c) {
    char bytes[2048];
    const ssize_t n = ::recv(c.fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return void(c.state = State::over);
    if (n > 0) c.in.append(bytes, static_cast<std::size_t>(n));
    if (const auto end = c.in.find("\r\n\r\n"); end != c.in.npos)
      ask(c, std::string_view(c.in).substr(0, c.in.find("\r\n")));
    else if (c.in.size() > kMostRequestBytes)
      c.answer(refusal("431 Request Header Fields Too Large"));
    else if (seconds_since(c.since) > kRequestSeconds)
      c.answer(refusal("408 Request Timeout"));
  }

  /// The first line of a request: "GET /run?after=7 HTTP/1.1".
  void ask(Connection& c, std::string_view line) {
    const auto first = line.find(' '), second = line.find(' ', first + 1);
    if (first == line.npos || second == line.npos || !line.substr(second + 1).starts_with("HTTP/1."))
      return c.answer(refusal("400 Bad Request"));
    if (line.substr(0, first) != "GET") return c.answer(refusal("405 Method Not Allowed"));
    const std::string_view target = line.substr(first + 1, second - first - 1),
                           path = target.substr(0, target.find('?'));
    if (path == "/") return c.answer(http("200 OK", "text/html; charset=utf-8", live_page()));
    constexpr std::string_view kAfter = "/run?after=";
    if (path != "/run") return c.answer(refusal("404 Not Found"));
    const auto after = target.starts_with(kAfter)
                           ? number_from<std::uint64_t>(std::string(target.substr(kAfter.size())))
                           : std::nullopt;
    if (!after) return c.answer(refusal("400 Bad Request"));
    c.after = *after;
    c.enter(State::held);
  }

  void hold(Connection& c, bool ended) {
    char bytes[2048];  // nothing more is asked for
    const ssize_t n = ::recv(c.fd, bytes, sizeof bytes, 0);
    c.drained += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || c.drained > kMostRequestBytes)
      return void(c.state = State::over);
    if (ended ? last_drawn_ : c.after != drawn_version_ && !answer_.empty()) {
      c.answer(answer_);
      last_answer_ = ended ? Clock::time_point() : Clock::now();
    } else if (seconds_since(c.since) > kQuietSeconds) {
      c.answer("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
  }

  void write(Connection& c) {
    while (c.sent < c.out.size()) {
      const ssize_t n = ::send(c.fd, c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
      if (n > 0) {
        c.sent += static_cast<std::size_t>(n);
      } else if (errno != EINTR) {
        if (errno != EAGAIN || seconds_since(c.since) > kRequestSeconds) c.state = State::over;
        return;
      }
    }
    ::shutdown(c.fd, SHUT_WR);
    c.enter(State::draining);
  }

  void drain(Connection& c) {
    char bytes[4096];
    ssize_t n;
    while ((n = ::recv(c.fd, bytes, sizeof bytes, 0)) > 0 && c.drained < kMostDrainedBytes)
      c.drained += static_cast<std::size_t>(n);
    const bool more_may_come = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (!more_may_come || seconds_since(c.since) > kDrainSeconds) c.state = State::over;
  }

  OwnDescriptor listener_, wake_;
  std::string url_;

  /// A list that the training lengthens and the thread takes: neither waits for the other.
  struct Line {
    std::string text;
    Line* before;
  };
  std::atomic<Line*> newest_ = nullptr;
  std::atomic<bool> ended_ = false;

  // The thread's.
  RunFigures run_;
  const double pace_;
  std::uint64_t version_ = 0, drawn_version_ = 0;  // lines that came; those that answer_ is of
  std::string answer_;
  bool last_drawn_ = false;
  Clock::time_point next_drawing_ = Clock::now(), end_{}, last_answer_{};  // to a page
  std::vector<Connection> connections_;
  std::thread thread_;
};

LivePage::LivePage(const LiveAddress& address, const std::string& title, const std::string& run, double pace)
    : run_(run), server_(std::make_unique<Server>(address, title, pace)) {
  server_->tell(concat("{\"run\":", run_, "}"));
}
LivePage::~LivePage() = default;

const std::string& LivePage::url() const { return server_->url(); }

void LivePage::on_start(const RunInfo& info) {
  server_->tell(concat("{\"run\":", run_to_json(run_, info), "}"));
  if (info.receipt) on_plan(*info.receipt);
}
void LivePage::on_step(const StepReport& report) { server_->tell(to_json(report)); }
void LivePage::on_eval(const EvalReport& report) { server_->tell(to_json(report)); }
void LivePage::on_plan(const dist::Receipt& receipt) { server_->tell(concat("{\"plan\":", receipt.json(), "}")); }
void LivePage::on_ranks(const RanksReport& report) { server_->tell(to_json(report)); }
void LivePage::on_ledger(const LedgerReport& report) { server_->tell(to_json(report)); }

}  // namespace laconic
