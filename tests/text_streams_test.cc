// How a text is cut into streams, against a slow obvious reading.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/text_blocks.h"

namespace laconic {
namespace {

TEST(TextStreams, WhatStreamsHaveNotReadIsThereOnce) {
  std::vector<std::int32_t> text(100);
  std::iota(text.begin(), text.end(), 0);
  for (const std::int64_t streams : {1, 6, 9})
    for (const std::int64_t read : {0, 4, 10, 200}) {
      std::vector<std::int32_t> seen = TextStreams::unread(text, streams, read);
      const std::int64_t each = 100 / streams, words = std::min(read, each);
      EXPECT_EQ(std::ssize(seen), streams * (each - words));
      for (std::int64_t s = 0; s < streams; ++s)
        for (std::int64_t w = 0; w < words; ++w) seen.push_back(text[static_cast<std::size_t>(s * each + w)]);
      std::sort(seen.begin(), seen.end());
      EXPECT_TRUE(std::equal(seen.begin(), seen.end(), text.begin())) << streams << " " << read;
    }
}

/// Word i is the number i, so that a word tells its place.
std::vector<std::int32_t> places(std::int64_t n) {
  std::vector<std::int32_t> text(static_cast<std::size_t>(n));
  std::iota(text.begin(), text.end(), 0);
  return text;
}

std::int64_t at(const Tensor& t, std::int64_t i) { return t.data<std::int64_t>()[i]; }

TEST(TextStreams, TrainsOnEqualStreamsOfAllWorkersTogether) {
  for (std::int64_t n : {48, 50, 59, 60})
    for (int workers : {1, 2, 4}) {
      const std::int64_t batch = 12 / workers / 2, all = batch * workers, length = n / all;
      const auto text = places(n);
      for (int rank = 0; rank < workers; ++rank) {
        const auto streams = TextStreams::training(text, batch, workers, rank);
        ASSERT_EQ(streams.streams(), batch);
        ASSERT_EQ(streams.length(), length - 1);
        for (std::int64_t from = 0; from < streams.length(); from += 3) {
          const std::int64_t steps = std::min<std::int64_t>(3, streams.length() - from);
          const auto s = streams.segment(from, steps);
          ASSERT_EQ(s.words.shape(), (Shape{steps, batch}));
          ASSERT_EQ(s.next.shape(), (Shape{steps * batch}));
          EXPECT_EQ(s.counted, steps * batch);
          for (std::int64_t t = 0; t < steps; ++t)
            for (std::int64_t b = 0; b < batch; ++b) {
              EXPECT_EQ(at(s.words, t * batch + b), (rank * batch + b) * length + from + t);
              EXPECT_EQ(at(s.next, t * batch + b), (rank * batch + b) * length + from + t + 1);
            }
        }
      }
    }
}

TEST(TextStreams, EvaluatesEveryWordButTheFirstOnceWhateverTheNumberOfWorkers) {
  for (std::int64_t n : {1, 2, 7, 21, 40, 41, 59})
    for (int workers : {1, 2, 3, 5, 9}) {
      SCOPED_TRACE(std::to_string(n) + " words, " + std::to_string(workers) + " workers");
      const auto text = places(n);
      std::multiset<std::int64_t> foretold;
      for (int rank = 0; rank < workers; ++rank) {
        const auto streams = TextStreams::evaluation(text, 6, workers, rank);
        std::vector<std::int64_t> before(static_cast<std::size_t>(streams.streams()), -1);
        for (std::int64_t from = 0; from < streams.length(); from += 4) {
          const auto s = streams.segment(from, std::min<std::int64_t>(4, streams.length() - from));
          for (std::int64_t i = 0; i < s.counted; ++i) {
            foretold.insert(at(s.next, i));
            EXPECT_EQ(at(s.next, i), at(s.words, i) + 1);
            auto& last = before[static_cast<std::size_t>(i % streams.streams())];
            if (last >= 0) {
              EXPECT_EQ(at(s.words, i), last + 1);  // contiguous
            }
            last = at(s.words, i);
          }
        }
      }
      EXPECT_EQ(foretold.size(), static_cast<std::size_t>(n - 1));
      EXPECT_EQ(std::set<std::int64_t>(foretold.begin(), foretold.end()).size(), static_cast<std::size_t>(n - 1));
      EXPECT_FALSE(foretold.count(0));
    }
}

TEST(TextStreams, EvaluatesTheSameStreamsWhateverTheNumberOfWorkers) {
  const auto text = places(50);
  std::set<std::int64_t> alone, shared;  // where streams begin
  for (int workers : {1, 3})
    for (int rank = 0; rank < workers; ++rank) {
      const auto streams = TextStreams::evaluation(text, 6, workers, rank);
      const auto s = streams.segment(0, 1);
      for (std::int64_t b = 0; b < streams.streams(); ++b) (workers == 1 ? alone : shared).insert(at(s.words, b));
    }
  EXPECT_EQ(alone, (std::set<std::int64_t>{0, 9, 17, 25, 33, 41}));
  EXPECT_EQ(shared, alone);
}

TEST(TextStreams, OfATextTooShortAreEmpty) {
  EXPECT_EQ(TextStreams::training(places(5), 6, 1, 0).length(), 0);
  EXPECT_EQ(TextStreams::evaluation(places(1), 6, 1, 0).streams(), 0);
  EXPECT_EQ(TextStreams::evaluation({}, 6, 1, 0).length(), 0);
}

}  // namespace
}  // namespace laconic
