#include "compress/cuda/residual.h"
#include "compress/magnitude.h"
#include "compress/residual.h"

namespace laconic::compress::cuda {

void run(const cpu::ResidualPass& pass, Device device, std::size_t n, std::uint32_t first, Candidates* candidates,
         StatsSum& stats) {
  TileCandidates found;
  // Where their number has no limit the selector looks at all values anyway.
  if (candidates && candidates->active() && candidates->most() != SIZE_MAX) {
    Candidates::Tiles& t = candidates->tiles();
    const std::size_t tiles = (n + kTile - 1) / kTile, before = t.tiles;
    t.tiles += tiles;
    const auto room = [&]<class T>(Bytes& bytes, std::size_t each, T*& to) {
      if (bytes.device() != device) bytes = Bytes(device);
      bytes.resize(before * each * sizeof(T));
      to = reinterpret_cast<T*>(bytes.append(tiles * each * sizeof(T)).data());
    };
    room(t.counts, 1, found.counts), room(t.first, 1, found.firsts), room(t.length, 1, found.lengths);
    room(t.slots, kSlots, found.slots);
    t.parts.push_back({first, before, tiles});
    candidates->note_tiles(n);
    found.sign = candidates->sign();
    found.floor = key_from(candidates->floor(), candidates->sign());
    found.first = first;
  }
  accumulate(pass, n, found, reinterpret_cast<DeviceStats*>(stats.add_on_device(device, n)));
}

}  // namespace laconic::compress::cuda
