#include "apps/bench/select.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/bench/bench.h"
#include "apps/bench/cost_fit.h"
#include "apps/bench/published_selectors.h"
#include "apps/bench/read_pass.h"
#ifdef LACONIC_CUB
#include "apps/bench/cuda/cub_top_k.h"
#endif
#include "apps/bench/torch.h"
#include "apps/device_options.h"
#include "apps/machine.h"
#include "apps/subcommand.h"
#include "apps/torch_topk_source.h"
#include "apps/values.h"
#include "compress/selector.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/stream.h"
#include "dist/choice.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/transport/link.h"

namespace laconic {
namespace {

using compress::make_selector;

struct SelectBenchOptions {
  std::vector<std::string> elements{"2^20", "2^24", "2^26"}, data;
  std::vector<std::string> parts{"selection", "residual", "scatter", "coding"};
  std::vector<int> threads{1};
  double density = 0.001;
  int rounds = 15, workers = 4;
  std::string against, link = "1gbit,50us", device = "cpu";
  bool baselines = true, json = false, markdown = false;
};

std::int64_t elements_from(const std::string& text) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = text.rfind("2^", 0) == 0 ? std::exp2(std::stod(text.substr(2), &end)) : std::stod(text, &end);
    end += text.rfind("2^", 0) == 0 ? 2 : 0;
  } catch (const std::exception&) {
    end = 0;
  }
  require<UsageError>(end > 0 && end == text.size() && value >= 16 && value < 4294967296.0, "'", text,
                      "' is no number of elements (--elements): give one from 16 to 2^31, as 1000000 or 2^20");
  return static_cast<std::int64_t>(value);
}

/// A file that lasts as long as the object.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "laconic-select-XXXXXX").string()) {
    const int fd = ::mkstemp(path_.data());
    require<DataError>(fd >= 0, path_, " could not be made (--against): is the disk full?");
    ::close(fd);
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

#ifdef LACONIC_CUB
std::vector<std::uint32_t> on_host(Slice<const std::uint32_t> x) {
  std::vector<std::uint32_t> values(x.size());
  copy_bytes(values.data(), kCpu, x.data(), x.device(), x.size_bytes());
  return values;
}
#endif

/// One way to select: a selector in a given state of knowledge, and what it chose last.
struct Way {
  std::unique_ptr<compress::Selector> selector;
  compress::Candidates candidates{};
  compress::Selection chosen{};
  StateDict fresh{};
};

