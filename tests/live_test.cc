#include "apps/look/report/live.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/look/json_log.h"
#include "apps/look/report/report.h"
#include "core/base/error.h"
#include "tests/program.h"

namespace laconic {
namespace {

/// A connection to a port of the loopback.
class Caller {
 public:
  explicit Caller(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Caller() { ::close(fd_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool connected() const { return connected_; }
  Caller& say(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) break;  // it has heard enough
      done += static_cast<std::size_t>(n);
    }
    return *this;
  }
  /// All that comes until the other side ends.
  std::string hear() {
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd_, bytes, sizeof bytes, 0)) > 0;) all.append(bytes, static_cast<std::size_t>(n));
    return all;
  }

 private:
  int fd_;
  bool connected_;
};

std::string get(int port, const std::string& target) {
  return Caller(port).say("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n").hear();
}
nlohmann::json body_of(const std::string& answer) {
  const auto head = answer.find("\r\n\r\n");
  return head == answer.npos ? nlohmann::json() : nlohmann::json::parse(answer.substr(head + 4), nullptr, false);
}
std::string status_of(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }

int port_in(const std::string& url) { return std::atoi(url.c_str() + url.rfind(':') + 1); }

/// A page, and what a training tells it.
struct Live {
  std::unique_ptr<LivePage> page =
      std::make_unique<LivePage>(LiveAddress{}, "lenet", R"({"model":"lenet","command":"mnist </script>"})", 0.02);
  int port = port_in(page->url());
  int steps = 0;

  void step() { page->on_step({.step = ++steps, .loss = 1.0 / steps, .step_ms = 2, .bytes_sent_sum = 10}); }
  std::string ask(std::uint64_t after = 0) const { return get(port, "/run?after=" + std::to_string(after)); }
};

EvalReport evaluation(double error) {
  EvalReport report;
  report.epoch = 1, report.loss = 1, report.top1_error = error;
  return report;
}

TEST(Live, ServesThePageAndWhatItDraws) {
  Live live;
  RunInfo info;
  info.total_steps = 40;
  live.page->on_start(info);
  live.step(), live.step();
  const std::string page = get(live.port, "/");
  EXPECT_EQ(status_of(page), "HTTP/1.1 200 OK");
  EXPECT_TRUE(has(page, "const live = true;"));
  EXPECT_TRUE(has(page, "const runs = [];"));
  const auto drawn = body_of(live.ask());
  EXPECT_EQ(drawn["ended"], false);
  EXPECT_EQ(drawn["run"]["title"], "lenet");
  EXPECT_EQ(drawn["run"]["command"], "mnist </script>");
  EXPECT_EQ(drawn["run"]["steps"]["loss"], nlohmann::json({1, 0.5}));
  EXPECT_EQ(drawn["run"]["total_steps"], 40) << "of how many steps the page tells";
}

TEST(Live, AnswersWhenThereIsMoreAndAtTheEnd) {
  Live live;
  auto before_a_step = std::async(std::launch::async, [&] { return live.ask(); });
  live.step();
  const auto first = body_of(before_a_step.get());
  EXPECT_EQ(first["run"]["last_step"], 1);
  auto more =
      std::async(std::launch::async, [&, after = first["version"].get<std::uint64_t>()] { return live.ask(after); });
  live.step();
  const auto second = body_of(more.get());
  EXPECT_EQ(second["run"]["last_step"], 2);
  EXPECT_GT(second["version"], first["version"]);

  Caller last(live.port);
  last.say("GET /run?after=" + second["version"].dump() + " HTTP/1.1\r\n\r\n");
  live.page->on_eval(evaluation(25));
  auto heard = std::async(std::launch::async, [&] { return last.hear(); });
  live.page.reset();
  const auto end = body_of(heard.get());
  EXPECT_EQ(end["run"]["evals"]["value"], nlohmann::json({75}));
  EXPECT_FALSE(Caller(live.port).connected()) << "it is served after its end";
}

TEST(Live, TellsTheEndOfATrainingWithoutSteps) {
  Live live;
  Caller caller(live.port);
  caller.say("GET /run?after=0 HTTP/1.1\r\n\r\n");
  get(live.port, "/");  // so that it has come
  auto heard = std::async(std::launch::async, [&] { return caller.hear(); });
  live.page.reset();
  const auto end = body_of(heard.get());
  EXPECT_EQ(end["ended"], true);
  EXPECT_TRUE(end["run"].is_null());
}

TEST(Live, DrawsWhatAReportOfTheLogDraws) {
  const TempFolder folder;
  Live live;
  {
    JsonLog log(folder / "log", false, R"({"model":"lenet","command":"mnist </script>"})");
    const auto tell = [&](auto on, const auto& report) { (log.*on)(report), (live.page.get()->*on)(report); };
    for (int n = 1; n <= 1300; ++n) {
      tell(&Observer::on_step, StepReport{.step = n,
                                          .loss = 1.0 / n,
                                          .step_ms = 1.0 + n % 7,
                                          .bytes_sent_sum = n,
                                          .forward_ms = 0.5,
                                          .exposed_ms = 0.25});
      if (n % 500 == 0) tell(&Observer::on_eval, evaluation(5));
    }
  }
  const std::string page = report_page({{.title = "lenet", .log = folder / "log"}}), before = "const runs = ";
  const auto begin = page.find(before) + before.size();
  auto live_run = nlohmann::json();  // the answer may be of fewer steps at first
  std::uint64_t version = 0;
  for (bool whole = false; !whole; whole = live_run["last_step"] == 1300) {
    const auto answer = body_of(live.ask(version));
    version = answer["version"], live_run = answer["run"];
  }
  EXPECT_EQ(live_run, nlohmann::json::parse(page.substr(begin, page.find(";\n", begin) - begin))[0]);
}

