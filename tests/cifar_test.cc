#include "data/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "data/archive_file.h"
#include "data/synthetic.h"
#include "tests/error_of.h"
#include "tests/gzip.h"
#include "tests/tar.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::AllOf;
using testing::HasSubstr;

/// n records; pixel p of record i is (first + i + p) mod 251, the label (first + i) mod classes.
Bytes records(int n, int first, int classes = 10) {
  Bytes b;
  for (int i = first; i < first + n; ++i) {
    if (classes == 100) b.push_back(static_cast<std::uint8_t>(i % 20));
    b.push_back(static_cast<std::uint8_t>(i % classes));
    for (int p = 0; p < 3072; ++p) b.push_back(static_cast<std::uint8_t>((i + p) % 251));
  }
  return b;
}

std::string error10(const TempFolder& t) {
  return error_of<DataError>([&] { load_cifar10(t.path()); });
}

TEST(Cifar10, ReadsAnyWholeNumberOfRecordsOfTheBatchesThatAreThere) {
  TempFolder t;
  t.write("data_batch_1.bin", records(3, 0));
  t.write("data_batch_3.bin.gz", gzip(records(2, 3)));
  t.write("data_batch_5", records(1, 5));
  t.write("test_batch.bin", records(4, 40));
  const ImageDataset d = load_cifar10(t.path());
  EXPECT_EQ(d.train.labels, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(d.test.labels, (std::vector<std::int32_t>{0, 1, 2, 3}));
  ASSERT_EQ(d.train.pixels.size(), 6u * 3072);
  for (int i = 0; i < 6; ++i)
    for (const int p : {0, 1023, 1024, 3071})
      EXPECT_EQ(d.train.pixels[static_cast<std::size_t>(i * 3072 + p)], (i + p) % 251);
  EXPECT_EQ(d.name, "cifar-10");
  EXPECT_EQ(d.mean, (std::vector<float>{0.4914f, 0.4822f, 0.4465f}));
  EXPECT_EQ(d.std, (std::vector<float>{0.2470f, 0.2435f, 0.2616f}));
}

TEST(Cifar10, NamesOfClassesComeFromTheArchivesFile) {
  TempFolder t;
  t.write("data_batch_1.bin", records(1, 0)), t.write("test_batch.bin", records(1, 0));
  EXPECT_TRUE(load_cifar10(t.path()).class_names.empty());
  const auto names = [&](const std::string& text) { t.write("batches.meta.txt", Bytes(text.begin(), text.end())); };
  names("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const std::vector<std::string> found = load_cifar10(t.path()).class_names;
  ASSERT_EQ(found.size(), 10u);
  EXPECT_EQ(found[9], "truck");
  names("airplane\nautomobile\n");
  EXPECT_THAT(error10(t), HasSubstr("batches.meta.txt names 2 classes, expected 10"));
}

TEST(Cifar10, FindsTheFolderOfTheArchive) {
  TempFolder t;
  t.write("cifar-10-batches-bin/data_batch_2.bin", records(2, 0));
  t.write("cifar-10-batches-bin/test_batch.bin", records(1, 0));
  EXPECT_EQ(load_cifar10(t.path()).train.size(), 2);
}

TEST(Cifar10, SaysThatAFileIsNotAWholeNumberOfRecords) {
  TempFolder t;
  Bytes cut = records(2, 0);
  cut.pop_back();
  t.write("data_batch_1.bin", cut);
  t.write("test_batch.bin", records(1, 0));
  EXPECT_THAT(error10(t),
              HasSubstr("data_batch_1.bin has 6,145 bytes, not a whole number of records of 3,073. The download "
                        "was cut; fetch it again."));
  t.write("data_batch_1.bin", {});
  EXPECT_THAT(error10(t), HasSubstr("is empty"));
}

TEST(Cifar10, PassesOverNoBatchThatCannotBeRead) {
  TempFolder t;
  t.write("data_batch_2.bin", records(2, 0));
  t.write("test_batch.bin", records(1, 0));
  std::filesystem::create_directory(t / "data_batch_1.bin");
  EXPECT_THAT(error10(t), HasSubstr("data_batch_1.bin is a folder, a file is expected."));
  std::filesystem::remove(t / "data_batch_1.bin");
  std::filesystem::create_symlink("nowhere", t / "data_batch_1.bin");
  EXPECT_THAT(error10(t), HasSubstr("data_batch_1.bin cannot be opened: No such file or directory."));
}

TEST(Cifar10, SaysThatAGzipStreamIsCut) {
  TempFolder t;
  Bytes packed = gzip(records(20, 0));
  packed.resize(packed.size() / 2);
  t.write("data_batch_1.bin.gz", packed);
  t.write("test_batch.bin", records(1, 0));
  EXPECT_THAT(error10(t), HasSubstr("middle of its gzip stream"));
}

TEST(Cifar10, NamesTheRecordWhoseLabelIsOutOfRange) {
  TempFolder t;
  Bytes bad = records(3, 0);
  bad[2 * 3073] = 200;
  t.write("data_batch_1.bin", bad);
  t.write("test_batch.bin", records(1, 0));
  EXPECT_THAT(error10(t), AllOf(HasSubstr("label 200 in record 2"), HasSubstr("expected 0 to 9")));
}

TEST(Cifar10, SaysWhatIsMissingAndWhereItCanBeHad) {
  TempFolder t;
  EXPECT_THAT(error10(t),
              AllOf(HasSubstr("has no data_batch_1.bin"), HasSubstr("cifar-10-binary.tar.gz"), HasSubstr("synthetic")));
  t.write("data_batch_1.bin", records(1, 0));
  EXPECT_THAT(error10(t), HasSubstr("has no test_batch.bin"));
  t.write("cifar-10-binary.tar.gz", {1});
  EXPECT_THAT(error10(t), HasSubstr("Give the archive itself, "));
}

TEST(Cifar10, RecognisesThePythonVersion) {
  TempFolder t;
  t.write("data_batch_1", {0x80, 0x02, '}', 'q'});
  EXPECT_THAT(error10(t), HasSubstr("Fetch the binary version"));
}

/// As the data set's page has it: its files in no order.
Bytes cifar_archive(const std::string& folder, const Bytes& second, const Bytes& first) {
  Tar tar;
  tar.add(folder + "data_batch_2.bin", second)
      .add(folder + "readme.html", "<html>")
      .add(folder + "test_batch.bin", records(4, 40));
  tar.add(folder + "data_batch_1.bin", first);
  return gzip(tar.add(folder + "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n").bytes());
}

TEST(Cifar10, IsReadFromItsArchiveAsFromTheFolder) {
  if (!has_libarchive()) GTEST_SKIP() << "this build has no libarchive";
  TempFolder t;
  for (const char* folder : {"cifar-10-batches-bin/", "", "./"}) {
    t.write("cifar-10-binary.tar.gz", cifar_archive(folder, records(2, 3), records(1003, 0)));
    const ImageDataset d = load_cifar10(t / "cifar-10-binary.tar.gz");
    ASSERT_EQ(d.train.size(), 1005);
    EXPECT_EQ(d.train.labels[1002], 2);
    EXPECT_EQ(d.train.labels[1003], 3);
    EXPECT_EQ(d.train.pixels[1003 * 3072 + 7], 3 + 7);
    EXPECT_EQ(d.test.labels, (std::vector<std::int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(d.class_names[9], "j");
  }
}

TEST(Cifar10, SaysWhatIsWrongInAnArchive) {
  if (!has_libarchive()) GTEST_SKIP() << "this build has no libarchive";
  TempFolder t;
  const auto error_with = [&](const Bytes& archive) {
    t.write("x.tar.gz", archive);
    return error_of<DataError>([&] { load_cifar10(t / "x.tar.gz"); });
  };
  Bytes cut = records(2, 0);
  cut.pop_back();
  EXPECT_THAT(error_with(cifar_archive("", cut, records(1, 0))),
              HasSubstr("x.tar.gz: data_batch_2.bin has 6,145 bytes"));
  EXPECT_THAT(error_with(cifar_archive("", records(1, 0), {})), HasSubstr("x.tar.gz: data_batch_1.bin is empty"));
  EXPECT_THAT(error_with(gzip(Tar().add("a/data_batch_1.bin", "x").add("b/data_batch_1.bin", "x").bytes())),
              HasSubstr("x.tar.gz has data_batch_1.bin twice"));
  EXPECT_THAT(error_with(gzip(Tar().add("a", "x").bytes())),
              HasSubstr("x.tar.gz has no data_batch_1.bin. `data` wants"));
  EXPECT_THAT(error_with(gzip(Tar().add("cifar-10-batches-py/data_batch_1", Bytes{0x80, 0x02, '}', 'q'}).bytes())),
              AllOf(HasSubstr("py/data_batch_1 is of the Python version of the data set (a pickle)"),
                    HasSubstr("Fetch the binary version, cifar-10-binary.tar.gz, from")));
}

TEST(Cifar10, StopsReadingAGzipBomb) {
  TempFolder t;
  Bytes bomb, packed = gzip(Bytes(std::size_t{1} << 26));  // zeros; members of gzip follow one another
  for (int i = 0; i < 10; ++i) bomb.insert(bomb.end(), packed.begin(), packed.end());
  t.write("data_batch_1.bin", bomb);
  EXPECT_THAT(error10(t), HasSubstr("more than 100,000 records"));
}

TEST(Cifar100, TakesTheFineLabelOfItsTwo) {
  TempFolder t;
  t.write("train.bin", records(50, 30, 100));
  t.write("test.bin.gz", gzip(records(2, 98, 100)));
  const ImageDataset d = load_cifar100(t.path());
  EXPECT_EQ(d.classes, 100);
  EXPECT_EQ(d.train.labels.front(), 30);
  EXPECT_EQ(d.train.labels.back(), 79);
  EXPECT_EQ(d.test.labels, (std::vector<std::int32_t>{98, 99}));
  EXPECT_EQ(d.train.pixels[3072 + 5], 31 + 5);
  Bytes bad = records(2, 0, 100);
  bad[3074] = 20;
  t.write("train.bin", bad);
  EXPECT_THAT(error_of<DataError>([&] { load_cifar100(t.path()); }), HasSubstr("coarse label 20 in record 1"));
}

TEST(Synthetic, IsTheSameOnEveryCallAndDependsOnTheSeed) {
  const ImageDataset a = synthetic_mnist({50, 20}), b = synthetic_mnist({50, 20}), c = synthetic_mnist({50, 20, 2});
  EXPECT_EQ(a.train.pixels, b.train.pixels);
  EXPECT_EQ(a.test.labels, b.test.labels);
  EXPECT_EQ(fingerprint(a), fingerprint(b));
  EXPECT_NE(a.train.pixels, c.train.pixels);
  EXPECT_NE(fingerprint(a), fingerprint(c));
  const ImageDataset more = synthetic_mnist({60, 20});
  EXPECT_TRUE(std::equal(a.train.pixels.begin(), a.train.pixels.end(), more.train.pixels.begin()));
}

TEST(Synthetic, HasGoldenBytes) {
  // Any change to the generator changes every published number on synthetic data: it must be meant.
  const ImageDataset d = synthetic_cifar10({3, 1});
  const Bytes first(d.train.pixels.begin(), d.train.pixels.begin() + 8);
  EXPECT_EQ(first, (Bytes{105, 127, 185, 166, 106, 176, 151, 138}));
}

/// Share of test images whose class mean (over the training images) is the nearest, the simplest of classifiers.
double nearest_mean_accuracy(const ImageDataset& d) {
  const auto n = static_cast<std::size_t>(d.image_bytes());
  std::vector<std::vector<double>> mean(static_cast<std::size_t>(d.classes), std::vector<double>(n));
  std::vector<int> count(mean.size());
  for (std::size_t i = 0; i < d.train.labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(d.train.labels[i]);
    ++count[label];
    for (std::size_t p = 0; p < n; ++p) mean[label][p] += d.train.pixels[i * n + p];
  }
  int right = 0;
  for (std::size_t i = 0; i < d.test.labels.size(); ++i) {
    double best = 1e300;
    std::size_t guess = 0;
    for (std::size_t label = 0; label < mean.size(); ++label) {
      double distance = 0;
      for (std::size_t p = 0; p < n; ++p) {
        const double e = mean[label][p] / count[label] - d.test.pixels[i * n + p];
        distance += e * e;
      }
      if (distance < best) best = distance, guess = label;
    }
    right += static_cast<int>(guess) == d.test.labels[i];
  }
  return right / static_cast<double>(d.test.size());
}

TEST(Synthetic, CanBeLearnedFromTrainAndHoldsOnTest) {
  EXPECT_GT(nearest_mean_accuracy(synthetic_mnist({1000, 200})), 0.6);
  EXPECT_GT(nearest_mean_accuracy(synthetic_cifar10({500, 100})), 0.6);
}

TEST(Synthetic, HasTheShapesAndAllClasses) {
  const ImageDataset d = synthetic_cifar100({3000, 100});
  EXPECT_EQ(d.image_bytes(), 3072);
  EXPECT_EQ(d.train.pixels.size(), 3000u * 3072);
  EXPECT_EQ(std::set<int>(d.train.labels.begin(), d.train.labels.end()).size(), 100u);
}

TEST(Synthetic, SizesFollowTheName) {
  EXPECT_TRUE(is_synthetic("synthetic"));
  EXPECT_FALSE(is_synthetic("synthetics"));
  EXPECT_EQ(load_cifar10("synthetic:30,7").train.size(), 30);
  EXPECT_EQ(load_cifar10("synthetic:30,7").test.size(), 7);
  EXPECT_EQ(synthetic_sizes("synthetic", {5, 6}).train, 5);
  for (const char* bad : {"synthetic:", "synthetic:3", "synthetic:3,", "synthetic:0,1", "synthetic:1,2,3",
                          "synthetic:x,1", "synthetic:-1,1", "synthetic:99999999999999999999,1", "synthetic:1000001,1"})
    EXPECT_THROW(synthetic_sizes(bad, {5, 6}), UsageError) << bad;
}

}  // namespace
}  // namespace laconic