nlohmann::json bench_selection(const SelectBenchOptions& o, const std::string& data, std::int64_t elements, int threads,
                               const std::string& python) {
  const Device device = device_named(o.device);
  const bool on_gpu = device != kCpu;
  const Tensor host = select_data(data, elements), v = copied_to(host, device);
  const std::int64_t n = v.elements();
  const auto k = static_cast<std::size_t>(dist::elements_to_send(n, o.density));
  const compress::ResidualStats stats = compress::residual_stats(v.slice());

  std::vector<Contender> all;
  std::vector<std::unique_ptr<Way>> ways;
  if (!on_gpu) all.push_back({.name = "read pass", .run = [&] { read_pass(v.data<float>(), n); }});
  // prior: 0 nothing known, 1 the floor of an earlier step, 2 candidates out of the residual pass
  const auto add = [&](const std::string& name, std::unique_ptr<compress::Selector> selector, int prior,
                       int most_rounds = 1 << 20) {
    Way& way = *ways.emplace_back(std::make_unique<Way>(Way{std::move(selector)}));
    way.selector->save(way.fresh);
    const auto select = [&way, &v, &stats, k, prior] {
      way.selector->select(
          {.values = v.slice(), .k = k, .stats = &stats, .candidates = prior == 2 ? &way.candidates : nullptr},
          way.chosen);
    };
    if (prior > 0) select();
    if (prior == 2) {
      // The residual pass with a gradient of zeros: the same values again.
      const Tensor zeros = Tensor::zeros({n}, DType::f32, device), copy = copied_to(v, device);
      way.selector->prepare(way.candidates, k);
      compress::accumulate_residual({zeros.slice(), {}, {}, copy.slice(), 0}, {}, 1.0f, &way.candidates);
    }
    Contender c{.name = name, .run = select, .most_rounds = most_rounds};
    if (prior == 0) c.before = [&way] { way.selector->load(way.fresh); };
    all.push_back(std::move(c));
  };
  add("exact, candidates from the residual pass", make_selector("exact"), 2);
  // Without candidates a device reads all values, whatever it knows.
  if (!on_gpu) add("exact, floor of an earlier step", make_selector("exact"), 1);
  add("exact, nothing known", make_selector("exact"), 0);
  add("Algorithm 3, candidates from the residual pass", make_selector("search"), 2);
  if (!on_gpu) add("Algorithm 3, floor of an earlier step", make_selector("search"), 1);
  add("Algorithm 3, nothing known", make_selector("search"), 0);
  {
    // The reuse step alone: the selector that has just searched.
    Way& way = *ways.emplace_back(std::make_unique<Way>(Way{make_selector("sampled")}));
    const auto select = [&way, &v, &stats, k] {
      way.selector->select({.values = v.slice(), .k = k, .stats = &stats}, way.chosen);
    };
    select();
    way.selector->save(way.fresh);
    all.push_back(
        {.name = "sampled, threshold reused", .run = select, .before = [&way] { way.selector->load(way.fresh); }});
  }
  std::unique_ptr<ChildProcess> torch;
  if (o.baselines) {
    const int few = n > (1 << 22) ? 3 : 5;
    add("radix select, scan and scatter", make_selector("radix"), 0, few);
    if (!on_gpu) {  // a device makes these sets as it makes those above
      for (const auto& [title, name] : {std::pair{"Algorithm 2 step by step", "trimmed-steps"},
                                        {"Algorithm 3 step by step", "search-steps"},
                                        {"radix select, histograms", "radix-histogram"},
                                        {"std::nth_element", "nth-element"}})
        add(title, compress::published_selector(name).make(), 0, few);
    }
  }
#ifdef LACONIC_CUB
  std::unique_ptr<CubTopK> cub;
  if (on_gpu && o.baselines && n < (std::int64_t{1} << 31)) {
    cub = std::make_unique<CubTopK>(v.data<float>(), n, static_cast<std::int64_t>(k));
    all.push_back({.name = "CUB radix sort", .run = [&cub] { cub->run(); }, .most_rounds = 5});
  }
#endif
  if (!python.empty()) {
    const TemporaryFile file;
    std::ofstream(file.path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(host.data<float>()), static_cast<std::streamsize>(host.bytes()));
    torch = std::make_unique<ChildProcess>(
        std::vector<std::string>{python, "-c", kTorchTopkSource, std::to_string(threads), to_string(device)},
        torch_environment(threads));
    wait_until_ready(*torch);
    torch->ask("load " + file.path());
    all.push_back({.name = "torch.topk", .most_rounds = 5, .by_own_clock = [&torch, k] {  // without the pipe between us
                     return nlohmann::json::parse(torch->ask(fmt::format("run {}", k))).at("seconds").get<double>();
                   }});
  }
  if (on_gpu) beside_a_copy(all, n, device);
  run_in_turns(all, o.rounds);
#ifdef LACONIC_CUB
  if (cub)
    require<Error>(on_host(ways[0]->chosen.all_indices()) == on_host({cub->indices(), k, device}),
                   "bench select: CUB's ", k, " largest of ", n, " are others than ours.");
#endif

  const dist::LinkSpec link = dist::LinkSpec::parse(o.link, "--link");
  const LinkModel model{.alpha = 1e-9 * static_cast<double>(link.latency.count()),
                        .beta = 8.0 / static_cast<double>(link.bits_per_second)};
  const double dense = 1e3 * model.seconds(dist::ring_allreduce_cost(o.workers, 4.0 * static_cast<double>(n)));
  std::vector<std::string> columns{"method", "ms", on_gpu ? "copies (95 %)" : "read passes (95 %)", "tensor read",
                                   "chosen"};
  if (on_gpu) columns.push_back("of the bandwidth");
  const ResultTable table(columns, o.markdown);
  if (!o.json)
    table.title(fmt::format("{}, {} elements, top {}, {}", data, n, k,
                            on_gpu ? o.device : fmt::format("{} thread{}", threads, threads == 1 ? "" : "s")));
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Contender& c = all[i];
    const Median passes = ratio(c, all[0]);
    const Way* const way = i > 0 && i - 1 < ways.size() ? ways[i - 1].get() : nullptr;
    list.push_back({{"name", c.name},
                    {"ms", c.milliseconds()},
                    {"passes", passes.value},
                    {"passes_low", passes.low},
                    {"passes_high", passes.high}});
    if (way) list.back().update({{"tensor_read", way->chosen.passes}, {"chosen", way->chosen.size()}});
    std::vector<std::string> cells{c.name, fmt::format("{:.3f}", c.milliseconds()), with_interval(passes),
                                   way ? fmt::format("{}", way->chosen.passes) : "",
                                   way ? fmt::format("{}", way->chosen.size()) : ""};
    if (on_gpu) {
      const double reads = i == 0 ? 2 : way ? way->chosen.passes : 0;  // a copy moves the tensor twice
      const auto bytes = static_cast<double>(v.bytes());
      cells.push_back(share_of_bandwidth(c, all[0], reads * bytes, 2 * bytes));
    }
    if (!o.json) table.row(cells);
  }
  if (!o.json && !on_gpu)
    table.row({fmt::format("dense ring, {} ranks, {} (computed)", o.workers, link.to_string()),
               fmt::format("{:.3f}", dense), fmt::format("{:.1f}", dense / all[0].milliseconds()), "", ""});
  nlohmann::json result{{"what", "selection"}, {"data", data},   {"elements", n}, {"k", k},
                        {"threads", threads},  {"results", list}};
  if (!on_gpu) result["dense_ring_ms"] = dense;
  return result;
}

}  // namespace

