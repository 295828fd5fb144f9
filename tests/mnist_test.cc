#include "data/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "data/input_file.h"
#include "data/synthetic.h"
#include "tests/error_of.h"
#include "tests/gzip.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::AllOf;
using testing::HasSubstr;

Bytes idx(std::uint8_t type, std::vector<std::uint32_t> dims, std::size_t values) {
  Bytes b = {0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t d : dims)
    for (const int shift : {24, 16, 8, 0}) b.push_back(static_cast<std::uint8_t>(d >> shift));
  for (std::size_t i = 0; i < values; ++i) b.push_back(static_cast<std::uint8_t>(i % 10));
  return b;
}
Bytes images(std::uint32_t n) { return idx(8, {n, 28, 28}, n * 784); }
Bytes labels(std::uint32_t n) { return idx(8, {n}, n); }

/// A whole tiny data set, which each test then spoils in one place.
struct TinyMnist : TempFolder {
  explicit TinyMnist(std::uint32_t n = 12) {
    write("train-images-idx3-ubyte", images(n));
    write("train-labels-idx1-ubyte", labels(n));
    write("t10k-images-idx3-ubyte", images(3));
    write("t10k-labels-idx1-ubyte", labels(3));
  }
  std::string error() const {
    return error_of<DataError>([&] { load_mnist(path()); });
  }
};

TEST(Idx, ReadsExtentsAndValuesOfLiteralBytes) {
  TempFolder t;
  t.write("a", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30, 40, 50, 255});
  const IdxArray a = read_idx(t / "a", 2);
  EXPECT_EQ(a.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.values, (Bytes{10, 20, 30, 40, 50, 255}));
}

TEST(Idx, RecognisesGzipByContentAndNotByName) {
  TempFolder t;
  const Bytes plain = idx(8, {5}, 5);
  t.write("packed_without_suffix", gzip(plain));
  t.write("plain_with_suffix.gz", plain);
  EXPECT_EQ(read_idx(t / "packed_without_suffix", 1).values, (Bytes{0, 1, 2, 3, 4}));
  EXPECT_EQ(read_idx(t / "plain_with_suffix.gz", 1).values, (Bytes{0, 1, 2, 3, 4}));
}

TEST(Idx, SaysWhatIsWrongWithEachDamagedFile) {
  TempFolder t;
  const auto error = [&](const Bytes& bytes, int rank = 1) {
    t.write("f", bytes);
    return error_of<DataError>([&] { read_idx(t / "f", rank); });
  };
  EXPECT_THAT(error({}), HasSubstr("is empty"));
  EXPECT_THAT(error({0, 0, 8}), HasSubstr("has 3 bytes, less than its header of 8"));
  EXPECT_THAT(error({0, 0, 8, 1, 0, 0}), HasSubstr("has 6 bytes, less than its header of 8"));
  EXPECT_THAT(error(idx(8, {5, 2}, 10)), AllOf(HasSubstr("magic number 0x00000802"), HasSubstr("not 0x00000801")));
  EXPECT_THAT(error(idx(13, {5}, 5)), HasSubstr("0x00000d01"));  // floats
  EXPECT_THAT(error(idx(8, {5}, 4)), AllOf(HasSubstr("has 4 values"), HasSubstr("5 = 5"), HasSubstr("was cut")));
  EXPECT_THAT(error(idx(8, {5}, 6)), HasSubstr("goes on after"));
  EXPECT_THAT(error({'h', 'e', 'l', 'l', 'o', ' ', 'w', 'o', 'r', 'l', 'd'}), HasSubstr("magic number 0x68656c6c"));
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t / "absent", 1); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t.path(), 1); }), HasSubstr("is a folder"));
}

TEST(Idx, SaysThatAGzipStreamIsCutOrDamaged) {
  TempFolder t;
  Bytes content = idx(8, {50000}, 50000);
  for (std::size_t i = 8; i < content.size(); ++i) content[i] = static_cast<std::uint8_t>(i * i * 31 >> 3);
  const Bytes packed = gzip(content);
  ASSERT_GT(packed.size(), 1000u);
  for (const std::size_t kept : {std::size_t{2}, std::size_t{5}, std::size_t{10}, std::size_t{20}, packed.size() / 2,
                                 packed.size() - 9, packed.size() - 1}) {
    t.write("cut", Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(kept)));
    EXPECT_NE(error_of<DataError>([&] { read_idx(t / "cut", 1); }), "") << kept << " bytes kept";
  }
  t.write("cut", Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(packed.size() / 2)));
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t / "cut", 1); }), HasSubstr("middle of its gzip stream"));
  Bytes damaged = packed;
  damaged[packed.size() - 6] ^= 0xff;  // in the check sum
  t.write("damaged", damaged);
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t / "damaged", 1); }), HasSubstr("damaged"));
}

TEST(Idx, AHeaderThatPromisesMuchAllocatesLittle) {
  TempFolder t;
  t.write("terabytes", idx(8, {0xffffffffu, 0xffffffffu, 0xffffffffu}, 100));
  t.write("gigabytes", idx(8, {0xffffffffu, 16, 1}, 100));
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t / "terabytes", 3); }), HasSubstr("more than any file holds"));
  EXPECT_THAT(error_of<DataError>([&] { read_idx(t / "gigabytes", 3); }), HasSubstr("has 100 values"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024) << "KiB";
}

