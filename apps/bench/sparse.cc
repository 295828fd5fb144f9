#include <algorithm>
#include <utility>

#include "apps/bench/published_selectors.h"
#include "apps/bench/select.h"
#include "apps/common/values.h"
#include "compress/select/selector.h"
#include "compress/sparse_message.h"
#include "core/raw.h"

namespace laconic {
namespace {

using compress::IndexCoding;

/// k ascending indices below n: drawn evenly; or those of the largest values where neighbours are alike, for each
/// worker others of the same places.
std::vector<std::uint32_t> indices_of(std::size_t k, std::int64_t n, bool clustered, std::uint32_t worker) {
  if (!clustered) {
    const Tensor zeros = Tensor::zeros({n});
    compress::SelectionInput input{.values = zeros.slice(), .k = k};
    input.key.seed = worker;
    return compress::make_selector("random")->select(input).indices;
  }
  static std::vector<std::uint32_t> indices;
  static std::int64_t of = 0;
  if (std::exchange(of, n) != n)
    indices = compress::make_selector("exact")->select({.values = select_data("heavy", n).slice(), .k = k}).indices;
  auto mine = indices;
  for (std::uint32_t& i : mine)
    if ((i | 4095) < n) i ^= 64 * worker;
  std::sort(mine.begin(), mine.end());
  return mine;
}

/// Shows all of them beside the first, and returns the part's object.
Bench::Json result(const SelectBench& bench, std::int64_t n, const char* what, const std::string& title,
                   const std::string& unit, const std::vector<Contender>& all) {
  ResultTable table(bench.markdown, fmt::format("{} elements, {} to send", n, bench.count(n)));
  for (const Contender& c : all)
    table.add({{title, "name", c.name},
               {"ms", "ms", c.milliseconds(), "{:.3f}"},
               {unit + " (95 %)", "ratio", ratio(c, all[0])}});
  bench.show(table);
  return {{"what", what}, {"elements", n}, {"k", bench.count(n)}, {"results", table.objects()}};
}

}  // namespace

Bench::Json bench_residual(const SelectBench& bench, std::int64_t n) {
  const std::size_t k = bench.count(n);
  // Every step takes its gradient from another place, so that they differ.
  constexpr std::int64_t kShift = 4096, kShifts = 64;
  const Tensor g = copied_to(select_data("normal", n + kShift * kShifts), bench.device);
  const Tensor w = copied_to(select_data("uniform", n), bench.device);
  const auto zeros = [&] { return Tensor::zeros({n}, DType::f32, bench.device); };
  const Tensor u = zeros();
  struct State {
    Tensor u, v;
    std::unique_ptr<compress::Selector> selector = compress::make_selector("exact");
    compress::Candidates candidates{};
    compress::ResidualStats stats{};
    std::int64_t turn = 0;
  };
  State plain{zeros(), zeros()}, candidates{zeros(), zeros()};
  const auto pass = [&](State& s, compress::Candidates* c) {
    const Tensor now = g.range(kShift * (s.turn++ * 13 % kShifts), n);
    s.stats = compress::accumulate_residual({now.slice(), {}, s.u.slice(), s.v.slice(), 0}, {0.9f, 0, false}, 1.0f, c);
  };
  // As in training: what was found is sent before the next pass.
  const auto send = [&] {
    State& s = candidates;
    if (s.stats.elements > 0) {
      const auto chosen =
          s.selector->select({.values = s.v.slice(), .k = k, .stats = &s.stats, .candidates = &s.candidates});
      compress::clear_sent(s.u.slice(), s.v.slice(), chosen.all_indices(), true);
    }
    s.selector->prepare(s.candidates, k);
  };
  const raw::SgdStep step{.lr = 1e-9f,
                          .gradient_scale = 1,
                          .weight_decay = 0,
                          .momentum = 0.9f,
                          .dampening = 0,
                          .nesterov = false,
                          .first = false};
  for (int i = 0; i < 20; ++i) {
    send();
    pass(candidates, &candidates.candidates);
  }
  std::vector<Contender> all;
  const Tensor first = g.range(0, n);
  all.push_back({.name = "dense update, SGD with momentum", .run = [&] { raw::sgd(w, first, u, step); }});
  all.push_back({.name = "residual pass with statistics", .run = [&] { pass(plain, nullptr); }});
  all.push_back({.name = "the same, candidates emitted",
                 .run = [&] { pass(candidates, &candidates.candidates); },
                 .before = send});
  if (bench.on_gpu()) beside_a_copy(all, first);
  run_in_turns(all, bench.rounds);
  if (!bench.on_gpu()) all.back().name += fmt::format(" ({} of them)", candidates.candidates.count());
  return result(bench, n, "residual", "residual",
                bench.on_gpu() ? "copies, which move 2 tensors; the others move 5" : "of the dense update", all);
}

Bench::Json bench_scatter(const SelectBench& bench, std::int64_t n) {
  constexpr std::uint32_t kWorkers = 16;
  const Tensor w = select_data("uniform", n), u = Tensor::zeros({n});
  std::vector<Contender> all{{.name = "read pass", .run = [&] { compress::read_pass(w.data<float>(), n); }}};
  struct Messages {
    std::vector<compress::Bytes> raw = std::vector<compress::Bytes>(kWorkers);
    std::vector<compress::Bytes> packed = std::vector<compress::Bytes>(kWorkers);
    std::vector<compress::SparseView> views = std::vector<compress::SparseView>(kWorkers);  // of the raw ones
    std::vector<std::uint32_t> own;
  } messages[2];
  for (const bool clustered : {false, true}) {
    Messages& m = messages[clustered];
    for (std::uint32_t r = 0; r < kWorkers; ++r) {
      m.own = indices_of(bench.count(n), n, clustered, r);
      const std::vector<float> values(m.own.size(), 1e-9f);
      const auto encode = [&](IndexCoding coding, compress::Bytes& payload) {
        compress::encode_sparse({coding, false}, slice(std::as_const(m.own)), slice(values),
                                static_cast<std::size_t>(n), payload);
      };
      encode(IndexCoding::raw, m.raw[r]), encode(IndexCoding::packed, m.packed[r]);
      m.views[r].read({}, m.raw[r].slice(), static_cast<std::size_t>(n));
    }
    const std::string kind = clustered ? ", clustered" : ", spread evenly";
    all.push_back({.name = fmt::format("scatter-add of {} payloads{}", kWorkers, kind),
                   .run = [&] { compress::scatter_add(m.views, -0.01f, w.slice()); }});
    all.push_back({.name = "the same, index coding packed read first" + kind, .run = [&, n] {
                     std::vector<compress::SparseView> read(kWorkers);
                     for (std::size_t r = 0; r < kWorkers; ++r)
                       read[r].read({IndexCoding::packed, false}, m.packed[r].slice(), static_cast<std::size_t>(n));
                     compress::scatter_add(read, -0.01f, w.slice());
                   }});
    all.push_back({.name = "clear momentum and residual" + kind,
                   .run = [&] { compress::clear_sent(u.slice(), w.slice(), slice(std::as_const(m.own)), true); }});
  }
  run_in_turns(all, bench.rounds);
  return result(bench, n, "scatter", "after the exchange", "read passes", all);
}

Bench::Json bench_codings(const SelectBench& bench, std::int64_t elements) {
  const auto n = static_cast<std::size_t>(elements);
  ResultTable table(bench.markdown, fmt::format("{} of {} indices", bench.count(elements), elements));
  for (const bool clustered : {false, true})
    for (const auto& [coding, name] :
         {std::pair{IndexCoding::raw, "raw"}, {IndexCoding::packed, "packed"}, {IndexCoding::rice, "rice"}}) {
      const auto indices = indices_of(bench.count(elements), elements, clustered, 0);
      const std::vector<float> one{1};
      const compress::SparseFormat format{coding, true};
      compress::Bytes payload, written;
      compress::encode_sparse(format, slice(indices), slice(one), n, payload);
      compress::SparseView view;
      std::vector<Contender> all{{.name = "encode",
                                  .run =
                                      [&] {
                                        written.clear();
                                        compress::encode_sparse(format, slice(indices), slice(one), n, written);
                                      }},
                                 {.name = "decode", .run = [&] { view.read(format, payload.slice(), n); }}};
      run_in_turns(all, bench.rounds);
      const auto k = static_cast<double>(indices.size());
      table.add({{"indices", "indices", clustered ? "clustered" : "spread evenly"},
                 {"coding", "coding", name},
                 {"bits", "bits", 8 * static_cast<double>(payload.size() - 8) / k, "{:.2f}"},
                 {"encode, M/s", "encode_m_per_s", 1e-6 * k / all[0].time().value, "{:.0f}"},
                 {"decode, M/s", "decode_m_per_s", 1e-6 * k / all[1].time().value, "{:.0f}"}});
    }
  bench.show(table);
  return {{"what", "coding"}, {"elements", n}, {"k", bench.count(elements)}, {"results", table.objects()}};
}

}  // namespace laconic