void beside_a_copy(std::vector<Contender>& all, std::int64_t n, Device device) {
  const Tensor from = Tensor::zeros({n}, DType::f32, device), to = Tensor::empty({n}, DType::f32, device);
  all.insert(all.begin(), {.name = "copy", .run = [from, to] { to.copy_from(from); }});
  for (Contender& c : all) {
    if (c.run) c.run = [run = c.run, device] { run(), synchronize(device); };
    if (c.before) c.before = [before = c.before, device] { before(), synchronize(device); };
  }
}

std::string share_of_bandwidth(const Contender& c, const Contender& copy, double bytes, double copied_bytes) {
  constexpr double kBeyondCaches = 2.0 * (1 << 24) * sizeof(float);
  if (bytes <= 0 || copied_bytes < kBeyondCaches) return "";
  return fmt::format("{:.2f}", bytes / copied_bytes / ratio(c, copy).value);
}

int bench_select(const std::vector<std::string>& arguments) {
  SelectBenchOptions o;
  CLI::App app(
      "Choosing what to send, and packing it: time in passes that only read the tensor, in turns with such a pass.",
      "laconic bench select");
  app.add_option("--elements", o.elements, "sizes of the tensor [2^20,2^24,2^26]")->delimiter(',')->type_name("N,..");
  app.add_option("--data", o.data,
                 "uniform, normal, laplace, heavy, a file of float32, or FILE.safetensors:TENSOR [the four]")
      ->delimiter(',')
      ->type_name("X,..");
  app.add_option("--part", o.parts, "selection, residual, scatter, coding [all]")
      ->delimiter(',')
      ->type_name("P,..")
      ->check(CLI::IsMember({"selection", "residual", "scatter", "coding"}));
  app.add_option("--device", o.device, "cpu, or cuda[:I] for selection and residual beside a copy there [cpu]")
      ->type_name("DEVICE");
  app.add_option("--density", o.density, "share to choose [0.001]")->check(CLI::Range(1e-9, 1.0))->type_name("D");
  app.add_option("--threads", o.threads, "kernel threads [1]")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("T,..");
  app.add_option("--rounds", o.rounds, "turns; slow methods take 3 to 5 [15]")
      ->check(CLI::Range(1, 100000))
      ->type_name("R");
  app.add_flag("--baselines,!--no-baselines", o.baselines, "what is written down in papers, step by step [on]");
  app.add_option("--against", o.against,
                 "torch.topk too, in turns with ours: LACONIC_PYTHON, python3 or /usr/bin/python3")
      ->type_name("torch")
      ->check(CLI::IsMember({"torch"}));
  app.add_option("--link", o.link, "RATE,LATENCY of the dense exchange that it stands beside [1gbit,50us]")
      ->type_name("LINK");
  app.add_option("--workers", o.workers, "ranks of that exchange [4]")->check(CLI::Range(2, 1 << 20))->type_name("N");
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "tables for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  checked_device(o.device, "--device");
  if (o.device != "cpu" && app.count("--part") == 0) o.parts = {"selection", "residual"};
  for (const char* option : {"--link", "--workers"})
    require<UsageError>(o.device == "cpu" || app.count(option) == 0,
                        "the dense exchange stands beside a CPU's selection only (", option,
                        "): leave it out, or --device ", o.device);
  for (const std::string& part : o.parts)
    require<UsageError>(o.device == "cpu" || part == "selection" || part == "residual", "the part ", part,
                        " is measured on the CPU only (--device): leave one of them out");
  if (o.data.empty()) o.data = select_distributions();
  std::vector<std::int64_t> sizes;
  for (const auto& e : o.elements) sizes.push_back(elements_from(e));
  dist::LinkSpec::parse(o.link, "--link");
  const std::string python = o.against.empty() ? "" : python_with("torch");
  const auto wants = [&](const char* part) { return std::find(o.parts.begin(), o.parts.end(), part) != o.parts.end(); };
  const Device device = device_named(o.device);
  if (!o.json) fmt::print("{}\n", machine(device));
  auto all = nlohmann::json::array();
  for (const int threads : o.threads) {
    set_kernel_threads(threads);
    for (const std::int64_t n : sizes) {
      if (wants("selection"))
        for (const auto& data : o.data) all.push_back(bench_selection(o, data, n, threads, python));
      const SparseBenchOptions sparse{.elements = n,
                                      .density = o.density,
                                      .rounds = o.rounds,
                                      .json = o.json,
                                      .markdown = o.markdown,
                                      .device = device};
      const auto add = [&](nlohmann::json part) {
        part["threads"] = threads;
        all.push_back(std::move(part));
      };
      if (wants("residual")) add(bench_residual(sparse));
      if (wants("scatter")) add(bench_scatter(sparse));
      if (wants("coding")) add(bench_codings(sparse));
    }
  }
  if (o.json) fmt::print("{}\n", nlohmann::json{{"results", all}}.dump());
  return 0;
}

}  // namespace laconic
