#include "dist/method/rounds/top_k_sync.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/clock.h"
#include "core/host_copy.h"
#include "core/raw.h"
#include "core/base/trace.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

using compress::IndexCoding;
using compress::SparseFormat;

/// Elements of the arena that are cut into chunks: a parameter, or some rows of one.
struct Run {
  const Parameter* parameter;
  std::int64_t offset, elements;
};

std::vector<Run> runs_of(const Bucket& bucket, const std::vector<std::shared_ptr<Parameter>>& parameters) {
  std::vector<Run> runs;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
    const Parameter& p = *parameters[static_cast<std::size_t>(i)];
    const Held held = held_by(bucket, p.info);
    runs.push_back({&p, held.offset, held.elements});
  }
  return runs;
}

std::vector<std::size_t> counts_of(const Bucket& bucket, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                   const TopKWire& wire) {
  std::vector<std::size_t> counts;
  for (const Run& run : runs_of(bucket, parameters)) {
    const std::vector<std::size_t> of_run = wire.counts(run.elements);
    counts.insert(counts.end(), of_run.begin(), of_run.end());
  }
  return counts;
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

SparseFormat format_of(const TopKWire& wire) { return {.coding = IndexCoding::rice, .one_value = wire.two_bits}; }

std::size_t code_bytes(std::size_t values) { return (values + 15) / 16 * 4; }

/// The two magnitudes that stand for all of a chunk's.
struct Levels {
  float low = 0, high = 0;
};
static_assert(sizeof(Levels) == 8);

struct Split {
  explicit Split(Slice<const float> values) {
    for (const float v : values) mean += std::abs(double{v});
    mean /= static_cast<double>(values.size());
    double sums[2] = {0, 0};
    std::size_t counts[2] = {0, 0};
    for (const float v : values) sums[is_high(v)] += std::abs(double{v}), ++counts[is_high(v)];
    const auto level = [&](int i) {
      return counts[i] > 0 ? static_cast<float>(sums[i] / static_cast<double>(counts[i])) : 0;
    };
    levels = {level(0), level(1)};
  }
  bool is_high(float v) const { return std::abs(double{v}) >= mean; }
  double mean = 0;
  Levels levels;
};

float value_of(unsigned code, Levels levels) {
  const float magnitude = code & 2 ? levels.high : levels.low;
  return code & 1 ? -magnitude : magnitude;
}

}  // namespace

std::vector<std::size_t> TopKWire::counts(std::int64_t n) const {
  std::vector<std::size_t> counts;
  for (std::int64_t begin = 0; begin < n; begin += kChunk)
    counts.push_back(static_cast<std::size_t>(elements_to_send(std::min(kChunk, n - begin), density)));
  return counts;
}

/// A gap takes as many bits as in a code with one parameter for all.
double TopKWire::expected_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const {
  const double indices = compress::expected_rice_bytes(chosen, n);
  return two_bits ? indices + 8 + 8 * static_cast<double>(chunks) + static_cast<double>(code_bytes(chosen))
                  : indices + 4 * static_cast<double>(chosen);
}

std::size_t TopKWire::max_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const {
  const std::size_t sparse = max_sparse_bytes(format_of(*this), chosen, n);
  return two_bits ? 4 + sparse + chunks * sizeof(Levels) + code_bytes(chosen) : sparse;
}

void TopKWire::encode(Slice<const std::uint32_t> indices, Slice<float> values, std::span<const std::size_t> counts,
                      std::size_t n, compress::Bytes& payload) const {
  if (!two_bits) return encode_sparse(format_of(*this), indices, values, n, payload);
  const std::size_t begin = payload.size();
  payload.append(4);
  const float nothing = 0;
  encode_sparse(format_of(*this), indices, Slice<const float>(&nothing, indices.empty() ? 0 : 1), n, payload);
  const auto length = static_cast<std::uint32_t>(payload.size() - begin - 4);
  std::memcpy(payload.data() + begin, &length, 4);
  std::vector<Levels> levels;
  std::vector<std::byte> codes(code_bytes(values.size()));
  std::size_t i = 0;
  for (const std::size_t count : counts) {
    const Split split(values.sub(i, count));
    levels.push_back(split.levels);
    for (const std::size_t end = i + count; i < end; ++i) {
      const unsigned code = (std::signbit(values[i]) ? 1u : 0u) | (split.is_high(values[i]) ? 2u : 0u);
      codes[i / 4] |= static_cast<std::byte>(code << 2 * (i % 4));
      values[i] = value_of(code, split.levels);
    }
  }
  const auto put = [&](const auto& all) {
    const std::size_t bytes = all.size() * sizeof(all[0]);
    if (bytes > 0) std::memcpy(payload.append(bytes).data(), all.data(), bytes);
  };
  put(levels), put(codes);
}

