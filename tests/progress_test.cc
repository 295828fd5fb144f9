#include "apps/training/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "apps/common/text.h"

namespace laconic {
namespace {

int columns(const std::string& text) {  // letters, not bytes
  int n = 0;
  for (unsigned char c : text) n += (c & 0xC0) != 0x80;
  return n;
}

TEST(Text, HasThreeFiguresAndAUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(1480000), "1.48 MB");
  EXPECT_EQ(human_bytes(99960), "100 kB");
  EXPECT_EQ(human_bytes(999999), "1.00 MB");
  EXPECT_EQ(human_count(61300), "61.3 k");
  EXPECT_EQ(human_count(12), "12");
  EXPECT_EQ(human_seconds(8.24), "8.2 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(7800), "2 h 10 min");
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
}

const ProgressLine kLine{.epoch = 3,
                         .epochs = 10,
                         .done = 0.5,
                         .loss = 0.4118,
                         .samples_per_s = 61300,
                         .bytes_per_step = 1.48e6,
                         .exposed = 0.12,
                         .communicates = true};

TEST(ProgressLine, ShowsAllFiguresWhereThereIsRoom) {
  EXPECT_EQ(render(kLine, 200, false, false), "epoch  3/10   50 %  loss 0.412  61.3 k/s  1.48 MB/step  exposed 12 %");
  EXPECT_EQ(render(kLine, 79, true, false),
            "epoch  3/10 =====-----   50 %  loss 0.412  61.3 k/s  1.48 MB/step  exposed 12 %");
}

TEST(ProgressLine, OneWorkerShowsNoCommunication) {
  ProgressLine line = kLine;
  line.communicates = false;
  EXPECT_EQ(render(line, 200, false, false), "epoch  3/10   50 %  loss 0.412  61.3 k/s");
  line.seconds_left = 250;
  EXPECT_EQ(render(line, 200, false, false), "epoch  3/10   50 %  loss 0.412  61.3 k/s  4 min 10 s left");
}

TEST(ProgressLine, FitsEveryWidth) {
  for (int width = 0; width <= 200; ++width)
    for (bool utf8 : {false, true})
      for (const double left : {0.0, 8000.0}) {
        ProgressLine line = kLine;
        line.seconds_left = left;
        EXPECT_LE(columns(render(line, width, true, utf8)), width) << width;
      }
}

/// The widths that a rank finds in the child. Before each but the first its terminal is made 47 columns wide.
void expect_widths(pid_t child, const std::vector<int>& widths) {
  if (child == 0) {
    ::setenv("OMPI_COMM_WORLD_RANK", "0", 1), ::setenv("LACONIC_COLUMNS", "90", 1);
    const Progress::Options options = Progress::for_stdout();
    bool right = options.terminal;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const winsize narrow{.ws_row = 24, .ws_col = 47, .ws_xpixel = 0, .ws_ypixel = 0};
      if (i > 0) ::ioctl(STDOUT_FILENO, TIOCSWINSZ, &narrow);
      right = right && options.width() == widths[i];
    }
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ProgressOptions, UnderMpirunTheWidthIsThatOfTheTerminalWhereAllWasStarted) {
  int master = -1;
  const winsize size{.ws_row = 24, .ws_col = 61, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t here = ::forkpty(&master, nullptr, nullptr, &size);
  if (here < 0) GTEST_SKIP() << "no terminal can be made here";
  expect_widths(here, {61, 47});
  ::close(master);
  const pid_t elsewhere = ::fork();
  if (elsewhere == 0) ::setsid();  // leaves the terminal
  expect_widths(elsewhere, {90});
}

class ProgressTest : public ::testing::Test {
 protected:
  std::ostringstream out_;
  double now_ = 0;
  Progress::Options options(bool terminal) {
    return {.terminal = terminal, .utf8 = false, .width = [] { return 100; }, .seconds = [this] { return now_; }};
  }
  static RunInfo info() {
    RunInfo info;
    info.model = "lenet", info.data = "synthetic", info.strategy = "allreduce, ring", info.transport = "threads";
    info.device = "cpu";
    info.parameters = 61706, info.train_samples = 600, info.test_samples = 100;
    info.workers = 4, info.batch = 16, info.steps_per_epoch = 10, info.total_steps = 20;
    return info;
  }
  static StepReport step(int n) {
    StepReport s;
    s.step = n, s.epoch = (n - 1) / 10 + 1, s.loss = 2, s.samples_per_s = 1000, s.bytes_sent = 5000;
    s.forward_ms = 6, s.backward_ms = 3, s.exposed_ms = 1;
    return s;
  }
  static EvalReport eval() {
    return {.epoch = 1,
            .samples = 100,
            .loss = 0.5,
            .top1_error = 11.5,
            .top5_error = {},
            .seconds = 3,
            .bytes_sent_total = 2000000};
  }
};

TEST_F(ProgressTest, SaysWhyThereAreFewerThreadsThanProcessors) {
  Progress::Options limited = options(false);
  Progress(out_, limited).on_start(info());
  EXPECT_NE(out_.str().find(", 1 thread each, allreduce"), std::string::npos) << out_.str();
  limited.limits = "of 16 processors this process may use 1";
  Progress(out_, limited).on_start(info());
  EXPECT_NE(out_.str().find(", 1 thread each (of 16 processors this process may use 1), allreduce"), std::string::npos);
}

TEST_F(ProgressTest, TheFirstLinesFitTheTerminal) {
  Progress::Options narrow = options(true);
  narrow.width = [] { return 40; };
  Progress(out_, narrow).on_start(info());
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 40) << line;
  const std::string broken = out_.str();
  out_.str("");
  Progress(out_, options(false)).on_start(info());
  EXPECT_GT(std::ranges::count(broken, '\n'), std::ranges::count(out_.str(), '\n'));
}

TEST_F(ProgressTest, ATerminalIsRedrawnAtMostTenTimesASecond) {
  Progress progress(out_, options(true));
  progress.on_start(info());
  out_.str("");
  for (int n = 1; n <= 20; ++n) now_ += 0.03, progress.on_step(step(n));  // 0.6 s
  int redraws = 0;
  for (char c : out_.str()) redraws += c == '\r';
  EXPECT_GE(redraws, 4);
  EXPECT_LE(redraws, 6);
  EXPECT_NE(out_.str().find("exposed 10 %"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find('\n'), std::string::npos);
}

TEST_F(ProgressTest, APipeGetsNoControlCharactersAndALineEveryTenSeconds) {
  Progress progress(out_, options(false));
  progress.on_start(info());
  out_.str("");
  for (int n = 1; n <= 20; ++n) {  // 22 s
    StepReport report = step(n);
    report.step_ms = n == 1 ? 2000 : 1000;  // 1.1 s in the mean over the first ten
    now_ += 1.1, progress.on_step(report);
  }
  EXPECT_EQ(out_.str(),
            "epoch 1/2  100 %  loss 2.000  1.00 k/s  11.0 s left  5.00 kB/step  exposed 10 %\n"
            "epoch 2/2  100 %  loss 2.000  1.00 k/s  5.00 kB/step  exposed 10 %\n");
  EXPECT_EQ(out_.str().find('\r'), std::string::npos);
}

TEST_F(ProgressTest, WordsThatTrainingDoesNotHaveAreTold) {
  RunInfo text = info();
  for (const std::int64_t unseen : {0, 1, 12}) {
    text.unseen_words = unseen;
    out_.str("");
    Progress(out_, options(false)).on_start(text);
    EXPECT_EQ(out_.str().find("<unk>") != std::string::npos, unseen > 0) << out_.str();
  }
  EXPECT_NE(out_.str().find("\n12 words of validation and test are not in the training text, and read as <unk>\n"),
            std::string::npos)
      << out_.str();
}

TEST_F(ProgressTest, AnEvaluationIsALastingLine) {
  Progress progress(out_, options(true));
  progress.on_start(info());
  now_ = 1;
  progress.on_step(step(1));
  out_.str("");
  progress.on_eval(eval());
  EXPECT_EQ(out_.str(), "\r\x1b[Kepoch  1  test accuracy 88.50 %, loss 0.5000, after 3.0 s, 2.00 MB sent\n");
}

TEST_F(ProgressTest, TheEndNamesAccuracyBytesAndWhyItStopped) {
  Progress progress(out_, options(false));
  progress.on_start(info());
  out_.str("");
  RunSummary summary;
  summary.steps = 20, summary.seconds = 65, summary.samples_per_s = 61000, summary.exposed_share = 0.05;
  summary.bytes_sent_total = 8000000, summary.last_eval = eval(), summary.stopped = "the loss is not a number";
  progress.on_end(summary);
  EXPECT_EQ(
      out_.str(),
      "stopped: the loss is not a number\n"
      "test accuracy 88.50 % after epoch 1; 20 steps in 65.0 s, 61.0 k images/s\n8.00 MB sent by 4 workers, 5 % of the "
      "time spent waiting for one another\n");
}

TEST_F(ProgressTest, ALanguageModelIsSpokenOfInTokensAndPerplexity) {
  Progress progress(out_, options(false));
  RunInfo text = info();
  text.model = "lstm-small", text.train_samples = 1000, text.validation_samples = 200, text.words_per_step = 35;
  text.workers = 1;
  progress.on_start(text);
  now_ = 11;
  progress.on_step(step(1));
  EvalReport report = eval();
  report.perplexity = 148.413;
  progress.on_eval(report);
  RunSummary summary;
  summary.steps = 20, summary.seconds = 65, summary.samples_per_s = 2839, summary.last_eval = report;
  report.perplexity = 150, report.loss = 5.01;
  progress.on_test(report);
  summary.test = report;
  progress.on_end(summary);
  EXPECT_EQ(out_.str(),
            "lstm-small: 61706 parameters, on synthetic (1000 training, 200 validation, 100 test tokens)\n"
            "1 worker (threads), 16 streams of 35 tokens each a step, 1 thread each, allreduce, ring\n"
            "epoch 1/2   10 %  loss 2.000  1.00 k tokens/s\n"
            "epoch  1  validation perplexity 148.41, loss 0.5000, after 3.0 s\n"
            "test perplexity 150.00, loss 5.0100\n"
            "test perplexity 150.00 after 20 steps in 65.0 s, 2.84 k tokens/s\n");
}

TEST_F(ProgressTest, MeasuresOfOnesOwnStandInThePlaceOfErrors) {
  Progress progress(out_, options(false));
  progress.on_start(info());
  EvalReport report = eval();
  report.metrics = {{"mean error", 0.0625}, {"largest", 1}};
  out_.str("");
  progress.on_eval(report);
  EXPECT_EQ(out_.str(), "epoch  1  validation mean error 0.0625, loss 0.5000, after 3.0 s, 2.00 MB sent\n");
}

TEST_F(ProgressTest, BytesThatAreNotCountedAreNotShown) {
  Progress progress(out_, options(false));
  RunInfo uncounted = info();
  uncounted.bytes_counted = false;
  progress.on_start(uncounted);
  out_.str("");
  now_ = 11;
  progress.on_step(step(1));
  progress.on_eval(eval());
  RunSummary summary;
  summary.steps = 20, summary.seconds = 65, summary.samples_per_s = 61000, summary.exposed_share = 0.05;
  progress.on_end(summary);
  EXPECT_EQ(out_.str(),
            "epoch 1/2   10 %  loss 2.000  1.00 k/s  exposed 10 %\n"
            "epoch  1  test accuracy 88.50 %, loss 0.5000, after 3.0 s\n"
            "20 steps in 65.0 s, 61.0 k images/s\n"
            "bytes not counted (NCCL moved them), 4 workers, 5 % of the time spent waiting for one another\n");
  out_.str("");
  summary.data_share = 0.1;  // no matter yet
  progress.on_end(summary);
  EXPECT_EQ(out_.str().find("for data"), std::string::npos) << out_.str();
  out_.str("");
  summary.data_share = 0.134;
  progress.on_end(summary);
  EXPECT_NE(out_.str().find("for one another\n13 % of the time spent waiting for data: more --data-threads may help\n"),
            std::string::npos)
      << out_.str();
}

TEST_F(ProgressTest, AnInterruptedLineIsEnded) {
  {
    Progress progress(out_, options(true));
    progress.on_start(info());
    now_ = 1;
    progress.on_step(step(1));
  }
  EXPECT_EQ(out_.str().back(), '\n');
}

}  // namespace
}  // namespace laconic
