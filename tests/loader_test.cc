#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/error.h"
#include "data/synthetic.h"
#include "tests/error_of.h"

namespace laconic {
namespace {

using testing::HasSubstr;

const std::shared_ptr<const ImageDataset>& tiny() {
  static const auto data = std::make_shared<const ImageDataset>(synthetic_cifar10({103, 37}));
  return data;
}

DataLoader loader_of(Split split, const Augment& augment, DataLoader::Options o) {
  o.sampler.samples = (split == Split::train ? tiny()->train : tiny()->test).size();
  return DataLoader(reader_of_images({3, 32, 32}, image_reader(tiny(), split, augment, o.sampler.seed)), o);
}

std::vector<Batch> all(DataLoader& loader) {
  std::vector<Batch> batches;
  for (Batch b; loader.next(b);) batches.push_back(b);
  return batches;
}

std::vector<Batch> all(DataLoader::Options o, Split split = Split::train, Augment augment = kPadCropFlip) {
  DataLoader loader = loader_of(split, augment, o);
  return all(loader);
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.x.shape(), b.x.shape());
  EXPECT_EQ(a.x.to_vector(), b.x.to_vector());
  EXPECT_EQ(a.y.to_vector(), b.y.to_vector());
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.global_samples, b.global_samples);
  EXPECT_EQ(a.first_global_position, b.first_global_position);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.step_in_epoch, b.step_in_epoch);
}

TEST(DataLoader, GivesTheSameBatchesWithAnyNumberOfThreads) {
  const auto expected = all({.sampler = {.ranks = 2, .rank = 1, .batch = 8, .seed = 3}, .threads = 0, .epochs = 3});
  ASSERT_EQ(expected.size(), 21u);  // 103 samples in global batches of 16, three times
  for (const int threads : {1, 2, 5}) {
    const auto batches =
        all({.sampler = {.ranks = 2, .rank = 1, .batch = 8, .seed = 3}, .threads = threads, .epochs = 3});
    ASSERT_EQ(batches.size(), expected.size());
    for (std::size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i]);
  }
}

TEST(DataLoader, ContinuesFromAnyEpochAndStepAsIfItHadNeverStopped) {
  const ShardedSampler::Options sampler{.ranks = 3, .rank = 2, .batch = 5, .seed = 8};
  const auto whole = all({.sampler = sampler, .epochs = 3});
  const std::size_t per_epoch = whole.size() / 3;
  for (std::size_t start = 0; start < whole.size(); ++start) {
    const auto epoch = static_cast<std::int64_t>(start / per_epoch),
               step = static_cast<std::int64_t>(start % per_epoch);
    const auto rest = all({.sampler = sampler, .first_epoch = epoch, .first_step = step, .epochs = 3 - epoch});
    ASSERT_EQ(rest.size(), whole.size() - start);
    expect_equal(rest.front(), whole[start]);
    expect_equal(rest.back(), whole.back());
  }
  const auto at_the_end_of_an_epoch =
      all({.sampler = sampler, .first_epoch = 1, .first_step = static_cast<std::int64_t>(per_epoch), .epochs = 2});
  expect_equal(at_the_end_of_an_epoch.front(), whole[2 * per_epoch]);
}

TEST(DataLoader, FourWorkersTogetherSeeWhatOneSeesWithFourTimesTheBatch) {
  const auto one = all({.sampler = {.batch = 32, .seed = 4}, .epochs = 2});
  std::vector<std::vector<Batch>> four;
  for (int k = 0; k < 4; ++k)
    four.push_back(all({.sampler = {.ranks = 4, .rank = k, .batch = 8, .seed = 4}, .epochs = 2}));
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::vector<float> images, labels;
    std::int64_t position = one[i].first_global_position;
    for (int k = 0; k < 4; ++k) {
      const Batch& b = four[static_cast<std::size_t>(k)][i];
      for (const float v : b.x.to_vector()) images.push_back(v);
      for (const float v : b.y.to_vector()) labels.push_back(v);
      EXPECT_EQ(b.first_global_position, position);
      EXPECT_EQ(b.global_samples, one[i].samples);
      position += b.samples;
    }
    EXPECT_EQ(images, one[i].x.to_vector());
    EXPECT_EQ(labels, one[i].y.to_vector());
  }
  EXPECT_EQ(four[0].back().samples, 7);  // 103 = 3 x 32 + 7
  EXPECT_EQ(four[1].back().samples, 0);
  EXPECT_EQ(four[1].back().x.shape(), Shape({0, 3, 32, 32}));
}

TEST(DataLoader, WithoutShuffleAndAugmentationGivesTheFileOrder) {
  const auto batches = all({.sampler = {.batch = 10, .shuffle = false}, .epochs = 1}, Split::train, kNoAugment);
  const ImageDataset& d = *tiny();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto labels = batches[i].y.to_vector();
    const auto images = batches[i].x.to_vector();
    for (std::size_t j = 0; j < labels.size(); ++j) {
      EXPECT_EQ(labels[j], static_cast<float>(d.train.labels[i * 10 + j]));
      EXPECT_EQ(images[j * 3072 + 77],
                (static_cast<float>(d.train.pixels[(i * 10 + j) * 3072 + 77]) / 255.0f - 0.5f) / 0.25f);
    }
  }
}

