#pragma once
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "dist/trainer/report.h"

namespace laconic {

/// Shows a run to a person. A terminal gets one line that is redrawn at most 10 times a second:
///
///   epoch  3/10 ━━━━━━━━━━━━━━━━━━━━━────────── 71 %  loss 0.412  61.3 k/s  1.5 MB/step  exposed 12 %
///
/// and a lasting line per evaluation; a pipe gets the evaluations, and a plain line every 10 s.
/// Figures are means since the last line or redraw. Narrow terminals lose figures from the right, then the bar.
class Progress final : public Observer {
 public:
  struct Options {
    bool terminal = false;            ///< redraw one line
    bool utf8 = false;                ///< may use the line-drawing letters above, else = and -
    std::function<int()> width;       ///< columns of the terminal, asked before each redraw; default 80
    std::function<double()> seconds;  ///< a clock; default the steady one
    std::string limits{};             ///< of the processors (Cores::limits); empty: all may be used
  };
  /// Returns the form that fits standard output: whether it is a terminal (terminal_columns()), its present width, and
  /// the locale's encoding.
  static Options for_stdout();

  Progress(std::ostream& out, Options options);
  ~Progress() override;  ///< leaves the cursor on a fresh line

  void on_start(const RunInfo& info) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_test(const EvalReport& report) override;
  void on_end(const RunSummary& summary) override;

 private:
  struct Sum {  // of the steps since the last redraw
    double loss = 0, samples_per_s = 0, busy_ms = 0, exposed_ms = 0;
    std::int64_t bytes = 0, steps = 0;
  };
  void show(const StepReport& last);
  void clear();
  std::ostream& out_;
  Options options_;
  RunInfo info_;
  Sum sum_;
  double all_ms_ = 0;  // that all steps took so far
  std::int64_t all_steps_ = 0;
  double shown_ = 0;        // when, s
  bool line_open_ = false;  // a redrawn line is on the screen
};

/// The figure that a run is known by: "test perplexity", "", 82.1
struct Quality {
  std::string what;
  const char* unit;
  double value;
};
/// Returns the figure of the test at the end, or else of the last validation. One of them was made.
Quality quality(const RunSummary& summary);

/// "test accuracy 90.68 % after 9380 steps in 13.3 s, 47.3 k images/s"; of an evaluation alone "test accuracy 90.68 %,
/// loss 0.2526"
std::string result_line(const RunInfo& info, const RunSummary& summary);

/// One line a parameter, with the columns that the method has. For --ledger.
std::string ledger_table(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows);

/// The figures of one progress line.
struct ProgressLine {
  std::int64_t epoch = 1, epochs = 1;
  double done = 0;                                                      ///< of this epoch, 0 … 1
  double loss = 0, samples_per_s = 0, bytes_per_step = 0, exposed = 0;  ///< exposed: 0 … 1; bytes < 0: not counted
  std::string unit{};                                                   ///< of samples, said if it is not empty
  bool communicates = true;                                             ///< false leaves bytes and exposed out
  double seconds_left = 0;                                              ///< of all steps; 0 is not said
};
/// One line of at most `width` columns (UTF-8 letters count one), with a bar if `bar`.
std::string render(const ProgressLine& line, int width, bool bar, bool utf8);

}  // namespace laconic
