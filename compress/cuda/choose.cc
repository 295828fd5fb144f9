#include "compress/cuda/choose.h"

#include <algorithm>
#include <cstring>

#include "compress/cuda/scatter.h"
#include "compress/cuda/select.h"
#include "compress/choose/magnitude.h"
#include "compress/choose/select_fast.h"
#include "core/stream.h"

namespace laconic::compress::cuda {

/// Memory of a selector, kept from step to step.
struct SelectScratch {
  explicit SelectScratch(Device device)
      : device(device),
        memory(sizeof(SelectState), device),
        read(sizeof(SelectState), device),
        places(device),
        bins(device) {}

  SelectState* state() const { return reinterpret_cast<SelectState*>(memory.data()); }
  /// Asks for what stands there when all that was asked for has been done: in `read` when the device comes to it.
  void ask() { copy_bytes_later(read.data(), kCpu, memory.data(), device, sizeof(SelectState)); }

  Device device;
  Storage memory;
  Pinned read, given;
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
  const double times = static_cast<double>(cut.target) / static_cast<double>(cut.competing);
  const float middle = magnitude_of(std::max(cut.middle, 0));
  return magnitude_of(
      std::max(key_of(fast::floor_below(times, magnitude_of(std::max(floor, 0)), middle), Sign::any), 1));
}

/// The elements of one selection, asked for step by step.
class Choosing {
 public:
  explicit Choosing(const Order& order)
      : in_(order.in), scratch_(kept(order)), out_(order.out), device_(in_.values.device()) {
    zero_bytes(scratch_.memory.data(), device_, sizeof(SelectState));
    bring_stats(order.wants_stats);
  }

  SelectState* state() const { return scratch_.state(); }
  SelectScratch& scratch() const { return scratch_; }
  Source all() const { return {in_.values.data(), nullptr, in_.values.size(), nullptr}; }

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
      TileCandidates tiles{.sign = in_.sign, .floor = floor_, .first = part.first};
      from(t.counts, 1, tiles.counts), from(t.slots, kSlots, tiles.slots);
      gather_candidates(tiles, part.elements, in_.values.data(), room_, scratch_.found.indices(),
                        scratch_.found.values(), &state()->candidates);
    }
    return true;
  }
  Source list() const { return {scratch_.found.values(), scratch_.found.indices(), room_, &state()->candidates.taken}; }
  std::int32_t floor() const { return floor_; }

  /// `const SelectState& s = co_await choice.outcome();`   what has come of all that was asked for, until the next one.
  /// throws NotANumber if there was a NaN
  auto outcome() {
    struct Outcome : DeviceComes {
      const SelectState& found;
      const SelectState& await_resume() const {
        DeviceComes::await_resume();
        require<NotANumber>(!found.stats.nan && found.cut.nan == 0, fast::kNaNSentence);
        return found;
      }
    };
    scratch_.ask();
    return Outcome{{device_}, *reinterpret_cast<const SelectState*>(scratch_.read.data())};
  }
  /// Whether the candidates were all there are above their floor, and as many as are needed.
  bool enough(const SelectState& s, std::size_t need) const {
    return s.candidates.taken <= room_ && (s.candidates.taken >= need || floor_ == lowest_key(in_.sign));
  }

  /// Keeps as many of what was taken as the cut has chosen.
  void finish(const Cut& cut) {
    out_.on_device.resize(cut.chosen);
    if (cut.chosen > 0) out_.threshold = magnitude_of(cut.key);
  }

  /// What a cut lets in, at most `most`, goes to out.
  void take(const Source& from, std::size_t most) {
    clear(scratch_, &state()->chosen);
    out_.on_device.renew(device_, most);
    take_cut(from, in_.sign, most, state(), out_.on_device.indices(), out_.on_device.values());
  }
  /// Takes what is above a threshold, where `most` are few.
  void take(const Source& from, const Above& above, std::size_t most) {
    count(from, above);
    out_.on_device.renew(device_, most);
    emit(from, above, most);
  }
  /// Where only the count says how many they are.
  Steps take_all(Source from, Above above) {
    count(from, above);
    const SelectState& s = co_await outcome();
    const std::size_t size = s.chosen.taken;
    out_.on_device.renew(device_, size);
    emit(from, above, size);
    out_.on_device.resize(size);
  }

 private:
  static SelectScratch& kept(const Order& order) {
    const Device device = order.in.values.device();
    if (!order.scratch || order.scratch->device != device) order.scratch = std::make_shared<SelectScratch>(device);
    return *order.scratch;
  }
  /// state->stats, from wherever they are known, or by a pass.
  void bring_stats(bool wanted) {
    if (in_.stats) {
      require<NotANumber>(!in_.stats->nan, fast::kNaNSentence);
      set_stats(*in_.stats, state());
    } else if (in_.sums && in_.sums->on_device()) {
      copy_bytes(&state()->stats, device_, in_.sums->on_device(), device_, sizeof(ResidualStats));
    } else if (wanted) {
      accumulate({.residual = const_cast<float*>(in_.values.data())}, in_.values.size(), {}, &state()->stats);
      ++out_.passes;
    }
  }

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
  std::int32_t floor_ = 0;
  std::size_t room_ = 0;
};

}  // namespace

