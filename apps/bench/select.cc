#include "apps/bench/select.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "apps/bench/cost_fit.h"
#include "apps/bench/published_selectors.h"
#ifdef LACONIC_CUB
#include "apps/bench/cuda/cub_top_k.h"
#endif
#include "apps/common/machine.h"
#include "apps/torch_topk_source.h"
#include "apps/common/values.h"
#include "compress/choose/selector.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parallel.h"
#include "core/base/parse.h"
#include "core/base/scratch_folder.h"
#include "core/stream.h"
#include "dist/plan/choice.h"
#include "dist/collective/ring_allreduce.h"
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

Bench::Json bench_selection(const SelectBench& bench, const std::string& data, std::int64_t elements, int threads) {
  const Device device = bench.device;
  const bool on_gpu = bench.on_gpu();
  const Tensor host = select_data(data, elements), v = copied_to(host, device);
  const std::int64_t n = v.elements();
  const std::size_t k = bench.count(n);
  const compress::ResidualStats stats = compress::residual_stats(v.slice());

  std::vector<Contender> all;
  std::vector<std::unique_ptr<Way>> ways;
  if (!on_gpu) all.push_back({.name = "read pass", .run = [&] { compress::read_pass(v.data<float>(), n); }});
  enum class Prior { nothing, itself, floor, candidates };  // known: of an earlier step, or out of the residual pass
  const auto add = [&](const std::string& name, std::unique_ptr<compress::Selector> selector, Prior prior,
                       int most_rounds = 1 << 20) {
    Way& way = *ways.emplace_back(std::make_unique<Way>(Way{std::move(selector)}));
    const auto select = [&way, &v, &stats, k, prior] {
      way.selector->select({.values = v.slice(),
                            .k = k,
                            .stats = &stats,
                            .candidates = prior == Prior::candidates ? &way.candidates : nullptr},
                           way.chosen);
    };
    if (prior == Prior::nothing) way.selector->save(way.fresh);
    if (prior != Prior::nothing) select();
    if (prior == Prior::itself) way.selector->save(way.fresh);
    if (prior == Prior::candidates) {
      // The residual pass with a gradient of zeros: the same values again.
      const Tensor zeros = Tensor::zeros({n}, DType::f32, device), copy = copied_to(v, device);
      way.selector->prepare(way.candidates, k);
      compress::accumulate_residual({zeros.slice(), {}, {}, copy.slice(), 0}, {}, 1.0f, &way.candidates);
    }
    Contender c{.name = name, .run = select, .most_rounds = most_rounds};
    if (prior == Prior::nothing || prior == Prior::itself) c.before = [&way] { way.selector->load(way.fresh); };
    all.push_back(std::move(c));
  };
  for (const auto& [title, name] : {std::pair{"exact", "exact"}, {"Algorithm 3", "search"}}) {
    add(concat(title, ", candidates from the residual pass"), make_selector(name), Prior::candidates);
    // Without candidates a device reads all values, whatever it knows.
    if (!on_gpu) add(concat(title, ", floor of an earlier step"), make_selector(name), Prior::floor);
    add(concat(title, ", nothing known"), make_selector(name), Prior::nothing);
  }
  // The reuse step alone: the selector that has just searched.
  add("sampled, threshold reused", make_selector("sampled"), Prior::itself);
  if (bench.baselines) {
    const int few = n > (1 << 22) ? 3 : 5;
    add("radix select, scan and scatter", make_selector("radix"), Prior::nothing, few);
    if (!on_gpu)  // a device makes these sets as it makes those above
      for (const auto& [title, name] : {std::pair{"Algorithm 2 step by step", "trimmed-steps"},
                                        {"Algorithm 3 step by step", "search-steps"},
                                        {"radix select, histograms", "radix-histogram"},
                                        {"std::nth_element", "nth-element"}})
        add(title, compress::published_selector(name).make(), Prior::nothing, few);
  }
#ifdef LACONIC_CUB
  const std::uint32_t* cubs = nullptr;
  if (on_gpu && bench.baselines && n < (std::int64_t{1} << 31))
    all.push_back(
        {.name = "CUB radix sort",
         .run = [&cubs, sort = cub_top_k(v.data<float>(), n, static_cast<std::int64_t>(k))] { cubs = sort(); },
         .most_rounds = 5});
#endif
  std::unique_ptr<ChildProcess> torch;
  if (!bench.with_torch.empty()) {
    const ScratchFolder folder("select");
    const std::string file = folder.path() + "/values";
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(host.data<float>()), static_cast<std::streamsize>(host.bytes()));
    torch = start_peer({bench.with_torch, "-c", kTorchTopkSource, std::to_string(threads), to_string(device)},
                       torch_environment(threads));
    torch->ask("load " + file);
    all.push_back(
        {.name = "torch.topk", .most_rounds = 5, .by_own_clock = [&torch, k] {  // without the pipe between us
           return json_from(torch->ask(fmt::format("run {}", k)), "the peer's answer").at("seconds").get<double>();
         }});
  }
  if (on_gpu) beside_a_copy(all, v);
  run_in_turns(all, bench.rounds);
