#include "apps/bench/select.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "apps/bench/published_selectors.h"
#include "apps/common/machine.h"
#include "apps/common/values.h"
#include "apps/torch_calls_source.h"
#include "compress/select/selector.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/parse.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/plan/choice.h"
#include "dist/transport/link.h"

namespace laconic {
namespace {

using compress::make_selector;

std::int64_t elements_from(const std::string& text) {
  const bool power = text.starts_with("2^");
  const double number = number_from<double>(power ? text.substr(2) : text).value_or(0);
  const double value = power ? std::exp2(number) : number;
  require<UsageError>(value >= 16 && value < 4294967296.0, "'", text,
                      "' is no number of elements (--elements): give one from 16 to 2^31, as 1000000 or 2^20");
  return static_cast<std::int64_t>(value);
}

/// One way to select: a selector in a given state of knowledge, and what it chose last.
struct Way {
  std::unique_ptr<compress::Selector> selector;
  compress::Candidates candidates{};
  compress::Selection chosen{};
  StateDict fresh{};
};

enum class Prior { nothing, itself, floor, candidates };  // known: of an earlier step, or out of the residual pass

/// Selectors of one tensor, in turns.
class Selections {
 public:
  Selections(const SelectBench& bench, const std::string& data, std::int64_t elements, int threads)
      : bench_(bench),
        data_(data),
        threads_(threads),
        on_gpu_(bench.on_gpu()),
        host_(select_data(data, elements)),
        v_(copied_to(host_, bench.device)),
        n_(v_.elements()),
        k_(bench.count(n_)),
        stats_(compress::residual_stats(v_.slice())) {}

  Bench::Json measure() {
    if (!on_gpu_) all_.push_back({.name = "read pass", .run = [this] { compress::read_pass(v_.data<float>(), n_); }});
    for (const auto& [title, name] : {std::pair{"exact", "exact"}, {"Algorithm 3", "search"}}) {
      add(concat(title, ", candidates from the residual pass"), make_selector(name), Prior::candidates);
      // Without candidates a device reads all values, whatever it knows.
      if (!on_gpu_) add(concat(title, ", floor of an earlier step"), make_selector(name), Prior::floor);
      add(concat(title, ", nothing known"), make_selector(name), Prior::nothing);
    }
    // The reuse step alone: the selector that has just searched.
    add("sampled, threshold reused", make_selector("sampled"), Prior::itself);
    if (bench_.baselines) add_baselines();
    if (!bench_.with_torch.empty()) add_torch();
    if (on_gpu_) beside_a_copy(all_, v_);
    run_in_turns(all_, bench_.rounds);
    return shown();
  }

 private:
  void add(const std::string& name, std::unique_ptr<compress::Selector> selector, Prior prior,
           int most_rounds = 1 << 20) {
    Way& way = *ways_.emplace_back(std::make_unique<Way>(Way{std::move(selector)}));
    const auto select = [this, &way, prior] {
      way.selector->select({.values = v_.slice(),
                            .k = k_,
                            .stats = &stats_,
                            .candidates = prior == Prior::candidates ? &way.candidates : nullptr},
                           way.chosen);
    };
    if (prior == Prior::nothing) way.selector->save(way.fresh);
    if (prior != Prior::nothing) select();
    if (prior == Prior::itself) way.selector->save(way.fresh);
    if (prior == Prior::candidates) {
      // The residual pass with a gradient of zeros: the same values again.
      const Tensor zeros = Tensor::zeros({n_}, DType::f32, bench_.device), copy = copied_to(v_, bench_.device);
      way.selector->prepare(way.candidates, k_);
      compress::accumulate_residual({zeros.slice(), {}, {}, copy.slice(), 0}, {}, 1.0f, &way.candidates);
    }
    Contender c{.name = name, .run = select, .most_rounds = most_rounds};
    if (prior == Prior::nothing || prior == Prior::itself) c.before = [&way] { way.selector->load(way.fresh); };
    all_.push_back(std::move(c));
  }

  void add_baselines() {
    const int few = n_ > (1 << 22) ? 3 : 5;
    add("radix select, scan and scatter", make_selector("radix"), Prior::nothing, few);
    if (!on_gpu_)  // a device makes these sets as it makes those above
      for (const auto& [title, name] : {std::pair{"Algorithm 2 step by step", "trimmed-steps"},
                                        {"Algorithm 3 step by step", "search-steps"},
                                        {"radix select, histograms", "radix-histogram"},
                                        {"std::nth_element", "nth-element"}})
        add(title, compress::published_selector(name).make(), Prior::nothing, few);
  }

  void add_torch() {
    const ScratchFolder folder("select");
    const std::string file = folder.path() + "/values";
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(host_.data<float>()), static_cast<std::streamsize>(host_.bytes()));
    torch_.emplace(std::vector<std::string>{bench_.with_torch, "-c", kTorchCallsSource, std::to_string(threads_),
                                            to_string(bench_.device)},
                   torch_environment(threads_));
    torch_->ask(fmt::format("load {} {}", k_, file));
    all_.push_back({.name = "torch.topk", .most_rounds = 5, .by_own_clock = [this] { return torch_->run(1); }});
  }