void TopKWire::decode_add(Slice<const std::byte> payload, std::span<const std::size_t> counts, float factor,
                          Slice<float> dense) const {
  const std::size_t chosen = sum_of(counts), others = counts.size() * sizeof(Levels) + code_bytes(chosen);
  const auto check = [&](bool ok, const char* wrong) {
    require<DataError>(ok, "what was chosen of ", dense.size(), " elements: ", payload.size(), " bytes ", wrong,
                       ". Do all ranks use the same options?");
  };
  compress::SparseView view;
  if (!two_bits) {
    view.read(format_of(*this), payload, dense.size());
    check(view.size() == chosen, "hold another number of elements");
    return scatter_add(view, factor, dense);
  }
  check(payload.size() >= 4 + others, "end too early");
  std::uint32_t length;
  std::memcpy(&length, payload.data(), 4);
  check(length == payload.size() - 4 - others, "have another length than they announce");
  view.read(format_of(*this), payload.sub(4, length), dense.size());
  check(view.size() == chosen, "hold another number of elements");
  const std::byte* const magnitudes = payload.data() + 4 + length;
  const std::byte* const codes = magnitudes + counts.size() * sizeof(Levels);
  std::vector<float> values(chosen);
  std::size_t i = 0, chunk = 0;
  for (const std::size_t count : counts) {
    Levels levels;
    std::memcpy(&levels, magnitudes + sizeof levels * chunk++, sizeof levels);
    for (const std::size_t end = i + count; i < end; ++i)
      values[i] = value_of(static_cast<unsigned>(codes[i / 4]) >> 2 * (i % 4) & 3, levels);
  }
  compress::scatter_add(view.indices(), slice(std::as_const(values)), factor, dense);
}

TopKSync::TopKSync(const ParameterArena& arena, Engine& engine, const Plan& plan, Update update,
                   const TrainingFacts& facts, const TopKWire& wire, double beta)
    : BucketSync(arena, engine, plan, "top k", facts, engine.size()),
      update_(std::move(update)),
      wire_(wire),
      beta_(static_cast<float>(beta)),
      selector_(compress::make_selector("exact")),
      e_(Tensor::zeros({arena.size()}, DType::f32, arena.values().device() == kGhost ? kGhost : kCpu)),
      messages_(plan.buckets.size()) {
  for (std::size_t b = 0; b < messages_.size(); ++b) {
    require<UsageError>(bucket(b).elements < std::numeric_limits<std::uint32_t>::max(), bucket(b).name, " has ",
                        bucket(b).elements, " elements: places have 32 bits. Let it travel in parts (`chunk`)");
    messages_[b].counts = counts_of(bucket(b), arena.parameters(), wire);
    messages_[b].chosen = sum_of(messages_[b].counts);
  }
}

double TopKSync::expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                const TopKWire& wire, int workers) {
  double bytes = 0;
  for (const Bucket& bucket : plan.buckets) {
    const std::vector<std::size_t> counts = counts_of(bucket, parameters, wire);
    bytes +=
        kPartHeader + wire.expected_bytes(sum_of(counts), counts.size(), static_cast<std::size_t>(bucket.elements));
  }
  return (workers - 1) * bytes;
}