#ifdef LACONIC_CUB
  if (cubs)
    require<Error>(on_host(ways[0]->chosen.all_indices()) == on_host({cubs, k, device}), "bench select: CUB's ", k,
                   " largest of ", n, " are others than ours.");
#endif

  ResultTable table(bench.markdown);
  table.title(fmt::format("{}, {} elements, top {}, {}", data, n, k, bench.computed_by(threads)));
  const std::string passes = on_gpu ? "copies (95 %)" : "read passes (95 %)";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Contender& c = all[i];
    const Way* const way = i > 0 && i - 1 < ways.size() ? ways[i - 1].get() : nullptr;
    Cells row{
        {"method", "name", c.name}, {"ms", "ms", c.milliseconds(), "{:.3f}"}, {passes, "passes", ratio(c, all[0])}};
    if (way) {
      row.emplace_back("tensor read", "tensor_read", way->chosen.passes);
      row.emplace_back("chosen", "chosen", way->chosen.size());
    }
    const auto bytes = static_cast<double>(v.bytes());
    const double reads = i == 0 ? 2 : way ? way->chosen.passes : 0;  // a copy moves the tensor twice
    if (on_gpu)
      row.emplace_back("of the bandwidth", "", share_of_bandwidth(c, all[0], reads * bytes, 2 * bytes), "{:.2f}");
    table.add(row);
  }
  Bench::Json result{{"what", "selection"},       {"data", data}, {"elements", n}, {"k", k}, {"threads", threads},
                     {"results", table.objects()}};
  if (!on_gpu) {
    const dist::LinkSpec link = dist::LinkSpec::parse(bench.link, "--link");
    const LinkModel model{.alpha = 1e-9 * static_cast<double>(link.latency.count()),
                          .beta = 8.0 / static_cast<double>(link.bits_per_second)};
    const double dense = 1e3 * model.seconds(dist::ring_allreduce_cost(bench.workers, 4.0 * static_cast<double>(n)));
    result["dense_ring_ms"] = dense;
    table.add({{"method", "", fmt::format("dense ring, {} ranks, {} (computed)", bench.workers, link.to_string())},
               {"ms", "", dense, "{:.3f}"},
               {passes, "", dense / all[0].milliseconds(), "{:.1f}"}});
  }
  bench.show(table);
  return result;
}

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
        for (const auto& d : data) all.push_back(bench_selection(bench, d, n, t));
      for (const auto& [name, measure] :
           {std::pair{"residual", &bench_residual}, {"scatter", &bench_scatter}, {"coding", &bench_codings}})
        if (wants(name)) all.push_back(measure(bench, n)), all.back()["threads"] = t;
    }
  }
  return bench.finish({{"results", all}});
}

}  // namespace laconic
