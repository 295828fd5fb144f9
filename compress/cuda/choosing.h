#pragma once
#include <algorithm>
#include <cstring>
#include <memory>

#include "compress/cuda/scatter.h"
#include "compress/cuda/select.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
#include "core/base/steps.h"
#include "core/stream.h"

namespace laconic::compress::cuda {

/// Memory of a selector on a CUDA device, kept from step to step.
struct SelectScratch {
  explicit SelectScratch(Device device)
      : device(device),
        memory(sizeof(SelectState), device),
        read(sizeof(SelectState), device),
        places(device),
        bins(device) {}

  SelectState* state() const { return reinterpret_cast<SelectState*>(memory.data()); }

  Device device;
  Storage memory;
  Pinned read, given;
  Bytes places, bins;
  DeviceElements found, sampled;
};

/// A number of elements as kernels take it.
inline std::uint32_t word(std::size_t n) { return static_cast<std::uint32_t>(std::min<std::size_t>(n, UINT32_MAX)); }

/// One selection on a CUDA device, asked for kernel by kernel: what the selectors are made of there. Input and output
/// outlive it. The scratch is made anew for another device. Only code of Selector::choose_on_cuda() uses it.
class Choosing {
 public:
  ///   wants_stats : a pass finds the statistics where nobody knows them
  Choosing(const SelectionInput& in, std::shared_ptr<SelectScratch>& scratch, Selection& out, bool wants_stats = true)
      : in_(in), scratch_(kept(scratch, in.values.device())), out_(out), device_(in.values.device()) {
    zero_bytes(scratch_.memory.data(), device_, sizeof(SelectState));
    if (in_.stats) {
      require<NotANumber>(!in_.stats->nan, kNaNSentence);
      set_stats(*in_.stats, state());
    } else if (in_.sums && in_.sums->on_device()) {
      copy_bytes(&state()->stats, device_, in_.sums->on_device(), device_, sizeof(ResidualStats));
    } else if (wants_stats) {
      accumulate({.residual = const_cast<float*>(in_.values.data())}, in_.values.size(), {}, &state()->stats);
      ++out_.passes;
    }
  }

  SelectState* state() const { return scratch_.state(); }
  SelectScratch& scratch() const { return scratch_; }
  Source all() const { return {in_.values.data(), nullptr, in_.values.size(), nullptr}; }

  /// Returns whether there are candidates of all of the tensor; then list() is they.
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
      const TileCandidates tiles{.sign = in_.sign,
                                 .floor = floor_,
                                 .first = part.first,
                                 .counts = reinterpret_cast<std::uint32_t*>(t.counts.data()) + part.begin,
                                 .slots = reinterpret_cast<Slot*>(t.slots.data()) + part.begin * kSlots};
      gather_candidates(tiles, part.elements, in_.values.data(), room_, scratch_.found.indices(),
                        scratch_.found.values(), &state()->candidates);
    }
    return true;
  }
  Source list() const { return {scratch_.found.values(), scratch_.found.indices(), room_, &state()->candidates.taken}; }
  std::int32_t floor() const { return floor_; }

  /// `const SelectState& s = co_await choosing.outcome();`   what has come of all that was asked for, until the next
  /// one.
  /// throws NotANumber if there was a NaN
  auto outcome() {
    struct Outcome : DeviceComes {
      const SelectState& found;
      const SelectState& await_resume() const {
        DeviceComes::await_resume();
        require<NotANumber>(!found.stats.nan && found.cut.nan == 0, kNaNSentence);
        return found;
      }
    };
    copy_bytes_later(scratch_.read.data(), kCpu, scratch_.memory.data(), device_, sizeof(SelectState));
    return Outcome{{device_}, *reinterpret_cast<const SelectState*>(scratch_.read.data())};
  }
  /// Returns whether the candidates were all there are above their floor, and as many as are needed.
  bool enough(const SelectState& s, std::size_t need) const {
    return s.candidates.taken <= room_ && (s.candidates.taken >= need || floor_ == lowest_key(in_.sign));
  }

  /// What a cut lets in, at most `most`, goes to out.
  void take(const Source& from, std::size_t most) {
    zero_bytes(&state()->chosen, device_, sizeof(Counted));
    out_.on_device.renew(device_, most);
    take_cut(from, in_.sign, most, state(), out_.on_device.indices(), out_.on_device.values());
  }
  /// What is above a threshold goes to out, where `most` are few.
  void take(const Source& from, const Above& above, std::size_t most) {
    count(from, above);
    out_.on_device.renew(device_, most);
    emit(from, above, most);
  }
  /// Everything above a threshold goes to out: its number is waited for.
  Steps take_all(Source from, Above above) {
    if constexpr (kCudaBuilt) {
      count(from, above);
      const SelectState& s = co_await outcome();
      const std::size_t size = s.chosen.taken;
      out_.on_device.renew(device_, size);
      emit(from, above, size);
      out_.on_device.resize(size);
    }
  }

  /// Keeps as many of what was taken as the cut has chosen.
  void finish(const Cut& cut) {
    out_.on_device.resize(cut.chosen);
    if (cut.chosen > 0) out_.threshold = magnitude_of(cut.key);
  }
  /// Returns a floor for the next step, by a cut of what was at or above `floor`; -1 if it is not known.
  static float next_floor(const Cut& cut, std::int32_t floor) {
    if (cut.competing == 0) return -1;
    if (cut.target <= cut.competing) return magnitude_of(std::max(cut.floor, 1));
    const double times = static_cast<double>(cut.target) / static_cast<double>(cut.competing);
    const float middle = magnitude_of(std::max(cut.middle, 0)), least = magnitude_of(std::max(floor, 0));
    return magnitude_of(std::max(key_of(floor_below(times, least, middle), Sign::any), 1));
  }

 private:
  static constexpr std::size_t kSpare = std::size_t{1} << 20;  // no list is much longer than the tensor

  static SelectScratch& kept(std::shared_ptr<SelectScratch>& scratch, Device device) {
    if (!scratch || scratch->device != device) scratch = std::make_shared<SelectScratch>(device);
    return *scratch;
  }
  void count(const Source& from, const Above& above) {
    zero_bytes(&state()->chosen, device_, sizeof(Counted));
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

}  // namespace laconic::compress::cuda