Steps top(Order order, Floor floor) {
  Choosing choice(order);
  const Sign sign = order.in.sign;
  const std::size_t k = order.in.k, target = fast::target_for(k, k);
  if (choice.bring_candidates()) {
    cut_at(choice.list(), sign, word(k), word(target), word(k), true, choice.state());
    choice.take(choice.list(), k);
    const SelectState& s = co_await choice.outcome();
    if (choice.enough(s, k)) {
      choice.finish(s.cut);
      floor(next_floor(s.cut, choice.floor()));
      co_return;
    }
  }
  order.out.passes += 5;
  cut_at(choice.all(), sign, word(k), word(target), word(k), false, choice.state());
  choice.take(choice.all(), k);
  const SelectState& s = co_await choice.outcome();
  choice.finish(s.cut);
  floor(next_floor(s.cut, lowest_key(sign)));
}

Steps radix(Order order) {
  Choosing choice(order);
  order.out.passes += 5;
  cut_by_scattering(choice.all(), order.in.sign, word(order.in.k), choice.state());
  choice.take(choice.all(), order.in.k);
  const SelectState& s = co_await choice.outcome();
  choice.finish(s.cut);
}

Steps search(Order order, Floor floor) {
  Choosing choice(order);
  Selection& out = order.out;
  const Sign sign = order.in.sign;
  const std::size_t n = order.in.values.size(), k = order.in.k, most = 2 * k, need = std::min(n, most + 1),
                    target = fast::target_for(need, k);
  std::int32_t lowest = lowest_key(sign);
  const auto ask = [&](const Source& from, bool remembered) {
    cut_at(from, sign, word(k), word(target), word(need), remembered, choice.state());
    bisect(from, sign, word(k), lowest, choice.state());
    choice.take(from, Above{.bisected = true}, most);
    return choice.outcome();
  };
  bool listed = false;
  Source from{};
  SelectState s{};
  if (need > most && need < n && choice.bring_candidates()) {
    from = choice.list(), lowest = choice.floor();
    s = co_await ask(from, true);
    listed = choice.enough(s, need);
  }
  if (!listed) {
    from = choice.all(), lowest = lowest_key(sign);
    out.passes += 11;
    s = co_await ask(from, false);
  }
  const Cut cut = s.cut;
  const float threshold = s.bisection.with_enough;
  std::size_t size = s.chosen.taken;
  if (threshold < 0) {
    choice.take(from, k);
    out.passes += listed ? 0 : 2;
    choice.finish(cut);
  } else {
    if (key_above(threshold, sign) < lowest) {
      out.passes += 2;
      choice.take(choice.all(), Above{.key = key_above(threshold, sign)}, most);
      s = co_await choice.outcome();
      size = s.chosen.taken;
    }
    out.on_device.resize(std::min(size, most));
    out.threshold = threshold;
  }
  floor(next_floor(cut, lowest));
}

