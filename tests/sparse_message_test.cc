#include "compress/sparse_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "compress/cpu/isa.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

constexpr IndexCoding kCodings[] = {IndexCoding::raw, IndexCoding::packed, IndexCoding::rice};
using Indices = std::vector<std::uint32_t>;

Indices drawn(std::size_t count, std::size_t n, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::set<std::uint32_t> chosen;
  while (chosen.size() < count) chosen.insert(random.below(static_cast<std::uint32_t>(n)));
  return {chosen.begin(), chosen.end()};
}
std::vector<float> values_for(const Indices& indices) {
  std::vector<float> values;
  for (const std::uint32_t i : indices) values.push_back(std::sin(static_cast<float>(i)) + 0.01f);
  return values;
}

struct Sample {
  const char* name;
  Indices indices;
  std::size_t n;
};
std::vector<Sample> samples() {
  std::vector<Sample> all{{"none", {}, 1000},
                          {"none of none", {}, 0},
                          {"the only one", {0}, 1},
                          {"first", {0}, 1000},
                          {"last", {999}, 1000},
                          {"both ends of all that an index can say", {0, 0xFFFFFFFEu}, 0xFFFFFFFFu},
                          {"the last of all", {0xFFFFFFFEu}, 0xFFFFFFFFu}};
  for (const std::size_t n : {2, 100, 128, 129, 1000})
    for (const std::size_t count : {n / 2, n - 1, n}) all.push_back({"dense", drawn(count, n, n + count), n});
  for (const std::size_t count : {1, 16, 17, 127, 128, 129, 255, 256, 257, 1000, 5000})
    all.push_back({"sparse", drawn(count, 5'000'000, count), 5'000'000});
  Indices clustered;
  for (std::uint32_t i = 0; i < 3000; ++i) clustered.push_back(i / 100 * 1'000'000 + i % 100 * 3);
  all.push_back({"clustered", clustered, 40'000'000});
  Indices wide;  // gaps of 28 bits and more, beside gaps of 0
  for (std::uint32_t i = 0; i < 14; ++i)
    for (std::uint32_t j = 0; j < 30; ++j) wide.push_back(i * 300'000'000u + j);
  all.push_back({"wide", wide, 0xFFFFFFFFu});
  return all;
}

Bytes encoded(SparseFormat format, const Indices& indices, const std::vector<float>& values, std::size_t n) {
  Bytes payload;
  encode_sparse(format, slice(indices), slice(values), n, payload);
  return payload;
}

TEST(SparseMessage, GivesBackIndicesAndEveryBitOfValues) {
  for (const Sample& s : samples())
    for (const IndexCoding coding : kCodings) {
      SCOPED_TRACE(testing::Message() << s.name << " " << s.indices.size() << " of " << s.n << ", coding "
                                      << static_cast<int>(coding));
      std::vector<float> values = values_for(s.indices);
      if (values.size() > 2) values[1] = std::numeric_limits<float>::quiet_NaN(), values[2] = -0.0f;
      const Bytes payload = encoded({coding, false}, s.indices, values, s.n);
      EXPECT_LE(payload.size(), max_sparse_bytes({coding, false}, s.indices.size(), s.n));
      EXPECT_EQ(payload.size() % 4, 0u);
      SparseView view, portable;
      view.read({coding, false}, payload.slice(), s.n);
      cpu::avx512_allowed = false;
      portable.read({coding, false}, payload.slice(), s.n);
      cpu::avx512_allowed = true;
      ASSERT_EQ(view.size(), s.indices.size());
      ASSERT_EQ(portable.size(), s.indices.size());
      EXPECT_TRUE(std::equal(s.indices.begin(), s.indices.end(), portable.indices().begin()));
      const auto i = view.indices();
      EXPECT_TRUE(std::equal(i.begin(), i.end(), s.indices.begin(), s.indices.end()));
      ASSERT_EQ(view.values().size(), values.size());
      if (values.empty()) continue;
      EXPECT_EQ(std::memcmp(view.values().data(), values.data(), 4 * values.size()), 0);
    }
}

