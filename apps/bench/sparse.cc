#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/bench/read_pass.h"
#include "apps/bench/select.h"
#include "apps/values.h"
#include "compress/selector.h"
#include "compress/sparse_message.h"
#include "core/update.h"
#include "dist/choice.h"

namespace laconic {
namespace {

using compress::IndexCoding;

std::size_t count_of(const SparseBenchOptions& o) {
  return static_cast<std::size_t>(dist::elements_to_send(o.elements, o.density));
}

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

nlohmann::json to_json(const Contender& c, const Contender& base) {
  const Median m = ratio(c, base);
  return {{"name", c.name}, {"ms", c.milliseconds()}, {"ratio", m.value}, {"ratio_low", m.low}, {"ratio_high", m.high}};
}

void print(const SparseBenchOptions& o, const std::string& title, const std::string& unit,
           const std::vector<Contender>& all) {
  if (o.json) return;
  const ResultTable table({title, "ms", unit + " (95 %)"}, o.markdown);
  table.title(fmt::format("{} elements, {} to send", o.elements, count_of(o)));
  for (const Contender& c : all)
    table.row({c.name, fmt::format("{:.3f}", c.milliseconds()), with_interval(ratio(c, all[0]))});
}

nlohmann::json results(const SparseBenchOptions& o, const char* what, const std::vector<Contender>& all) {
  auto list = nlohmann::json::array();
  for (const Contender& c : all) list.push_back(to_json(c, all[0]));
  return {{"what", what}, {"elements", o.elements}, {"k", count_of(o)}, {"results", list}};
}

}  // namespace

nlohmann::json bench_residual(const SparseBenchOptions& o) {
  const std::size_t k = count_of(o);
  // Every step takes its gradient from another place, so that they differ.
  constexpr std::int64_t kShift = 4096, kShifts = 64;
  const Tensor g = copied_to(select_data("normal", o.elements + kShift * kShifts), o.device);
  const Tensor w = copied_to(select_data("uniform", o.elements), o.device);
  const auto zeros = [&] { return Tensor::zeros({o.elements}, DType::f32, o.device); };
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
    const Tensor now = g.range(kShift * (s.turn++ * 13 % kShifts), o.elements);
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
  const Tensor first = g.range(0, o.elements);
  all.push_back({.name = "dense update, SGD with momentum", .run = [&] { raw::sgd(w, first, u, step); }});
  all.push_back({.name = "residual pass with statistics", .run = [&] { pass(plain, nullptr); }});
  all.push_back({.name = "the same, candidates emitted",
                 .run = [&] { pass(candidates, &candidates.candidates); },
                 .before = send});
  if (o.device != kCpu) beside_a_copy(all, o.elements, o.device);
  run_in_turns(all, o.rounds);
  if (o.device == kCpu) all.back().name += fmt::format(" ({} of them)", candidates.candidates.count());
  print(o, "residual", o.device == kCpu ? "of the dense update" : "copies, which move 2 tensors; the others move 5",
        all);
  return results(o, "residual", all);
}

nlohmann::json bench_scatter(const SparseBenchOptions& o) {
  constexpr std::uint32_t kWorkers = 16;
  const std::size_t k = count_of(o);
  const auto n = static_cast<std::size_t>(o.elements);
  const Tensor w = select_data("uniform", o.elements), u = Tensor::zeros({o.elements});
  std::vector<Contender> all;
  all.push_back({.name = "read pass", .run = [&] { read_pass(w.data<float>(), o.elements); }});
  std::vector<compress::Bytes> payloads;
  std::vector<std::vector<compress::SparseView>> views(2);
  std::vector<std::uint32_t> own[2];
  payloads.reserve(4 * kWorkers);
  std::vector<std::size_t> first_packed;
  for (const bool clustered : {false, true}) {
    for (const IndexCoding coding : {IndexCoding::raw, IndexCoding::packed}) {
      if (coding == IndexCoding::packed) first_packed.push_back(payloads.size());
      for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        const auto indices = indices_of(k, o.elements, clustered, worker);
        const std::vector<float> values(indices.size(), 1e-9f);
        compress::encode_sparse({coding, false}, slice(indices), slice(values), n, payloads.emplace_back());
        if (coding == IndexCoding::packed) continue;
        views[clustered].emplace_back().read({}, payloads.back().slice(), n);
        own[clustered] = indices;
      }
    }
  }
  for (const bool clustered : {false, true}) {
    const std::string kind = clustered ? ", clustered" : ", spread evenly";
    all.push_back({.name = fmt::format("scatter-add of {} payloads{}", kWorkers, kind),
                   .run = [&, clustered] { compress::scatter_add(views[clustered], -0.01f, w.slice()); }});
    all.push_back({.name = fmt::format("the same, index coding packed read first{}", kind), .run = [&, clustered] {
                     std::vector<compress::SparseView> read(kWorkers);
                     for (std::size_t r = 0; r < kWorkers; ++r)
                       read[r].read({IndexCoding::packed, false}, payloads[first_packed[clustered] + r].slice(), n);
                     compress::scatter_add(read, -0.01f, w.slice());
                   }});
    all.push_back({.name = "clear momentum and residual" + kind, .run = [&, clustered] {
                     compress::clear_sent(u.slice(), w.slice(), slice(std::as_const(own[clustered])), true);
                   }});
  }
  run_in_turns(all, o.rounds);
  print(o, "after the exchange", "read passes", all);
  return results(o, "scatter", all);
}

nlohmann::json bench_codings(const SparseBenchOptions& o) {
  const auto n = static_cast<std::size_t>(o.elements);
  const ResultTable table({"indices", "coding", "bits", "encode, M/s", "decode, M/s"}, o.markdown);
  if (!o.json) table.title(fmt::format("{} of {} indices", count_of(o), o.elements));
  auto list = nlohmann::json::array();
  for (const bool clustered : {false, true})
    for (const auto& [coding, name] : {std::pair{IndexCoding::raw, "raw"}, std::pair{IndexCoding::packed, "packed"},
                                       std::pair{IndexCoding::rice, "rice"}}) {
      const auto indices = indices_of(count_of(o), o.elements, clustered, 0);
      const std::vector<float> one{1};
      const compress::SparseFormat format{coding, true};
      compress::Bytes payload, written;
      compress::encode_sparse(format, slice(indices), slice(one), n, payload);
      compress::SparseView view;
      std::vector<Contender> all;
      all.push_back({.name = "encode", .run = [&] {
                       written.clear();
                       compress::encode_sparse(format, slice(indices), slice(one), n, written);
                     }});
      all.push_back({.name = "decode", .run = [&] { view.read(format, payload.slice(), n); }});
      run_in_turns(all, o.rounds);
      const auto k = static_cast<double>(indices.size());
      const double bits = 8 * static_cast<double>(payload.size() - 8) / k, encode = k / all[0].milliseconds() / 1e3,
                   decode = k / all[1].milliseconds() / 1e3;
      const char* const kind = clustered ? "clustered" : "spread evenly";
      list.push_back({{"indices", kind},
                      {"coding", name},
                      {"bits", bits},
                      {"encode_m_per_s", encode},
                      {"decode_m_per_s", decode}});
      if (!o.json)
        table.row(
            {kind, name, fmt::format("{:.2f}", bits), fmt::format("{:.0f}", encode), fmt::format("{:.0f}", decode)});
    }
  return {{"what", "coding"}, {"elements", o.elements}, {"k", count_of(o)}, {"results", list}};
}

}  // namespace laconic
