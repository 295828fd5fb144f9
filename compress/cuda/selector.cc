// Selection on a CUDA device: what compress/selector.cc does on the host, with the kernels of compress/cuda/select.h.
#include "compress/selector.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/cuda/scatter.h"
#include "compress/cuda/select.h"
#include "compress/magnitude.h"
#include "compress/random_subset.h"
#include "compress/select_fast.h"
#include "core/stream.h"

namespace laconic::compress {
namespace cuda {

/// Memory of a selector, kept from step to step.
struct SelectScratch {
  explicit SelectScratch(Device device)
      : device(device),
        memory(sizeof(SelectState), device),
        read(sizeof(SelectState), device),
        places(device),
        bins(device) {}

  SelectState* state() const { return reinterpret_cast<SelectState*>(memory.data()); }
  /// What stands there when all that was asked for has been done.
  const SelectState& wait() {
    copy_bytes_later(read.data(), kCpu, memory.data(), device, sizeof(SelectState));
    synchronize(device);
    return *reinterpret_cast<const SelectState*>(read.data());
  }

  Device device;
  Storage memory;
  Pinned read;
  Bytes places, bins;
  DeviceElements found, sampled;
};

namespace {

std::uint32_t word(std::size_t n) { return static_cast<std::uint32_t>(std::min<std::size_t>(n, UINT32_MAX)); }

/// Zeroes a member of the state.
template <class T>
void clear(const SelectScratch& scratch, T* member) {
  zero_bytes(member, scratch.device, sizeof(T));
}

/// A floor for the next step, by a cut of what was at or above `floor`. -1: not known.
float next_floor(const Cut& cut, std::int32_t floor) {
  if (cut.competing == 0) return -1;
  if (cut.target <= cut.competing) return magnitude_of(std::max(cut.floor, 1));
  // Tails fall about as exponentials do: as far down again as from the middle for each doubling.
  const float least = magnitude_of(std::max(floor, 0)), middle = magnitude_of(std::max(cut.middle, 0));
  const double doublings = std::log2(static_cast<double>(cut.target) / static_cast<double>(cut.competing));
  const auto down = std::max(0.0f, static_cast<float>(doublings) * (middle - least));
  return magnitude_of(std::max(key_of(down < 0.2f * least ? least - down : 0.8f * least, Sign::any), 1));
}

/// The elements of one selection, asked for step by step.
class Choice {
 public:
  Choice(const SelectionInput& in, SelectScratch& scratch, Selection& out)
      : in_(in), scratch_(scratch), out_(out), device_(in.values.device()) {
    zero_bytes(scratch.memory.data(), device_, sizeof(SelectState));
  }

  SelectState* state() const { return scratch_.state(); }
  Source all() const { return {in_.values.data(), nullptr, in_.values.size(), nullptr}; }

  /// state->stats, from wherever they are known, or by a pass.
  void bring_stats(bool wanted) {
    if (in_.stats) {
      require<NotANumber>(!in_.stats->nan, fast::kNaNSentence);
      set_stats({in_.stats->sum_positive, in_.stats->sum_negative, in_.stats->max_positive, in_.stats->max_negative, 0},
                state());
      elements_ = in_.stats->elements;
    } else if (in_.sums && in_.sums->on_device()) {
      copy_bytes(&state()->stats, device_, in_.sums->on_device(), device_, sizeof(DeviceStats));
      elements_ = in_.sums->elements();
    } else if (wanted) {
      accumulate({.residual = const_cast<float*>(in_.values.data())}, in_.values.size(), {}, &state()->stats);
      elements_ = in_.values.size();
      ++out_.passes;
    }
  }
  std::uint64_t elements() const { return elements_; }

  /// Whether there are candidates of all of the tensor; then list() is they.
  bool bring_candidates() {
    Candidates* const c = in_.candidates;
    if (!c || !c->active() || c->sign() != in_.sign || c->elements() != in_.values.size() ||
        c->most() > in_.values.size() + kSpare)
      return false;
    Candidates::Tiles& t = c->tiles();
    floor_ = key_from(c->floor(), in_.sign);
    room_ = c->most();
    scratch_.found.renew(device_, room_);
    std::sort(t.parts.begin(), t.parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& part : t.parts) {
      const auto from = [&]<class T>(const Bytes& bytes, std::size_t each, T*& to) {
        to = reinterpret_cast<T*>(bytes.data()) + part.begin * each;
      };
      TileCandidates tiles{.sign = in_.sign, .floor = floor_};
      from(t.counts, 1, tiles.counts), from(t.first, 1, tiles.firsts), from(t.length, 1, tiles.lengths);
      from(t.slots, kSlots, tiles.slots);
      gather_candidates(tiles, part.tiles, in_.values.data(), room_, scratch_.found.indices(), scratch_.found.values(),
                        &state()->candidates);
    }
    return true;
  }
  Source list() const { return {scratch_.found.values(), scratch_.found.indices(), room_, &state()->candidates.taken}; }
  std::int32_t floor() const { return floor_; }