TEST(SparseMessage, SendsOneValueForAll) {
  for (const Sample& s : samples())
    for (const IndexCoding coding : kCodings) {
      const std::vector<float> value{0.25f};
      const Bytes payload = encoded({coding, true}, s.indices, value, s.n);
      EXPECT_LE(payload.size(), max_sparse_bytes({coding, true}, s.indices.size(), s.n));
      SparseView view;
      view.read({coding, true}, payload.slice(), s.n);
      ASSERT_EQ(view.size(), s.indices.size());
      EXPECT_TRUE(std::equal(s.indices.begin(), s.indices.end(), view.indices().begin()));
      for (std::size_t j = 0; j < view.size(); ++j) ASSERT_EQ(view.value(j), 0.25f);
    }
}

TEST(SparseMessage, RawIsThePaperAsItStands) {
  const Bytes payload = encoded({}, {3, 258}, {1.0f, -2.0f}, 1000);
  const unsigned char expected[] = {2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
  ASSERT_EQ(payload.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof expected), 0);
}

TEST(SparseMessage, PackedAndRiceAreWrittenAsDocumented) {
  // Gaps 3, 254, 0: the largest has 8 bits.
  const unsigned char packed[] = {3, 0, 0, 0, 0, 0, 0x80, 0x3f, 8, 3, 254, 0};
  const Bytes p = encoded({IndexCoding::packed, true}, {3, 258, 259}, {1.0f}, 1000);
  ASSERT_EQ(p.size(), sizeof packed);
  EXPECT_EQ(std::memcmp(p.data(), packed, sizeof packed), 0);
  // p = 6: low bits 3, 62, 0; quotients 0, 3, 0: bits 1 0001 1 from the lowest.
  const unsigned char rice[] = {3, 0, 0, 0, 0, 0, 0x80, 0x3f, 6, 0x83, 0x0f, 0, 0b110001, 0, 0, 0};
  const Bytes r = encoded({IndexCoding::rice, true}, {3, 258, 259}, {1.0f}, 1000);
  ASSERT_EQ(r.size(), sizeof rice);
  EXPECT_EQ(std::memcmp(r.data(), rice, sizeof rice), 0);
}

TEST(SparseMessage, TakesFewBitsAtAThousandth) {
  Random random(1, Purpose::test);
  Indices indices;
  for (std::uint32_t i = 0; i < 20'000'000; ++i)
    if (random.below(1000) == 0) indices.push_back(i);
  const auto bits = [&](IndexCoding coding) {
    const Bytes payload = encoded({coding, true}, indices, {1.0f}, 20'000'000);
    return 8 * static_cast<double>(payload.size() - 8) / static_cast<double>(indices.size());
  };
  EXPECT_LE(bits(IndexCoding::packed), 13.1);
  EXPECT_LE(bits(IndexCoding::rice), 11.6);
  // For gaps drawn evenly. packed: the largest of 128 exponential ones is 5.4 of them, and a block's bits are rounded
  // up.
  const double gap = 20'000'000 / static_cast<double>(indices.size());
  EXPECT_EQ(bits(IndexCoding::raw), 32);
  EXPECT_NEAR(bits(IndexCoding::packed), std::log2(1 + 5.4 * (gap - 1)) + 0.6, 0.2);
  EXPECT_NEAR(bits(IndexCoding::rice), std::log2(gap) + 1.55, 0.2);
}

TEST(SparseMessage, IsAppended) {
  Bytes payload;
  payload.append(4).data()[0] = std::byte{9};
  const Indices indices{5};
  const std::vector<float> values{1};
  encode_sparse({IndexCoding::rice, false}, slice(indices), slice(values), 10, payload);
  EXPECT_EQ(payload.data()[0], std::byte{9});
  SparseView view;
  view.read({IndexCoding::rice, false}, payload.slice().sub(4, payload.size() - 4), 10);
  EXPECT_EQ(view.indices()[0], 5u);
}

