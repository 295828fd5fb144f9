#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "dist/trainer/report.h"

namespace laconic {

/// Where --live listens: "8080" is a port of the loopback, "0.0.0.0:8080" and "[::]:8080" are ports of all interfaces.
struct LiveAddress {
  std::string host = "127.0.0.1";  ///< a number, for nothing is looked up
  int port = 0;                    ///< 0: any free one
  /// throws UsageError in the name of `where`
  static LiveAddress parse(const std::string& text, const std::string& where);
};

/// Serves the page of --report while a training goes on, by HTTP: GET / is the page, GET /run?after=VERSION is what it
/// draws, {"version": V, "ended": false, "run": ...}, as soon as there is more than in that version; 204 after a while
/// without. All else is refused, as are more than a few connections at a time.
///
/// One thread does that, when no other wants its core. The training hands it lines of a log and waits for nothing. When
/// this goes, pages get the last state, and the thread ends; a reader that takes nothing delays that by a second at
/// most.
class LivePage final : public Observer {
 public:
  ///   title  of the run
  ///   run    run_to_json()
  ///   pace   seconds from one drawing to the next, at least
  /// throws Error if the port is taken, or the host is none of this machine
  LivePage(const LiveAddress& address, const std::string& title, const std::string& run, double pace = 1);
  ~LivePage() override;
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  const std::string& url() const;  ///< "http://127.0.0.1:8080/"

  void on_start(const RunInfo& info) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_plan(const dist::Receipt& receipt) override;
  void on_ranks(const RanksReport& report) override;
  void on_ledger(const LedgerReport& report) override;

 private:
  class Server;
  const std::string run_;
  const std::unique_ptr<Server> server_;
};

}  // namespace laconic
