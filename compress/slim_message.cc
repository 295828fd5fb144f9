#include "compress/slim_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/cuda/scatter.h"
#include "compress/mirrored.h"
#include "compress/choose/random_subset.h"
#include "compress/sparse_message.h"
#include "core/dispatch.h"
#include "core/base/error.h"

namespace laconic::compress {
namespace {

constexpr std::uint32_t kCoreKeys = 1, kExplorerKeys = 2;

struct Header {
  std::uint32_t round = 0, what = 0;
  std::uint64_t signature = 0;
};
static_assert(sizeof(Header) == 16);

Header header_of(Slice<const std::byte> message) {
  Header header;
  require<DataError>(message.size() >= sizeof header, "a Slim-DP message of ", message.size(), " bytes has no header.");
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

void append(Bytes& message, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Slice<std::byte> to = message.append(bytes);
  if (message.device() != kGhost) std::memcpy(to.data(), from, bytes);
}

/// `count` keys that stand at `at`, ascending and below n.
void read_keys(Slice<const std::byte> message, std::size_t& at, std::size_t count, std::size_t n,
               std::vector<std::uint32_t>& keys) {
  require<DataError>(count * sizeof(std::uint32_t) <= message.size() - at, "a Slim-DP message of ", message.size(),
                     " bytes ends before its ", count, " keys.");
  keys.resize(count);
  if (count > 0) std::memcpy(keys.data(), message.data() + at, count * sizeof(std::uint32_t));
  at += count * sizeof(std::uint32_t);
  for (std::size_t i = 0; i < count; ++i)
    require<DataError>(keys[i] < n && (i == 0 || keys[i] > keys[i - 1]),
                       "the keys of a Slim-DP message do not ascend below ", n, " at place ", i, ".");
}

/// Both ascending.
bool share_a_key(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end(); *i < *j ? ++i : ++j)
    if (*i == *j) return true;
  return false;
}

}  // namespace

std::size_t SlimFormat::max_bytes() const {
  const std::size_t all = count();
  return sizeof(Header) + all * sizeof(std::uint32_t) +
         (codec != nullptr ? codec->max_bytes(all) : all * sizeof(float));
}

void write_slim(const SlimFormat& format, const SlimSet& set, bool with_keys, std::uint32_t round,
                Slice<const float> values, const Key& key, Bytes& message) {
  const bool ghost = message.device() == kGhost;
  const std::size_t core = ghost ? core_elements(format.rules, format.n) : set.core().size(),
                    explorer = ghost ? explorer_elements(format.rules, format.n) : set.explorer().size();
  require<ShapeError>(values.size() == core + explorer, "slim: ", values.size(), " values for ", core, " and ",
                      explorer, " keys");
  const Header header{round, (with_keys ? kCoreKeys : 0) | (format.rules.keys_sent ? kExplorerKeys : 0),
                      set.signature()};
  append(message, &header, sizeof header);
  if (with_keys) append(message, set.core().data(), core * sizeof(std::uint32_t));
  if (format.rules.keys_sent) append(message, set.explorer().data(), explorer * sizeof(std::uint32_t));
  if (format.codec != nullptr)
    format.codec->encode(values, key, message);
  else
    append(message, values.data(), values.size_bytes());
}

SlimBytes bytes_of(const SlimFormat& format, Slice<const std::byte> message) {
  const Header header = header_of(message);
  const auto core = static_cast<double>(core_elements(format.rules, format.n)),
             explorer = static_cast<double>(explorer_elements(format.rules, format.n));
  const double keys = sizeof(std::uint32_t) * (((header.what & kCoreKeys) != 0 ? core : 0) +
                                               ((header.what & kExplorerKeys) != 0 ? explorer : 0));
  const double values = static_cast<double>(message.size() - sizeof header) - keys,
               all = std::max(1.0, core + explorer);
  return {.core = values * core / all, .explorer = values * explorer / all, .keys = keys};
}

void SlimReader::expect(const SlimFormat& format, const SlimKey& key) {
  if (!known_ || format.rules.keys_sent || drawn_ == key) return;
  random_subset(format.n, explorer_elements(format.rules, format.n), slice(std::as_const(core_)), key.random(),
                explorer_);
  drawn_ = key;
}

bool SlimReader::read(const SlimFormat& format, Slice<const std::byte> message, const SlimKey& key) {
  if (message.device() == kGhost) return true;
  const Header header = header_of(message);
  const std::uint32_t sent = format.rules.keys_sent ? kExplorerKeys : 0;
  require<DataError>(header.round == static_cast<std::uint32_t>(key.round) && (header.what & ~kCoreKeys) == sent,
                     "a Slim-DP message is of round ", header.round, " and kind ", header.what, " where round ",
                     key.round, " is due.");
  std::size_t at = sizeof header;
  const std::size_t core = core_elements(format.rules, format.n), explorer = explorer_elements(format.rules, format.n);
  if ((header.what & kCoreKeys) != 0) {
    known_ = false;
    drawn_.reset();
    read_keys(message, at, core, format.n, core_);
    signature_ = signature_of(slice(std::as_const(core_)));
    require<DataError>(signature_ == header.signature, "the keys of a Slim-DP message are not those of its signature.");
    known_ = true;
  } else if (!known_ || header.signature != signature_) {
    return false;
  }
  if (sent != 0) {
    read_keys(message, at, explorer, format.n, explorer_);
    require<DataError>(!share_a_key(core_, explorer_), "a Slim-DP message names a key of its core twice.");
  }
  expect(format, key);
  values_.resize(core + explorer);
  const Slice<const std::byte> payload = message.sub(at, message.size() - at);
  if (format.codec != nullptr) {
    format.codec->decode(payload, slice(values_));
  } else {
    require<DataError>(payload.size() == values_.size() * sizeof(float), "a Slim-DP message has ", payload.size(),
                       " bytes of values where ", values_.size() * sizeof(float), " are due.");
    if (!values_.empty()) std::memcpy(values_.data(), payload.data(), payload.size());
  }
  return true;
}

void SlimReader::add_to(float factor, Slice<float> dense) const {
  const Slice<const float> values = slice(values_);
  scatter_add(slice(core_), values.first(core_.size()), factor, dense);
  scatter_add(slice(explorer_), values.sub(core_.size(), explorer_.size()), factor, dense);
}

void SlimReader::overwrite(Slice<float> dense) const {
  const auto on_host = [&] {
    std::size_t i = 0;
    for (const auto* keys : {&core_, &explorer_})
      for (const std::uint32_t key : *keys) dense[key] = values_[i++];
  };
  on_device(dense.device(), on_host, [&] {
    const Mirrored<float> values(slice(values_), dense.device());
    const float* from = values.data();
    for (const auto* keys : {&core_, &explorer_}) {
      const Mirrored<std::uint32_t> at(slice(*keys), dense.device());
      cuda::put_at(dense.data(), from, at.data(), keys->size(), dense.size());
      from += keys->size();
    }
  });
}

}  // namespace laconic::compress