/// On the compute thread: messages are made in the order of steps, whatever the overlap.
void TopKSync::choose(std::size_t b) {
  const Trace::Span span(bucket(b).name, "select");
  Message& m = messages_[b];
  m.payload.clear();
  const Tensor d = arena().gradients().range(bucket(b).offset, bucket(b).elements);
  if (d.device() == kGhost) {
    GhostWork::tell(Work::gathering, static_cast<std::size_t>(bucket(b).elements));
    GhostWork::tell(Work::selecting, static_cast<std::size_t>(bucket(b).elements));
    const auto bytes = static_cast<std::size_t>(wire_.expected_bytes(m.chosen, m.counts.size(), d.slice().size()));
    std::memset(m.payload.append(bytes).data(), 0, bytes);
    return;
  }
  const HostCopy<float> here{Slice<const float>(d.slice())};
  const Slice<float> e = part(e_, bucket(b));
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  compress::Selection chosen;
  std::size_t chunk = 0;
  for (const Run& run : runs_of(bucket(b), arena().parameters())) {
    const auto end = static_cast<std::size_t>(run.offset - bucket(b).offset + run.elements);
    for (auto i = static_cast<std::size_t>(run.offset - bucket(b).offset); i < end;) {
      const Slice<float> some = e.sub(i, std::min<std::size_t>(TopKWire::kChunk, end - i));
      for (std::size_t j = 0; j < some.size(); ++j) some[j] = beta_ * some[j] + here.data()[i + j];
      try {
        selector_->select({.values = some, .k = m.counts[chunk++]}, chosen);
      } catch (const compress::NotANumber& error) {
        throw Error(concat("what was changed of ", run.parameter->info.name, " until step ", context_of(b).step, ": ",
                           error.what(), " Lower `lr`, or clip gradients (`clip` norm:5)."));
      }
      for (const std::uint32_t j : chosen.indices) indices.push_back(static_cast<std::uint32_t>(i) + j);
      values.insert(values.end(), chosen.values.begin(), chosen.values.end());
      i += some.size();
    }
  }
  wire_.encode(slice(std::as_const(indices)), slice(values), m.counts, e.size(), m.payload);
  compress::scatter_add(slice(std::as_const(indices)), slice(std::as_const(values)), -1.0f, e);
}

Operation TopKSync::exchange(std::size_t b) {
  const auto begin = Clock::now();
  choose(b);
  select_seconds_ += seconds_since(begin);
  Message& m = messages_[b];
  const std::size_t most = wire_.max_bytes(m.chosen, m.counts.size(), static_cast<std::size_t>(bucket(b).elements));
  return {.name = "allgather " + bucket(b).name,
          .body = [&m, most](Communicator& comm) { return allgatherv(comm, m.payload.slice(), most, m.all); }};
}

double TopKSync::message_bytes() const {
  double bytes = 0;
  for (std::size_t b = 0; b < messages_.size(); ++b) {
    const Message& m = messages_[b];
    const auto most =
        static_cast<double>(wire_.max_bytes(m.chosen, m.counts.size(), static_cast<std::size_t>(bucket(b).elements)));
    bytes += most + engine().size() * (kPartHeader + most);
  }
  return bytes;
}

void TopKSync::arrived(std::size_t b) {
  Message& m = messages_[b];
  buffer_bytes_[b] = m.payload.size() + m.all.capacity();
  const Tensor sum = arena().gradients().range(bucket(b).offset, bucket(b).elements);
  if (sum.device() != kGhost) raw::fill(sum, 0.0f);
  for (int r = 0; r < m.all.size(); ++r) {
    GhostWork::tell(sum.device(), Work::scattering, m.chosen);
    if (sum.device() == kGhost) continue;
    reading([&] { wire_.decode_add(m.all[r], m.counts, 1.0f, sum.slice()); }, "rounds: what rank ", r, " sent of ",
            bucket(b).name);
  }
  for (const auto& p : parameters_of(bucket(b))) update_(*p, rows_of(bucket(b), *p), context_of(b));
}

void TopKSync::save(RankState& state) const { state.set("feedback", e_, put_by()); }

void TopKSync::load(const StateDict& state) { state.copy_to(e_, "feedback", "what was not sent yet"); }

}  // namespace laconic::dist