  /// What has come of all that was asked for. throws DataError if there was a NaN
  const SelectState& wait() {
    const SelectState& s = scratch_.wait();
    require<NotANumber>(s.stats.nan == 0 && s.cut.nan == 0, fast::kNaNSentence);
    return s;
  }
  /// Whether the candidates were all there are above their floor, and as many as are needed.
  bool enough(const SelectState& s, std::size_t need) const {
    return s.candidates.taken <= room_ && (s.candidates.taken >= need || floor_ == lowest_key(in_.sign));
  }

  /// What a cut lets in, at most `most`, goes to out.
  void take(const Source& from, std::size_t most) {
    clear(scratch_, &state()->chosen);
    out_.on_device.renew(device_, most);
    take_cut(from, in_.sign, most, state(), out_.on_device.indices(), out_.on_device.values());
  }
  /// The same of what is above a threshold, where `most` are few.
  void take(const Source& from, const Above& above, std::size_t most) {
    count(from, above);
    out_.on_device.renew(device_, most);
    emit(from, above, most);
  }
  /// Where only the count says how many they are: waits for it.
  void take_all(const Source& from, const Above& above) {
    count(from, above);
    const std::size_t size = wait().chosen.taken;
    out_.on_device.renew(device_, size);
    emit(from, above, size);
    out_.on_device.resize(size);
  }

 private:
  static constexpr std::size_t kSpare = std::size_t{1} << 20;  // no list is much longer than the tensor

  void count(const Source& from, const Above& above) {
    clear(scratch_, &state()->chosen);
    scratch_.places.clear();
    scratch_.places.resize(places(from.n));
    count_above(from, in_.sign, above, scratch_.places.data(), state());
  }
  void emit(const Source& from, const Above& above, std::size_t most) {
    take_above(from, in_.sign, above, scratch_.places.data(), most, state(), out_.on_device.indices(),
               out_.on_device.values());
  }

