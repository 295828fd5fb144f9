#include "dist/trainer/upload.h"

#include <gmock/gmock.h>

#include "data/synthetic.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"

namespace laconic {
namespace {

class UploadTest : public CudaTest {};

const std::shared_ptr<const ImageDataset>& tiny() {
  static const auto data = std::make_shared<const ImageDataset>(synthetic_cifar10({103, 37}));
  return data;
}

std::unique_ptr<DataLoader> loader(ReadSample read = image_reader(tiny(), Split::train, kPadCropFlip, 3)) {
  return std::make_unique<DataLoader>(
      reader_of_images({3, 32, 32}, std::move(read)),
      DataLoader::Options{.sampler = {.samples = 103, .ranks = 2, .rank = 1, .batch = 8, .seed = 3}, .epochs = 2});
}

TEST_F(UploadTest, GivesTheBatchesOfTheLoaderOnTheDevice) {
  BatchUpload there(loader(), {.device = kCuda}), here(loader(), {});
  Batch a, b;
  int batches = 0;
  for (; here.next(b); ++batches) {
    ASSERT_TRUE(there.next(a));
    EXPECT_EQ(a.x.device(), kCuda);
    EXPECT_EQ(a.y.device(), kCuda);
    EXPECT_EQ(b.x.device(), kCpu);
    EXPECT_EQ(a.x.shape(), b.x.shape());
    EXPECT_EQ(a.x.to_vector(), b.x.to_vector());
    EXPECT_EQ(a.y.to_vector(), b.y.to_vector());
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.global_samples, b.global_samples);
    EXPECT_EQ(a.first_global_position, b.first_global_position);
  }
  EXPECT_EQ(batches, 14);
  for (int again = 0; again < 2; ++again) EXPECT_FALSE(there.next(a));
}

// The consumer's stream waits for the copy, though no host thread does.
TEST_F(UploadTest, WhatIsAskedForNextFindsTheBatch) {
  BatchUpload there(loader(), {.device = kCuda}), here(loader(), {});
  std::vector<Tensor> copies;
  for (Batch a; there.next(a); a = {}) {
    copies.push_back(Tensor::empty(a.x.shape(), DType::f32, kCuda));
    copies.back().copy_from(a.x);  // on the device, in order
  }
  Batch b;
  for (const Tensor& copy : copies) {
    ASSERT_TRUE(here.next(b));
    EXPECT_EQ(copy.to_vector(), b.x.to_vector());
  }
}

TEST_F(UploadTest, LeavesOutWhatCouldNotBeRead) {
  const auto read = [inner = image_reader(tiny(), Split::train, kNoAugment, 3)](std::int64_t epoch, std::int64_t sample,
                                                                                float* pixels) {
    const std::int64_t label = inner(epoch, sample, pixels);
    return sample % 3 == 0 ? kLeftOut : label;
  };
  BatchUpload there(loader(read), {.device = kCuda, .drop_left_out = true}),
      here(loader(read), {.drop_left_out = true});
  Batch a, b;
  std::int64_t samples = 0;
  while (here.next(b)) {
    ASSERT_TRUE(there.next(a));
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.y.to_vector(), b.y.to_vector());
    EXPECT_EQ(a.x.to_vector(), b.x.to_vector());
    EXPECT_THAT(b.y.to_vector(), testing::Each(testing::Ge(0)));
    samples += b.samples;
  }
  EXPECT_LT(samples, 2 * 51);
}

TEST_F(UploadTest, TellsAnErrorAtEveryCallAndMayEndEarly) {
  const auto fails = [](std::int64_t, std::int64_t, float*) -> std::int64_t { throw DataError("sample 7 is torn"); };
  BatchUpload broken(loader(fails), {.device = kCuda});
  Batch batch;
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(error_of<DataError>([&] { broken.next(batch); }), "sample 7 is torn");
  for (int taken = 0; taken < 3; ++taken) {
    BatchUpload early(loader(), {.device = kCuda});
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(early.next(batch));
  }
}

TEST_F(UploadTest, OneTensorAfterAnother) {
  Upload upload(kCuda), none(kCpu);
  std::vector<Tensor> there;
  std::vector<float> values;
  for (int size : {0, 1, 5, 3, 100000}) {
    values.assign(static_cast<std::size_t>(size), static_cast<float>(size) + 0.5f);
    there.push_back(upload(Tensor::of({size}, values)));  // the host's may go at once
  }
  for (const Tensor& t : there)
    EXPECT_THAT(t.to_vector(),
                testing::AllOf(testing::SizeIs(t.elements()), testing::Each(static_cast<float>(t.elements()) + 0.5f)));
  const Tensor host = Tensor::of({2}, {1, 2});
  EXPECT_TRUE(none(host).same_memory(host));
}

}  // namespace
}  // namespace laconic