TEST(Live, RefusesWhatIsNoRequest) {
  Live live;
  live.step();
  const auto status = [&](const std::string& text) { return status_of(Caller(live.port).say(text).hear()); };
  const std::string end = " HTTP/1.1\r\n\r\n";
  EXPECT_EQ(status("GET /etc/passwd" + end), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(status("GET /../x" + end), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(status("GET /running" + end), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(status("POST /" + end), "HTTP/1.1 405 Method Not Allowed");
  for (const char* target :
       {"/run", "/run?after=", "/run?after=-1", "/run?after=x", "/run?after=99999999999999999999", "/run?a=1"})
    EXPECT_EQ(status(std::string("GET ") + target + end), "HTTP/1.1 400 Bad Request") << target;
  EXPECT_EQ(status("\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status("GET /\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status("GET / SMTP\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status(std::string("\0\xff\x80 \0 \r\n\r\n", 10)), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x')),
            "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(3'000, 'x') + "\r\n\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(status_of(live.ask()), "HTTP/1.1 200 OK");
}

TEST(Live, OneSlowCallerKeepsNobodyWaiting) {
  Live live;
  live.step();
  Caller half(live.port), talks_on(live.port), gone(live.port);  // the last one hears nothing
  half.say("GET /ru");
  const std::string nothing_new = "GET /run?after=" + body_of(live.ask())["version"].dump() + " HTTP/1.1\r\n\r\n";
  talks_on.say(nothing_new + std::string(100'000, 'x'));
  gone.say(nothing_new);
  EXPECT_EQ(status_of(live.ask()), "HTTP/1.1 200 OK");
  half.say("n?after=0 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(status_of(half.hear()), "HTTP/1.1 200 OK");
}

TEST(Live, BearsManyCallersAndAnswersAFew) {
  Live live;
  live.step();
  {
    std::vector<std::unique_ptr<Caller>> all;
    for (int i = 0; i < 50; ++i) all.push_back(std::make_unique<Caller>(live.port));
    for (auto& caller : all) caller->say("GET /run?after=");
    live.step();
  }
  EXPECT_TRUE(eventually([&] { return status_of(live.ask()) == "HTTP/1.1 200 OK"; })) << "when they have gone";
}

TEST(Live, AnAddressIsAPortOrANumberAndAPort) {
  const auto parsed = [](const std::string& text) {
    const LiveAddress a = LiveAddress::parse(text, "--live");
    return a.host + " " + std::to_string(a.port);
  };
  EXPECT_EQ(parsed("8080"), "127.0.0.1 8080");
  EXPECT_EQ(parsed("0.0.0.0:80"), "0.0.0.0 80");
  EXPECT_EQ(parsed("localhost:0"), "127.0.0.1 0");
  EXPECT_EQ(parsed("[::1]:8080"), "::1 8080");
  for (const char* wrong :
       {"", "x", "-1", "65536", "80a", ":80", "host.example:80", "1.2.3.4", "1.2.3.4:", "[::1]", "300.1.1.1:80"})
    EXPECT_THROW(parsed(wrong), UsageError) << wrong;
}

TEST(Live, IsThereWhileAProgramTrains) {
  const TempFolder folder;
  const std::string out = folder / "out";
  Background training(
      "mnist --data synthetic:400,20 --batch 10 --threads 1 --workers 2 --epochs 100000 --quiet --live 0 > " + out);
  ASSERT_TRUE(eventually([&] { return has(file_text(out), "/\n"); })) << file_text(out);
  const std::string said = file_text(out);
  EXPECT_TRUE(said.starts_with("live: http://127.0.0.1:")) << said;
  const int port = port_in(said);
  const auto first = body_of(get(port, "/run?after=0"));
  ASSERT_TRUE(first["run"].is_object()) << first;
  EXPECT_EQ(first["run"]["model"], "lenet");
  EXPECT_TRUE(has(first["run"]["command"].get<std::string>(), "--live 0"));
  const auto second = body_of(get(port, "/run?after=" + first["version"].dump()));
  EXPECT_GT(second["run"]["last_step"], first["run"]["last_step"]);

  const Result taken = run("mnist --data synthetic:40,20 --steps 1 --live " + std::to_string(port));
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_EQ(taken.out, "") << "it has begun";
  EXPECT_EQ(taken.err, "laconic: error: port " + std::to_string(port) +
                           " of 127.0.0.1 cannot be served: Address already in use (--live): give another one, or 0 "
                           "for any that is free\n");

  Caller half(port), last(port);
  half.say("GET /");
  last.say("GET /run?after=" + second["version"].dump() + " HTTP/1.1\r\n\r\n");
  training.signal(SIGTERM);
  EXPECT_EQ(training.wait().exit_code, 143);
  EXPECT_EQ(body_of(last.hear())["run"]["model"], "lenet");
}

TEST(Live, IsNoUseWithoutTraining) {
  const Result r = run("mnist --eval-only --init x --live 0");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_TRUE(has(r.err, "--eval-only makes no step")) << r.err;
}

}  // namespace
}  // namespace laconic
