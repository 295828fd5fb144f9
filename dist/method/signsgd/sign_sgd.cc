#include "dist/method/signsgd/sign_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "compress/codecs/signs.h"
#include "core/base/clock.h"
#include "core/host_copy.h"
#include "core/base/trace.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

std::size_t bytes_of_bits(std::int64_t n) { return compress::bytes_of_signs(static_cast<std::size_t>(n)); }

/// zero : the bit of what is neither above nor below
void write_signs(Slice<const float> x, bool zero, std::byte* bits) {
  for (std::size_t i = 0; i < x.size(); i += 8) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < std::min<std::size_t>(8, x.size() - i); ++j) {
      const float v = x[i + j];
      byte |= (v < 0 || (v == 0 && zero) ? 1u : 0u) << j;
    }
    bits[i / 8] = static_cast<std::byte>(byte);
  }
}

}  // namespace

SignSgd::SignSgd(WorkerSide side, bool scaled)
    : BucketSync(side.arena, side.engine, side.plan, "signsgd", side.facts, side.engine.size()),
      update_(std::move(side.update)),
      scaled_(scaled),
      votes_(plan().buckets.size()) {}

template <class F>
void SignSgd::for_parameters(std::size_t b, F f) const {
  const Bucket& here = bucket(b);
  for (std::size_t i = 0; i < static_cast<std::size_t>(here.count); ++i) {
    const Held held = held_by(here, parameter(here.first + static_cast<int>(i)).info);
    f(i, static_cast<std::size_t>(held.offset - here.offset), static_cast<std::size_t>(held.elements));
  }
}

Slice<const std::byte> SignSgd::range(Slice<const std::byte> bits, int r) const {
  return bits.part(static_cast<std::size_t>(r), static_cast<std::size_t>(engine().size()));
}

std::size_t SignSgd::most_counted(std::size_t b) const {
  return bytes_of_bits(bucket(b).elements) / static_cast<std::size_t>(engine().size()) + 1;
}

Operation SignSgd::exchange(std::size_t b) {
  const auto begin = Clock::now();
  const Trace::Span span(bucket(b).name, "signs");
  Vote& vote = votes_[b];
  std::vector<std::byte> bits(bytes_of_bits(bucket(b).elements));
  vote.scales.assign(header(b) / sizeof(float), 0.0f);
  look_at_signs(b, bits.data());
  vote.parts.resize(static_cast<std::size_t>(engine().size()));
  for (int r = 0; r < engine().size(); ++r) {
    const Slice<const std::byte> theirs = range(slice(std::as_const(bits)), r);
    compress::Bytes& to = vote.parts[static_cast<std::size_t>(r)];
    to.clear();
    std::byte* const at = to.append(header(b) + theirs.size()).data();
    std::copy_n(reinterpret_cast<const std::byte*>(vote.scales.data()), header(b), at);
    std::copy(theirs.begin(), theirs.end(), at + header(b));
  }
  select_seconds_ += seconds_since(begin);
  return {.name = "vote on " + bucket(b).name, .body = [this, b](Communicator& comm) { return this->vote(comm, b); }};
}

void SignSgd::look_at_signs(std::size_t b, std::byte* bits) {
  const Slice<float> x = part(arena().gradients(), bucket(b));
  if (x.device() == kGhost) return GhostWork::tell(Work::selecting, x.size());
  const HostCopy<float> here{Slice<const float>(x)};
  write_signs(here.slice(), (context_of(b).step + engine().rank()) % 2 == 0, bits);
  for_parameters(b, [&](std::size_t i, std::size_t first, std::size_t n) {
    const float scale = compress::mean_magnitude(here.slice().sub(first, n));
    // Scales carry NaN to all. Signs alone would hide it.
    require<Error>(scaled_ || !std::isnan(scale), "signsgd: a gradient of ", bucket(b).name, " at step ",
                   context_of(b).step, " is not a number. Lower `lr`, or clip gradients (`clip` norm:5).");
    if (scaled_) votes_[b].scales[i] = scale;
  });
}

Task<> SignSgd::vote(Communicator& comm, std::size_t b) {
  Vote& vote = votes_[b];
  const std::size_t most = most_counted(b);
  co_await alltoallv(comm, vote.parts, header(b) + most, vote.votes);
  count(b, comm.rank());
  co_await allgatherv(comm, vote.counted.slice(), most, vote.majority);
}