TEST(Mnist, LoadsBothSplitsWithTheDigitsConstants) {
  TinyMnist t;
  const ImageDataset d = load_mnist(t.path());
  EXPECT_EQ(d.name, "mnist");
  EXPECT_EQ(d.train.size(), 12);
  EXPECT_EQ(d.test.size(), 3);
  EXPECT_EQ(d.train.pixels.size(), 12u * 784);
  EXPECT_EQ(d.train.pixels[784 + 3], (784 + 3) % 10);
  EXPECT_EQ(d.train.labels, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
  EXPECT_EQ(d.mean, std::vector<float>{0.1307f});
  EXPECT_EQ(d.std, std::vector<float>{0.3081f});
}

TEST(Mnist, KnowsFashionByTheFolderNameOrByArgument) {
  TinyMnist t;
  const std::string folder = t / "My-FASHION-set";
  std::filesystem::create_directory(folder);
  for (const char* f :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    std::filesystem::copy(t / f, folder);
  const ImageDataset d = load_mnist(folder);
  EXPECT_EQ(d.name, "fashion-mnist");
  EXPECT_EQ(d.mean, std::vector<float>{0.2860f});
  EXPECT_EQ(d.std, std::vector<float>{0.3530f});
  EXPECT_EQ(load_mnist(folder, false).name, "mnist");
  EXPECT_EQ(load_mnist(t.path(), true).name, "fashion-mnist");
  for (const char* mnist : {"/a/fashion/mnist", "/fashion-mnist/x/MNIST/raw", "/data/digits"})
    EXPECT_FALSE(names_fashion(mnist)) << mnist;
  for (const char* fashion : {"/data/FashionMNIST/raw", "/mnist/Fashion", "/mnist/fashion-mnist/"})
    EXPECT_TRUE(names_fashion(fashion)) << fashion;
}

TEST(Mnist, FindsGzippedDottedAndNestedFiles) {
  TempFolder t;
  t.write("MNIST/raw/train-images.idx3-ubyte", images(4));
  t.write("MNIST/raw/train-labels.idx1-ubyte.gz", gzip(labels(4)));
  t.write("MNIST/raw/t10k-images-idx3-ubyte.gz", gzip(images(2)));
  t.write("t10k-labels-idx1-ubyte", labels(2));
  EXPECT_EQ(load_mnist(t.path()).train.size(), 4);
}

TEST(Mnist, SaysWhatIsMissingAndWhereItCanBeHad) {
  TinyMnist t;
  t.remove("t10k-labels-idx1-ubyte");
  EXPECT_THAT(t.error(), AllOf(HasSubstr("has no t10k-labels-idx1-ubyte"), HasSubstr("dataset-fashion-mnist"),
                               HasSubstr("/usr/share/datasets/fashion-mnist")));
  EXPECT_THAT(error_of<DataError>([] { load_mnist("/nowhere/at/all"); }),
              HasSubstr("/nowhere/at/all has no train-images"));
}

TEST(Mnist, SaysThatCountsOfImagesAndLabelsDiffer) {
  TinyMnist t;
  t.write("train-labels-idx1-ubyte", labels(11));
  EXPECT_THAT(t.error(), AllOf(HasSubstr("12 images"), HasSubstr("11 labels")));
}

TEST(Mnist, NamesTheRecordWhoseLabelIsOutOfRange) {
  TinyMnist t;
  Bytes bad = labels(12);
  bad[8 + 7] = 10;
  t.write("train-labels-idx1-ubyte", bad);
  EXPECT_THAT(t.error(), AllOf(HasSubstr("label 10 in record 7"), HasSubstr("expected 0 to 9")));
}

TEST(Mnist, RefusesNoImagesAndImagesOfAnotherSize) {
  TinyMnist t;
  t.write("train-images-idx3-ubyte", images(0));
  t.write("train-labels-idx1-ubyte", labels(0));
  EXPECT_THAT(t.error(), HasSubstr("holds no image"));
  t.write("train-images-idx3-ubyte", idx(8, {2, 32, 28}, 2 * 32 * 28));
  t.write("train-labels-idx1-ubyte", labels(2));
  EXPECT_THAT(t.error(), HasSubstr("images of 32 x 28, expected 28 x 28"));
}

TEST(Mnist, LoadsTheRealFashionMnistWhereItIsInstalled) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  const ImageDataset d = load_mnist(folder);
  EXPECT_EQ(d.name, "fashion-mnist");
  EXPECT_EQ(d.train.size(), 60000);
  EXPECT_EQ(d.test.size(), 10000);
  std::vector<int> per_class(10);
  for (const int label : d.train.labels) ++per_class[static_cast<std::size_t>(label)];
  EXPECT_EQ(per_class, std::vector<int>(10, 6000));
  double sum = 0;
  for (const std::uint8_t v : d.train.pixels) sum += v;
  EXPECT_NEAR(sum / static_cast<double>(d.train.pixels.size()) / 255, 0.2860, 5e-5);
}

TEST(InputFile, GroupsDigitsByThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(30720000), "30,720,000");
}

}  // namespace
}  // namespace laconic