  Bench::Json shown() {
    ResultTable table(bench_.markdown,
                      fmt::format("{}, {} elements, top {}, {}", data_, n_, k_, bench_.computed_by(threads_)));
    const std::string passes = on_gpu_ ? "copies (95 %)" : "read passes (95 %)";
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Contender& c = all_[i];
      const Way* const way = i > 0 && i - 1 < ways_.size() ? ways_[i - 1].get() : nullptr;
      Cells row{
          {"method", "name", c.name}, {"ms", "ms", c.milliseconds(), "{:.3f}"}, {passes, "passes", ratio(c, all_[0])}};
      if (way) {
        row.emplace_back("tensor read", "tensor_read", way->chosen.passes);
        row.emplace_back("chosen", "chosen", way->chosen.size());
      }
      const auto bytes = static_cast<double>(v_.bytes());
      const double reads = i == 0 ? 2 : way ? way->chosen.passes : 0;  // a copy moves the tensor twice
      if (on_gpu_)
        row.emplace_back("of the bandwidth", "", share_of_bandwidth(c, all_[0], reads * bytes, 2 * bytes), "{:.2f}");
      table.add(row);
    }
    Bench::Json result{{"what", "selection"}, {"data", data_},       {"elements", n_},
                       {"k", k_},             {"threads", threads_}, {"results", table.objects()}};
    if (!on_gpu_) {
      const dist::LinkSpec link = dist::LinkSpec::parse(bench_.link, "--link");
      const dist::LinkModel model{.alpha = 1e-9 * static_cast<double>(link.latency.count()),
                                  .beta = 8.0 / static_cast<double>(link.bits_per_second)};
      const double dense = 1e3 * model.seconds(dist::ring_allreduce_cost(bench_.workers, 4.0 * static_cast<double>(n_)));
      result["dense_ring_ms"] = dense;
      table.add({{"method", "", fmt::format("dense ring, {} ranks, {} (computed)", bench_.workers, link.to_string())},
                 {"ms", "", dense, "{:.3f}"},
                 {passes, "", dense / all_[0].milliseconds(), "{:.1f}"}});
    }
    bench_.show(table);
    return result;
  }

  const SelectBench& bench_;
  const std::string data_;
  const int threads_;
  const bool on_gpu_;
  const Tensor host_, v_;
  const std::int64_t n_;
  const std::size_t k_;
  const compress::ResidualStats stats_;
  std::vector<Contender> all_;
  std::vector<std::unique_ptr<Way>> ways_;
  std::optional<Peer> torch_;
};

}  // namespace

std::size_t SelectBench::count(std::int64_t n) const {
  return static_cast<std::size_t>(dist::elements_to_send(n, density));
}

int bench_select(const std::vector<std::string>& arguments) {
  std::vector<std::string> elements{"2^20", "2^24", "2^26"}, data = select_distributions();
  std::vector<std::string> parts{"selection", "residual", "scatter", "coding"};
  std::vector<int> threads{1};
  SelectBench bench(
      "select",
      "Choosing what to send, and packing it: time in passes that only read the tensor, in turns with such a pass.");
  bench.option("--elements", elements, "N", "sizes of the tensor [2^20,2^24,2^26]");
  std::vector<const CLI::Option*> of_selection{
      bench.option("--data", data, "X",
                   "uniform, normal, laplace, heavy, a file of float32, or FILE.safetensors:TENSOR [the four]")};
  const CLI::Option* const of_parts = bench.option("--part", parts, "P", "selection, residual, scatter, coding [all]",
                                                   CLI::IsMember({"selection", "residual", "scatter", "coding"}));
  bench.add_device("cpu, or cuda[:I] for selection and residual beside a copy there [cpu]");
  bench.option("--density", bench.density, "D", "share to choose [0.001]", number_from_to(1e-9, 1));
  bench.option("--threads", threads, "T", "kernel threads [1]", CLI::Range(1, 1024));
  bench.option("--rounds", bench.rounds, "R", "turns; slow methods take 3 to 5 [15]", CLI::Range(1, 100000));
  of_selection.push_back(bench.app.add_flag("--baselines,!--no-baselines", bench.baselines,
                                            "what is written down in papers, step by step [on]"));
  bench.add_against("torch", "torch.topk too, in turns with ours");
  const CLI::Option* const of_dense[] = {
      bench.option("--link", bench.link, "LINK",
                   "RATE,LATENCY of the dense exchange that it stands beside [1gbit,50us]"),
      bench.option("--workers", bench.workers, "N", "ranks of that exchange [4]", CLI::Range(2, 1 << 20))};
  if (const auto done = bench.parse(arguments)) return *done;
  if (bench.on_gpu() && of_parts->empty()) parts = {"selection", "residual"};
  for (const CLI::Option* option : of_dense)
    require<UsageError>(!bench.on_gpu() || option->empty(), "the dense exchange stands beside a CPU's selection only (",
                        option->get_name(), "): leave it out, or --device ", bench.device_name);
  for (const std::string& part : parts)
    require<UsageError>(!bench.on_gpu() || part == "selection" || part == "residual", "the part ", part,
                        " is measured on the CPU only (--device): leave one of them out");
  std::vector<std::int64_t> sizes;
  for (const auto& e : elements) sizes.push_back(elements_from(e));
  dist::LinkSpec::parse(bench.link, "--link");
  bench.with_torch = bench.python();
  const auto wants = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  of_selection.insert(of_selection.end(), std::begin(of_dense), std::end(of_dense));
  for (const CLI::Option* option : of_selection)
    require<UsageError>(wants("selection") || option->empty(), "only the part selection takes ", option->get_name(),
                        " (--part): leave it out, or add that part");
  bench.say(machine(bench.device));
  auto all = Bench::Json::array();
  for (const int t : threads) {
    set_kernel_threads(t);
    for (const std::int64_t n : sizes) {
      if (wants("selection"))
        for (const auto& d : data) all.push_back(Selections(bench, d, n, t).measure());
      for (const auto& [name, measure] :
           {std::pair{"residual", &bench_residual}, {"scatter", &bench_scatter}, {"coding", &bench_codings}})
        if (wants(name)) all.push_back(measure(bench, n)), all.back()["threads"] = t;
    }
  }
  return bench.finish({{"results", all}});
}

}  // namespace laconic