  const SelectionInput& in_;
  SelectScratch& scratch_;
  Selection& out_;
  const Device device_;
  std::uint64_t elements_ = 0;
  std::int32_t floor_ = 0;
  std::size_t room_ = 0;
};

/// The top k into out. Returns a floor for the next step.
float top(Choice& choice, const SelectionInput& in, std::size_t k, std::size_t need, std::size_t target,
          Selection& out) {
  const auto done = [&](const SelectState& s, std::int32_t floor) {
    out.on_device.resize(s.cut.chosen);
    if (s.cut.chosen > 0) out.threshold = magnitude_of(s.cut.key);
    return next_floor(s.cut, floor);
  };
  if (choice.bring_candidates()) {
    cut_at(choice.list(), in.sign, word(k), word(target), word(need), true, choice.state());
    choice.take(choice.list(), k);
    const SelectState& s = choice.wait();
    if (choice.enough(s, need)) return done(s, choice.floor());
  }
  out.passes += 5;
  cut_at(choice.all(), in.sign, word(k), word(target), word(need), false, choice.state());
  choice.take(choice.all(), k);
  return done(choice.wait(), lowest_key(in.sign));
}

/// The set of RedSync Algorithm 3.
float search(Choice& choice, const SelectionInput& in, std::size_t k, std::size_t need, std::size_t target,
             Selection& out) {
  const std::size_t n = in.values.size(), most = 2 * k;
  const std::int32_t lowest = lowest_key(in.sign);
  const auto ask = [&](const Source& from, bool remembered, std::int32_t floor) -> const SelectState& {
    cut_at(from, in.sign, word(k), word(target), word(need), remembered, choice.state());
    bisect(from, in.sign, word(k), floor, choice.elements(), choice.state());
    choice.take(from, Above{.bisected = true}, most);
    return choice.wait();
  };
  bool listed = need > most && need < n && choice.bring_candidates();
  std::int32_t floor = listed ? choice.floor() : lowest;
  const SelectState* s = listed ? &ask(choice.list(), true, floor) : nullptr;
  if (!s || !choice.enough(*s, need)) {
    listed = false, floor = lowest;
    out.passes += 11;
    s = &ask(choice.all(), false, floor);
  }
  const Cut cut = s->cut;
  const float threshold = s->bisection.with_enough, next = next_floor(cut, floor);
  if (threshold < 0) {
    choice.take(listed ? choice.list() : choice.all(), k);
    out.passes += listed ? 0 : 2;
    out.on_device.resize(cut.chosen);
    if (cut.chosen > 0) out.threshold = magnitude_of(cut.key);
    return next;
  }
  std::size_t size = s->chosen.taken;
  if (key_above(threshold, in.sign) < floor) {
    out.passes += 2;
    choice.take(choice.all(), Above{.key = key_above(threshold, in.sign)}, most);
    size = choice.wait().chosen.taken;
  }
  out.on_device.resize(std::min(size, most));
  out.threshold = threshold;
  return next;
}

}  // namespace

void elements_of_sign(Slice<const std::uint32_t> indices, Slice<const float> values, Sign sign, Selection& out) {
  SelectScratch scratch(values.device());
  const SelectionInput in{.values = values, .sign = sign};
  Choice choice(in, scratch, out);
  choice.take_all({values.data(), indices.data(), values.size(), nullptr}, Above{.key = lowest_key(sign)});
}

}  // namespace cuda

void Selector::select_on_cuda(const SelectionInput& in, std::uint64_t turn, Memory& memory, Selection& out) {
  using namespace cuda;
  const std::size_t n = in.values.size(), k = in.k, need = std::min(n, needed(k, turn));
  const std::size_t target = target_for(need, k);
  const Device device = in.values.device();
  if (!cuda_scratch_ || cuda_scratch_->device != device) cuda_scratch_ = std::make_shared<SelectScratch>(device);
  SelectScratch& scratch = *cuda_scratch_;
  Choice choice(in, scratch, out);
  const bool exact = in.sign == Sign::any && (method() == SelectorKind::exact || method() == SelectorKind::trimmed);
  choice.bring_stats(!exact);
  switch (method()) {
    case SelectorKind::exact:
    case SelectorKind::trimmed:
    case SelectorKind::nth_element:
    case SelectorKind::radix_histogram:
    case SelectorKind::trimmed_steps:
      return remember(memory, top(choice, in, k, need, target, out), out);
    case SelectorKind::radix: {
      out.passes += 5;
      cut_by_scattering(choice.all(), in.sign, word(k), choice.state());
      choice.take(choice.all(), k);
      const Cut cut = choice.wait().cut;
      out.on_device.resize(cut.chosen);
      if (cut.chosen > 0) out.threshold = magnitude_of(cut.key);
      return;
    }
    case SelectorKind::search:
    case SelectorKind::search_steps:
    case SelectorKind::sampled: {
      if (method() == SelectorKind::sampled && !searches(turn)) {
        const Above above{.key = key_above(memory.threshold, in.sign)};
        out.threshold = memory.threshold;
        if (choice.bring_candidates() && choice.floor() <= above.key) {
          choice.take(choice.list(), above, 2 * k);
          const SelectState& s = choice.wait();
          if (choice.enough(s, 0)) return out.on_device.resize(std::min<std::size_t>(s.chosen.taken, 2 * k));
        }
        out.passes += 2;
        choice.take(choice.all(), above, 2 * k);
        return out.on_device.resize(std::min<std::size_t>(choice.wait().chosen.taken, 2 * k));
      }
      const std::size_t more = std::min(n, 2 * k + 1);
      remember(memory, cuda::search(choice, in, k, more, target_for(more, k), out), out);
      memory.threshold = out.threshold;
      return;
    }
    case SelectorKind::fixed:
      out.passes += 2;
      choice.take_all(choice.all(), Above{.key = key_above(options_.threshold, in.sign)});
      out.threshold = options_.threshold;
      return;
    case SelectorKind::dropping:
    case SelectorKind::dgc: {
      const Sample look = sample_of(n, k, options_.sample);
      scratch.sampled.renew(device, look.size);
      sample(in.values.data(), n, look.size, turn, scratch.sampled.values());
      const auto rank = word(look.rank);
      cut_at({scratch.sampled.values(), nullptr, look.size, nullptr}, in.sign, rank, rank, rank, false, choice.state());
      const Cut cut = choice.wait().cut;
      const std::int32_t key = rank <= cut.competing ? std::max(cut.key, 1) : 1;
      out.passes += 2;
      choice.take_all(choice.all(), Above{.key = key});
      out.threshold = magnitude_of(key);
      if (method() == SelectorKind::dropping || out.size() <= k) return;
      const DeviceElements reached = std::exchange(out.on_device, {});
      const Source from{reached.values(), reached.indices(), reached.size(), nullptr};
      cut_at(from, in.sign, word(k), word(k), word(k), false, choice.state());
      choice.take(from, k);
      const Cut last = choice.wait().cut;
      out.on_device.resize(last.chosen);
      out.threshold = magnitude_of(last.key);
      return;
    }
    case SelectorKind::adacomp: {
      ++out.passes;
      scratch.bins.clear();
      scratch.bins.resize((n + options_.bin - 1) / options_.bin * sizeof(std::int32_t));
      auto* const largest = reinterpret_cast<std::int32_t*>(scratch.bins.data());
      largest_of_bins(in.values.data(), n, options_.bin, largest);
      return choice.take_all(choice.all(), Above{.latest = in.latest.data(), .bin = options_.bin, .largest = largest});
    }
    case SelectorKind::random: {
      choice.wait();
      std::vector<std::uint32_t> indices;
      random_subset(n, k, {}, Random(in.key.seed, Purpose::selection, in.key.step, in.key.operation), indices);
      out.on_device.renew(device, k);
      copy_bytes(out.on_device.indices(), device, indices.data(), kCpu, k * sizeof(std::uint32_t));
      gather_at(out.on_device.values(), in.values.data(), out.on_device.indices(), k, n);
      return out.on_device.resize(k);
    }
  }
}

}  // namespace laconic::compress
