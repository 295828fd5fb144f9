#include <fmt/ranges.h>

#include <algorithm>

#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "apps/torch_calls_source.h"
#include "core/base/clock.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/ops/functions.h"
#include "core/ops/linear.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"

namespace laconic {
namespace {

/// An operation of x and perhaps y; `expression` is how PyTorch says it.
struct TimedOperation {
  enum class Other : std::uint8_t { same, row, column };  ///< y's shape beside x's [rows, columns]
  const char* expression;
  Other other;
  Tensor (*f)(const Tensor& x, const Tensor& y);
};
using Other = TimedOperation::Other;

const TimedOperation kLarge[] = {
    {"x + y", Other::same, [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"x + y", Other::row, [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"x * y", Other::column, [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"x * 2", Other::same, [](const Tensor& x, const Tensor&) { return x * 2.0f; }},
    {"x / y", Other::same, [](const Tensor& x, const Tensor& y) { return x / y; }},
    {"torch.relu(x)", Other::same, [](const Tensor& x, const Tensor&) { return relu(x); }},
    {"torch.exp(x)", Other::same, [](const Tensor& x, const Tensor&) { return exp(x); }},
    {"torch.log(x)", Other::same, [](const Tensor& x, const Tensor&) { return log(x); }},
    {"torch.tanh(x)", Other::same, [](const Tensor& x, const Tensor&) { return tanh(x); }},
    {"torch.sigmoid(x)", Other::same, [](const Tensor& x, const Tensor&) { return sigmoid(x); }},
    {"F.gelu(x)", Other::same, [](const Tensor& x, const Tensor&) { return gelu(x); }},
    {"torch.sum(x)", Other::same, [](const Tensor& x, const Tensor&) { return sum(x); }},
    {"torch.sum(x, 0)", Other::same, [](const Tensor& x, const Tensor&) { return sum(x, {0}); }},
    {"torch.sum(x, 1)", Other::same, [](const Tensor& x, const Tensor&) { return sum(x, {1}); }},
    {"torch.var(x, 1)", Other::same, [](const Tensor& x, const Tensor&) { return var(x, {1}); }},
    {"torch.max(x, 1)", Other::same, [](const Tensor& x, const Tensor&) { return max(x, 1); }},
    {"torch.argmax(x, 0)", Other::same, [](const Tensor& x, const Tensor&) { return argmax(x, 0); }},
    {"torch.softmax(x, 1)", Other::same, [](const Tensor& x, const Tensor&) { return softmax(x, 1); }},
    {"x.transpose(0, 1).contiguous()", Other::same, [](const Tensor& x, const Tensor&) { return transpose(x, 0, 1); }},
};
/// Those of the tape: applied to their own result.
const TimedOperation kSmall[] = {
    {"x + y", Other::same, [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"x * y", Other::same, [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"x + y", Other::row, [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"x * 0.5", Other::same, [](const Tensor& x, const Tensor&) { return x * 0.5f; }},
    {"torch.relu(x)", Other::same, [](const Tensor& x, const Tensor&) { return relu(x); }},
    {"torch.tanh(x)", Other::same, [](const Tensor& x, const Tensor&) { return tanh(x); }},
    {"torch.softmax(x, 1)", Other::same, [](const Tensor& x, const Tensor&) { return softmax(x, 1); }},
    {"x.view(4, 4)", Other::same,
     [](const Tensor& x, const Tensor&) {
       return x.view({4, 4});
     }},
    {"x.transpose(0, 1)", Other::same, [](const Tensor& x, const Tensor&) { return transpose(x, 0, 1); }},
    {"x @ y", Other::same, [](const Tensor& x, const Tensor& y) { return matmul(x, y); }},
};
constexpr int kTape = 20;

Tensor numbers(const Shape& shape) {
  Random random(0, Purpose::test);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& v : values) v = random.uniform(0.5f, 1.5f);
  return Tensor::of(shape, values);
}

std::string name_of(const TimedOperation& op) {
  const char* const broadcast = op.other == Other::row ? ", y a row" : op.other == Other::column ? ", y a column" : "";
  return std::string(op.expression) + broadcast;
}

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape.dims(), ",")); }

/// Times operations, in turns with PyTorch where it is there.
class TimedOperations {
 public:
  TimedOperations(Peer* torch, int rounds) : torch_(torch), rounds_(rounds) {}

  /// Adds a cell with what is to be seen: how many times as fast as the peer, or microseconds.
  ///   tape  so often the operation is applied to its own result before all goes backward; 0: once, and not recorded
  void measure(const TimedOperation& op, const Shape& shape, int tape, const std::string& head, Cells& cells) {
    const Tensor x = numbers(shape), y = numbers(op.other == Other::same  ? shape
                                                 : op.other == Other::row ? Shape{shape[1]}
                                                                          : Shape{shape[0], 1});
    const auto leaf = std::make_shared<Leaf>();
    const auto once = [&] {
      if (tape == 0) {
        const NoGrad no_grad;
        op.f(x, y);
        return;
      }
      Tensor h = with_gradient(x, leaf);
      for (int i = 0; i < tape; ++i) h = op.f(h, y);
      leaf->written = false;
      sum(h).backward();
    };
    std::vector<Contender> all{contender("laconic", [&](int runs) {
      const auto begin = Clock::now();
      for (int i = 0; i < runs; ++i) once();
      return seconds_since(begin) / runs;
    })};
    if (torch_ != nullptr) {
      torch_->ask(fmt::format("set {} {} {} {}", tape, shape_text(shape), shape_text(y.shape()), op.expression));
      all.push_back(contender("torch", [this](int runs) { return torch_->run(runs); }));
    }
    run_in_turns(all, rounds_, /*least_seconds=*/0);  // a turn is a block
    const auto us = [tape](const Contender& c) { return 1e3 * c.milliseconds() / std::max(1, tape); };
    Cells row{{"", "operation", name_of(op)}, {"", "elements", shape.elements()}, {"", "us", us(all[0])}};
    if (torch_ != nullptr) {
      row.emplace_back("", "torch_us", us(all[1]));
      row.emplace_back("", "speed", ratio(all[1], all[0]));
      cells.emplace_back(head, "", ratio(all[1], all[0]));
    } else {
      cells.emplace_back(head, "", us(all[0]), "{:.2f}");
    }
    figures_.add(std::move(row));
  }
  const Bench::Json& figures() { return figures_.objects(); }

 private:
  static Contender contender(const char* name, std::function<double(int)> seconds) {
    return {.name = name, .by_own_clock = in_blocks(std::move(seconds), /*turn_seconds=*/0.02, 1 << 20)};
  }

  Peer* const torch_;
  const int rounds_;
  ResultTable figures_{/*markdown=*/false};
};

}  // namespace

int bench_ops(const std::vector<std::string>& arguments) {
  std::vector<int> powers{10, 14, 18, 22, 24};
  int threads = 1, rounds = 7;
  Bench bench("ops", "Operations on tensors, and what recording them costs, alone or paired with PyTorch.");
  bench.option("--powers", powers, "P", "sizes, as powers of two [10,14,18,22,24]", CLI::Range(4, 28));
  bench.option("--threads", threads, "T", "kernel threads [1]", CLI::Range(1, 1024));
  bench.option("--rounds", rounds, "R", "measured rounds [7]", CLI::Range(1, 1000));
  bench.add_against("torch", "the same in PyTorch, in turns");
  if (const auto done = bench.parse(arguments)) return *done;
  set_kernel_threads(threads);
  const std::string python = bench.python();
  std::optional<Peer> torch;
  if (!python.empty())
    torch.emplace(std::vector<std::string>{python, "-c", kTorchCallsSource, std::to_string(threads), "cpu"},
                  torch_environment(threads));
  bench.say(machine());

  TimedOperations operations(torch ? &*torch : nullptr, rounds);
  const char* const what = torch ? "times as fast as PyTorch (95 %)" : "us";
  const auto first_cell = [&](const TimedOperation& op) {
    return Cells{{"operation", "", bench.markdown ? name_of(op) : fmt::format("{:<30}", name_of(op))}};
  };
  ResultTable table(bench.markdown,
                    fmt::format("forward, by the number of elements, {}: {}", bench.computed_by(threads), what));
  for (const TimedOperation& op : kLarge) {
    Cells cells = first_cell(op);
    for (const int power : powers) {
      const std::int64_t columns = std::int64_t{1} << std::min(power / 2, 10);
      operations.measure(op, {(std::int64_t{1} << power) / columns, columns}, 0, fmt::format("2^{}", power), cells);
    }
    table.add(std::move(cells));
    bench.show(table);
  }
  ResultTable recorded(
      bench.markdown,
      fmt::format("forward and backward, recorded, one operation among {}, 16 elements: {}", kTape, what));
  for (const TimedOperation& op : kSmall) {
    Cells cells = first_cell(op);
    operations.measure(op, {4, 4}, kTape, "2^4", cells);
    recorded.add(std::move(cells));
    bench.show(recorded);
  }
  return bench.finish({{"threads", threads}, {"results", operations.figures()}});
}

}  // namespace laconic