Steps above(Order order, float threshold, std::size_t most) {
  Choosing choice(order);
  const Above above{.key = key_above(threshold, order.in.sign)};
  order.out.threshold = threshold;
  const auto keep = [&](const SelectState& s) {
    order.out.on_device.resize(std::min<std::size_t>(s.chosen.taken, most));
  };
  if (choice.bring_candidates() && choice.floor() <= above.key) {
    choice.take(choice.list(), above, most);
    const SelectState& s = co_await choice.outcome();
    if (choice.enough(s, 0)) {
      keep(s);
      co_return;
    }
  }
  order.out.passes += 2;
  choice.take(choice.all(), above, most);
  const SelectState& s = co_await choice.outcome();
  keep(s);
}

Steps all_above(Order order, float threshold) {
  Choosing choice(order);
  order.out.passes += 2;
  Steps taking = choice.take_all(choice.all(), Above{.key = key_above(threshold, order.in.sign)});
  co_await taking;
  order.out.threshold = threshold;
}

Steps estimated(Order order, double share, std::uint64_t turn, bool limited) {
  Choosing choice(order);
  Selection& out = order.out;
  const Sign sign = order.in.sign;
  const std::size_t n = order.in.values.size(), k = order.in.k;
  const fast::Sample look = fast::sample_of(n, k, share);
  DeviceElements& sampled = choice.scratch().sampled;
  sampled.renew(order.in.values.device(), look.size);
  sample(order.in.values.data(), n, look.size, turn, sampled.values());
  const auto rank = word(look.rank);
  cut_at({sampled.values(), nullptr, look.size, nullptr}, sign, rank, rank, rank, false, choice.state());
  const SelectState& of_sample = co_await choice.outcome();
  const std::int32_t key = rank <= of_sample.cut.competing ? std::max(of_sample.cut.key, 1) : 1;
  out.passes += 2;
  Steps taking = choice.take_all(choice.all(), Above{.key = key});
  co_await taking;
  out.threshold = magnitude_of(key);
  if (!limited || out.size() <= k) co_return;
  const DeviceElements reached = std::exchange(out.on_device, {});
  const Source from{reached.values(), reached.indices(), reached.size(), nullptr};
  cut_at(from, sign, word(k), word(k), word(k), false, choice.state());
  choice.take(from, k);
  const SelectState& s = co_await choice.outcome();
  choice.finish(s.cut);
}

Steps adacomp(Order order, std::size_t bin) {
  Choosing choice(order);
  const std::size_t n = order.in.values.size();
  ++order.out.passes;
  Bytes& bins = choice.scratch().bins;
  bins.clear();
  bins.resize((n + bin - 1) / bin * sizeof(std::int32_t));
  auto* const largest = reinterpret_cast<std::int32_t*>(bins.data());
  largest_of_bins(order.in.values.data(), n, bin, largest);
  Steps taking = choice.take_all(choice.all(), Above{.latest = order.in.latest.data(), .bin = bin, .largest = largest});
  co_await taking;
}

Steps at(Order order, std::vector<std::uint32_t> indices) {
  Choosing choice(order);
  const SelectState& s = co_await choice.outcome();
  static_cast<void>(s);  // it looked for a NaN; and the device has copied what was given before
  const Device device = order.in.values.device();
  DeviceElements& chosen = order.out.on_device;
  chosen.renew(device, indices.size());
  Pinned& given = choice.scratch().given;
  const std::size_t bytes = indices.size() * sizeof(std::uint32_t);
  if (given.size() < bytes) given = Pinned(bytes, device);
  std::memcpy(given.data(), indices.data(), bytes);
  copy_bytes_later(chosen.indices(), device, given.data(), kCpu, bytes);
  gather_at(chosen.values(), order.in.values.data(), chosen.indices(), indices.size(), order.in.values.size());
  chosen.resize(indices.size());
}

void elements_of_sign(Slice<const std::uint32_t> indices, Slice<const float> values, Sign sign, Selection& out) {
  const SelectionInput in{.values = values, .sign = sign};
  std::shared_ptr<SelectScratch> scratch;
  Choosing choice({in, scratch, out, false});
  choice.take_all({values.data(), indices.data(), values.size(), nullptr}, Above{.key = lowest_key(sign)})
      .run(values.device());
}

}  // namespace laconic::compress::cuda