/// On the communication thread.
void SignSgd::count(std::size_t b, int rank) {
  Vote& vote = votes_[b];
  const int N = vote.votes.size();
  const std::size_t own = vote.parts[static_cast<std::size_t>(rank)].size();
  if (arena().gradients().device() == kGhost) {  // one rank may stand for all
    vote.counted.clear();
    std::ranges::fill(vote.counted.append(own - header(b)), std::byte{});
    return GhostWork::tell(Work::scattering, static_cast<std::size_t>(bucket(b).elements));
  }
  std::vector<double> scales(vote.scales.size());
  std::vector<const std::byte*> bits;
  for (int r = 0; r < N; ++r) {
    const Slice<const std::byte> theirs = vote.votes[r];
    require<CommError>(theirs.size() == own, "signsgd: rank ", r, " sent ", theirs.size(), " bytes of ", bucket(b).name,
                       " to be counted, and not ", own, ". Do all ranks run the same program?");
    for (std::size_t i = 0; i < scales.size(); ++i) {
      float scale;
      std::memcpy(&scale, theirs.data() + i * sizeof scale, sizeof scale);
      scales[i] += static_cast<double>(scale);
    }
    bits.push_back(theirs.data() + header(b));
  }
  for (std::size_t i = 0; i < scales.size(); ++i) vote.scales[i] = static_cast<float>(scales[i] / N);
  vote.counted.clear();
  std::byte* const to = vote.counted.append(own - header(b)).data();
  for (std::size_t k = 0; k < own - header(b); ++k) {
    std::array<int, 8> below{};
    for (const std::byte* const theirs : bits)
      for (unsigned j = 0; j < 8; ++j) below[j] += static_cast<unsigned>(theirs[k]) >> j & 1;
    unsigned byte = 0;
    const auto mine = static_cast<unsigned>(bits[static_cast<std::size_t>(rank)][k]);
    for (unsigned j = 0; j < 8; ++j) byte |= (2 * below[j] == N ? mine >> j & 1 : 2 * below[j] > N ? 1u : 0u) << j;
    to[k] = static_cast<std::byte>(byte);
  }
}

void SignSgd::write_majority(std::size_t b, Slice<float> x) const {
  const Vote& vote = votes_[b];
  const std::vector<std::byte> whole(bytes_of_bits(bucket(b).elements));
  std::vector<std::byte> bits;
  for (int r = 0; r < engine().size(); ++r) {
    const Slice<const std::byte> theirs = vote.majority[r];
    require<CommError>(theirs.size() == range(slice(whole), r).size(), "signsgd: rank ", r, " counted ", theirs.size(),
                       " bytes of ", bucket(b).name, ". Do all ranks run the same program?");
    bits.insert(bits.end(), theirs.begin(), theirs.end());
  }
  write_on_host(x, [&](float* to) {
    for_parameters(b, [&](std::size_t i, std::size_t first, std::size_t n) {
      const float s = scaled_ ? vote.scales[i] : 1.0f;
      for (std::size_t k = first; k < first + n; ++k)
        to[k] = static_cast<unsigned>(bits[k / 8]) >> k % 8 & 1 ? -s : s;
    });
  });
}

double SignSgd::message_bytes() const {
  double bytes = 0;
  for (std::size_t b = 0; b < votes_.size(); ++b) {
    const std::size_t most = most_counted(b);
    bytes += static_cast<double>(most) + engine().size() * static_cast<double>(2 * header(b) + 3 * most + kPartHeader);
  }
  return bytes;
}

void SignSgd::arrived(std::size_t b) {
  Vote& vote = votes_[b];
  buffer_bytes_[b] = vote.votes.capacity() + vote.majority.capacity() + vote.counted.size();
  const Slice<float> x = part(arena().gradients(), bucket(b));
  GhostWork::tell(x.device(), Work::scattering, x.size());
  if (x.device() != kGhost) write_majority(b, x);
  StepContext context = context_of(b);
  context.gradient_scale = 1;  // a vote is no sum
  for (int i = bucket(b).first; i < bucket(b).first + bucket(b).count; ++i)
    update_(parameter(i), rows_of(bucket(b), parameter(i)), context);
}

}  // namespace laconic::dist