TEST(SparseMessage, ReadsAPayloadThatIsNotAligned) {
  const Indices indices = drawn(200, 10'000, 1);
  const std::vector<float> values = values_for(indices);
  for (const IndexCoding coding : kCodings) {
    const Bytes payload = encoded({coding, false}, indices, values, 10'000);
    std::vector<std::byte> shifted(payload.size() + 1);
    std::memcpy(shifted.data() + 1, payload.data(), payload.size());
    SparseView view;
    view.read({coding, false}, Slice<const std::byte>(shifted.data() + 1, payload.size()), 10'000);
    EXPECT_TRUE(std::equal(indices.begin(), indices.end(), view.indices().begin()));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), view.values().begin()));
  }
}

TEST(SparseMessage, RefusesWhatItCannotBe) {
  const auto refused = [](std::vector<std::uint32_t> words, IndexCoding coding, bool one_value, std::size_t n) {
    SparseView view;
    EXPECT_THROW(view.read({coding, one_value}, slice(std::as_const(words)).bytes(), n), DataError)
        << words.size() << " words, coding " << static_cast<int>(coding);
  };
  for (const IndexCoding coding : kCodings) {
    refused({}, coding, false, 10);
    refused({0}, coding, true, 10);
    refused({1}, coding, false, 10);
    refused({0xFFFFFFFFu}, coding, false, 0xFFFFFFFFu);
    refused({0xFFFFFFFFu, 0}, coding, true, 0xFFFFFFFFu);
    refused({0, 0}, coding, false, 10);
    refused({1, 0, 0, 0, 0, 0}, coding, false, 10);
    refused({5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, coding, false, 4);
  }
  refused({2, 4, 4, 0, 0}, IndexCoding::raw, false, 10);        // twice the same
  refused({2, 4, 3, 0, 0}, IndexCoding::raw, false, 10);        // descending
  refused({1, 10, 0}, IndexCoding::raw, false, 10);             // outside
  refused({1, 0x0A08, 0}, IndexCoding::packed, false, 10);      // outside
  refused({1, 0x21, 0, 0, 0}, IndexCoding::packed, false, 10);  // blocks of 33 bits
  refused({1, 0x0000, 0}, IndexCoding::rice, false, 10);        // no 1 bit
  refused({1, 0x00FF, 0, 0, 0}, IndexCoding::rice, false, 10);
  Bytes payload;
  SparseView view;
  const std::vector<std::byte> seven(7);
  EXPECT_THROW(view.read({}, slice(seven), 10), DataError);
}

TEST(SparseMessage, NeverReadsOutsideOfWhatCame) {
  // Every prefix and thousands of damaged messages, each in memory of its own length (for the address sanitizer).
  Random random(3, Purpose::test);
  const Indices indices = drawn(300, 100'000, 2);
  const std::vector<float> values = values_for(indices);
  int read = 0, refused = 0;
  for (const IndexCoding coding : kCodings)
    for (const bool one_value : {false, true}) {
      const SparseFormat format{coding, one_value};
      const Bytes payload = encoded(format, indices, one_value ? std::vector<float>{1} : values, 100'000);
      const auto attempt = [&](const std::vector<std::byte>& bytes) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
        std::copy(bytes.begin(), bytes.end(), exact.get());
        SparseView view;
        try {
          view.read(format, Slice<const std::byte>(exact.get(), bytes.size()), 100'000);
        } catch (const DataError&) {
          ++refused;
          return;
        }
        ++read;
        for (std::size_t j = 0; j < view.size(); ++j) {
          ASSERT_LT(view.indices()[j], 100'000u);
          ASSERT_TRUE(j == 0 || view.indices()[j - 1] < view.indices()[j]);
        }
      };
      const std::vector<std::byte> whole(payload.data(), payload.data() + payload.size());
      for (std::size_t length = 0; length < whole.size(); ++length)
        attempt({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
      for (int round = 0; round < 3000; ++round) {
        std::vector<std::byte> damaged = whole;
        for (std::uint32_t hits = 1 + random.below(4); hits > 0; --hits) {
          const bool head = random.below(2) == 0;
          const auto at = random.below(head ? 16 : static_cast<std::uint32_t>(damaged.size()));
          damaged[at] = static_cast<std::byte>(random.bits());
        }
        if (random.below(4) == 0) damaged.resize(random.below(static_cast<std::uint32_t>(damaged.size())));
        attempt(damaged);
      }
      for (int round = 0; round < 1000; ++round) {
        std::vector<std::byte> noise(4 * random.below(64));
        for (std::byte& b : noise) b = static_cast<std::byte>(random.bits());
        if (noise.size() >= 4) noise[1] = noise[2] = noise[3] = std::byte{0};
        attempt(noise);
      }
    }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

TEST(SparseMessage, UnitedCountsEveryElementOnce) {
  std::vector<Bytes> payloads;
  std::vector<SparseView> views;
  std::set<std::uint32_t> all;
  EXPECT_EQ(united(views), 0u);
  for (const std::size_t count : {300, 0, 500, 1}) {
    const Indices indices = drawn(count, 2000, 7 + count);
    all.insert(indices.begin(), indices.end());
    payloads.push_back(encoded({}, indices, values_for(indices), 2000));
    views.emplace_back().read({}, payloads.back().slice(), 2000);
    EXPECT_EQ(united(views), all.size());
  }
  EXPECT_LT(all.size(), 801u) << "or none would have been there twice";
}

void read_and_add(SparseFormat format, Slice<const std::byte> payload, float factor, Slice<float> dense) {
  SparseView message;
  message.read(format, payload, dense.size());
  scatter_add(message, factor, dense);
}

TEST(ScatterAdd, AddsEveryMessageInOrderAndAlikeOnAnyNumberOfThreads) {
  const std::size_t n = 300'000;
  std::vector<SparseView> messages;
  std::vector<Bytes> payloads(5);
  std::vector<float> expected(n, 0.5f);
  for (std::uint64_t r = 0; r < payloads.size(); ++r) {
    const Indices indices = drawn(r == 3 ? 0 : 20'000, n, r);
    const std::vector<float> values = values_for(indices);
    const SparseFormat format{kCodings[r % 3], r == 4};
    encode_sparse(format, slice(indices), r == 4 ? Slice<const float>(values.data(), 1) : slice(values), n,
                  payloads[r]);
    messages.emplace_back();
    messages.back().read(format, payloads[r].slice(), n);
    for (std::size_t j = 0; j < indices.size(); ++j) {
      const float term = -0.25f * (r == 4 ? values[0] : values[j]);
      expected[indices[j]] += term;
    }
  }
  for (const int threads : {1, 2, 3}) {
    set_kernel_threads(threads);
    std::vector<float> dense(n, 0.5f);
    scatter_add(messages, -0.25f, slice(dense));
    EXPECT_EQ(dense, expected);
    std::vector<float> one_by_one(n, 0.5f);
    for (const SparseView& m : messages) scatter_add(m, -0.25f, slice(one_by_one));
    EXPECT_EQ(one_by_one, expected);
  }
  set_kernel_threads(1);
  std::vector<float> read_and_added(n, 0.5f);
  for (std::size_t r = 0; r < payloads.size(); ++r)
    read_and_add({kCodings[r % 3], r == 4}, payloads[r].slice(), -0.25f, slice(read_and_added));
  EXPECT_EQ(read_and_added, expected);
}

TEST(ScatterAdd, RefusesAnIndexOutsideBeforeItAdds) {
  const Indices indices{1, 10};
  const std::vector<float> values{1, 1};
  std::vector<float> dense(10, 0.0f);
  EXPECT_THROW(scatter_add(slice(indices), slice(values), 1.0f, slice(dense)), ShapeError);
  const Bytes payload = encoded({}, indices, values, 11);
  EXPECT_THROW(read_and_add({}, payload.slice(), 1.0f, slice(dense)), DataError);
  EXPECT_EQ(dense, std::vector<float>(10, 0.0f));
}

using SparseMessageOnCuda = CudaTest;

TEST_F(SparseMessageOnCuda, HasTheBytesOfTheCpuAndIsReadAsThere) {
  for (const Sample& s : samples())
    for (const IndexCoding coding : kCodings)
      for (const bool one_value : {false, true})
        for (const std::size_t shift : {0, 3}) {
          SCOPED_TRACE(testing::Message() << s.name << " " << s.indices.size() << " of " << s.n << ", coding "
                                          << static_cast<int>(coding));
          const SparseFormat format{coding, one_value};
          const std::vector<float> values = one_value ? std::vector<float>{0.25f} : values_for(s.indices);
          const Bytes payload = encoded(format, s.indices, values, s.n);
          Bytes there(kCuda);
          there.append(shift);
          encode_sparse(format, Placed(s.indices, kCuda), Placed(values, kCuda), s.n, there);
          const Slice<const std::byte> message = there.slice().sub(shift, there.size() - shift);
          ASSERT_EQ(host_values(message), host_values(payload.slice()));
          SparseView view;
          view.read(format, message, s.n);
          EXPECT_EQ(host_values(view.indices()), s.indices);
          if (s.indices.empty()) continue;
          EXPECT_EQ(host_values(view.values()), values);
        }
}

TEST_F(SparseMessageOnCuda, RefusesWhatItCannotBe) {
  const auto refused = [](std::vector<std::uint32_t> words, IndexCoding coding, bool one_value, std::size_t n) {
    const Placed<std::uint32_t> there(words, kCuda);
    SparseView view;
    EXPECT_THROW(view.read({coding, one_value}, there.slice().bytes(), n), DataError)
        << words.size() << " words, coding " << static_cast<int>(coding);
  };
  for (const IndexCoding coding : kCodings) {
    refused({}, coding, false, 10);
    refused({0}, coding, true, 10);
    refused({1}, coding, false, 10);
    refused({0xFFFFFFFFu}, coding, false, 0xFFFFFFFFu);
    refused({0, 0}, coding, false, 10);
    refused({1, 0, 0, 0, 0, 0}, coding, false, 10);
    refused({5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, coding, false, 4);
  }
  refused({2, 4, 4, 0, 0}, IndexCoding::raw, false, 10);
  refused({2, 4, 3, 0, 0}, IndexCoding::raw, false, 10);
  refused({1, 10, 0}, IndexCoding::raw, false, 10);
  refused({1, 0x0A08, 0}, IndexCoding::packed, false, 10);
  refused({1, 0x0000, 0}, IndexCoding::rice, false, 10);
}

TEST_F(SparseMessageOnCuda, IsAddedAsOnTheCpu) {
  const std::size_t n = 30'000;
  std::vector<SparseView> messages, there;
  std::vector<Bytes> payloads(5);
  std::vector<Bytes> payloads_there;
  for (std::uint64_t r = 0; r < payloads.size(); ++r) {
    const Indices indices = drawn(r == 3 ? 0 : 2'000, n, r);
    const std::vector<float> values = r == 4 ? std::vector<float>{0.3f} : values_for(indices);
    const SparseFormat format{kCodings[r % 3], r == 4};
    encode_sparse(format, slice(indices), slice(values), n, payloads[r]);
    encode_sparse(format, Placed(indices, kCuda), Placed(values, kCuda), n, payloads_there.emplace_back(kCuda));
    messages.emplace_back().read(format, payloads[r].slice(), n);
    there.emplace_back().read(format, payloads_there[r].slice(), n);
  }
  std::vector<float> dense(n, 0.5f);
  const Placed<float> dense_there(dense, kCuda);
  scatter_add(messages, -0.3f, slice(dense));
  scatter_add(there, -0.3f, dense_there);
  EXPECT_EQ(host_values(dense_there.slice()), dense);
  EXPECT_EQ(united(there), united(messages));
  // Indices and values in host memory come to the device.
  const Indices indices = drawn(100, n, 9);
  const std::vector<float> values = values_for(indices);
  scatter_add(slice(indices), slice(values), 2.0f, slice(dense));
  scatter_add(slice(indices), slice(values), 2.0f, dense_there);
  EXPECT_EQ(host_values(dense_there.slice()), dense);
}

}  // namespace
}  // namespace laconic::compress