TEST(DataLoader, EvaluationCoversTheTestSetOnceInOrder) {
  std::vector<float> labels;
  for (int k = 0; k < 3; ++k)
    for (const Batch& b :
         all({.sampler = {.ranks = 3, .rank = k, .batch = 5, .shuffle = false, .share = true}, .epochs = 1},
             Split::test, kNoAugment))
      for (const float v : b.y.to_vector()) labels.push_back(v);
  const auto& expected = tiny()->test.labels;
  EXPECT_EQ(labels, std::vector<float>(expected.begin(), expected.end()));
}

TEST(DataLoader, AWorkerWithoutAnyShareOfTheTestSetGetsNoBatch) {
  DataLoader loader(reader_of_images({1, 2, 2}, [](auto, auto, float*) { return 0; }),
                    {.sampler = {.samples = 2, .ranks = 3, .rank = 2, .share = true}, .epochs = 1});
  Batch b;
  EXPECT_FALSE(loader.next(b));
}

TEST(DataLoader, ABatchThatIsKeptNeverChanges) {
  DataLoader loader = loader_of(Split::train, kPadCropFlip, {.sampler = {.batch = 16}, .threads = 2});
  Batch first, b;
  loader.next(first);
  const std::vector<float> before = first.x.to_vector();
  for (int i = 0; i < 50; ++i) loader.next(b);
  EXPECT_EQ(first.x.to_vector(), before);
}

TEST(DataLoader, UsesNoMoreMemoryThanItsRing) {
  DataLoader loader = loader_of(Split::train, kPadCropFlip, {.sampler = {.batch = 16}, .threads = 2});
  Batch b;
  for (int i = 0; i < 10; ++i) loader.next(b);
  const std::uint64_t taken = memory_stats().from_system;
  const std::size_t in_use = memory_stats().in_use_bytes;
  for (int i = 0; i < 70; ++i) loader.next(b);  // whole epochs: ends on the same step
  EXPECT_EQ(memory_stats().from_system, taken);
  EXPECT_EQ(memory_stats().in_use_bytes, in_use);
}

TEST(DataLoader, HandsAnExceptionOfADataThreadToTheConsumerInItsTurn) {
  for (const int threads : {0, 1, 4}) {
    DataLoader loader(reader_of_images({1},
                                       [](std::int64_t, std::int64_t sample, float* x) -> std::int64_t {
                                         require<DataError>(sample != 37, "image 37 is damaged");
                                         *x = static_cast<float>(sample);
                                         return sample;
                                       }),
                      {.sampler = {.samples = 100, .batch = 10, .shuffle = false}, .threads = threads});
    Batch b;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(loader.next(b));
      EXPECT_EQ(b.y.to_vector()[9], static_cast<float>(i * 10 + 9));
    }
    EXPECT_THAT(error_of<DataError>([&] { loader.next(b); }), HasSubstr("image 37"));
    EXPECT_THAT(error_of<DataError>([&] { loader.next(b); }), HasSubstr("image 37"));
  }
}

TEST(DataLoader, StopsWithoutFinishingWhatNobodyWants) {
  std::atomic<int> read{0};
  std::atomic<bool> begun{false};
  {
    DataLoader loader(reader_of_images({1},
                                       [&](std::int64_t, std::int64_t, float* x) -> std::int64_t {
                                         begun = true, ++read;
                                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                         return *x = 0, 0;
                                       }),
                      {.sampler = {.samples = 1000000, .batch = 1000000, .shuffle = false}, .threads = 2});
    while (!begun) std::this_thread::yield();
  }
  EXPECT_LT(read, 1000000);
}

TEST(DataLoader, SaysWhatItReadsForTheNextBatch) {
  for (const bool named : {true, false}) {
    std::atomic<bool> go{false};
    const SampleName name = [](std::int64_t sample) { return concat("n01/", sample, ".JPEG"); };
    const auto read = [&](std::int64_t, std::int64_t sample, float* x) -> std::int64_t {
      while (sample == 13 && !go) std::this_thread::yield();
      return *x = 0, 0;
    };
    DataLoader loader(reader_of_images({1}, read, named ? name : SampleName{}),
                      {.sampler = {.samples = 20, .batch = 10, .shuffle = false}, .threads = 2, .epochs = 1});
    Batch b;
    EXPECT_TRUE(loader.next(b));
    const std::string expected = named ? "n01/13.JPEG" : "sample 13";
    while (loader.awaited() != expected) std::this_thread::yield();
    go = true;
    EXPECT_TRUE(loader.next(b));
    EXPECT_EQ(loader.awaited(), "");
  }
}

TEST(DataLoader, RefusesAStartOutsideTheEpochAndASillyNumberOfThreads) {
  EXPECT_THROW(all({.sampler = {.batch = 10}, .first_step = 12, .epochs = 1}), ShapeError);
  EXPECT_THROW(all({.sampler = {.batch = 10}, .first_epoch = -1, .epochs = 1}), ShapeError);
  EXPECT_THROW(all({.sampler = {.batch = 10}, .threads = 5000, .epochs = 1}), UsageError);
}

}  // namespace
}  // namespace laconic
