// Photographs in archives: what programs write (tests/golden/archives.py), and what is damaged or made up.
#include "data/image_archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/base/error.h"
#include "data/archive_file.h"
#include "data/image_pack.h"
#include "data/photo_transform.h"
#include "tests/error_of.h"
#include "tests/gzip.h"
#include "tests/image_files.h"
#include "tests/tar.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using Names = std::vector<std::string>;

const std::string kGolden = std::string(LACONIC_SOURCE) + "/tests/golden/archives/";
const std::string kLongName(120, 'l');

class ImageArchive : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_libarchive()) GTEST_SKIP() << "this build has no libarchive";
  }
  std::string written(const std::string& name, const File& bytes) const {
    dir_.write(name, bytes);
    return dir_ / name;
  }
  /// Expects that a tar is refused with these words.
  void refused(const Tar& tar, std::initializer_list<std::string> parts) const {
    const std::string path = written("refused.tar", tar.bytes());
    expect_error<DataError>([&] { open_photos(path); }, parts);
  }
  TempFolder dir_;
};

/// "CLASS/FILE LABEL" of each, or FILE where there is no folder.
Names names_in_archive(const ImageSource& source) {
  Names names;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const std::string whole = source.name(i);
    const std::filesystem::path path = whole.substr(whole.rfind(": ") + 2);
    names.push_back(concat((path.parent_path().filename() / path.filename()).string(), " ", source.label(i)));
  }
  return names;
}

std::string text_of_image(const ImageSource& source, std::int64_t i) {
  File buffer;
  const auto bytes = source.read(i, buffer);
  return {bytes.begin(), bytes.end()};
}

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all.substr(0, bytes);
}

TEST_F(ImageArchive, WhatProgramsWriteIsReadInTheOrderOfFolders) {
  for (const char* name : {"gnu.tar", "gnu.tar.gz", "python.tar", "python.zip", "python-pipe.zip", "info.zip"}) {
    SCOPED_TRACE(name);
    const PhotoDataset photos = open_photos(kGolden + name);
    EXPECT_EQ(photos.classes, (Names{"B", "a", "b"}));
    EXPECT_EQ(names_in_archive(*photos.train), (Names{"B/x.png 0", "a/" + kLongName + ".png 1", "a/\xC3\xA4.jpeg 1",
                                                      "b/10.jpg 2", "b/2.JPEG 2", "b/3.jpg 2"}));
    ASSERT_NE(photos.validation, nullptr);
    EXPECT_EQ(names_in_archive(*photos.validation), (Names{"B/1.jpg 0", "a/1.jpg 1"}));
    for (const std::int64_t i : {5, 0, 4, 1, 3, 2}) {
      const std::string path = photos.train->name(i);
      std::string own = "photos/train/" + path.substr(path.find("train/") + 6);
      if (i == 5) own = "photos/train/b/2.JPEG";  // two names of one file
      EXPECT_EQ(text_of_image(*photos.train, i), repeated(own, 700));
    }
    EXPECT_EQ(text_of_image(*photos.validation, 1), repeated("photos/val/a/1.jpg", 700));
  }
}

TEST_F(ImageArchive, SamplesOfWebDatasetStandInTheirOrder) {
  const PhotoDataset photos = open_photos(kGolden + "samples-{000..001}.tar");
  ASSERT_EQ(photos.train->size(), 5);
  EXPECT_EQ(photos.classes, (Names{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(photos.validation, nullptr);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(photos.train->label(i), 4 - i);
    EXPECT_EQ(text_of_image(*photos.train, i), repeated(concat("sample ", i), 700));
  }
  EXPECT_EQ(photos.train->name(3), kGolden + "samples-001.tar: photos/003.jpg");
  const std::string first = kGolden + "samples-000.tar", second = kGolden + "samples-001.tar";
  EXPECT_EQ(open_photos(first + "," + second).validation->size(), 2);
  expect_error<DataError>([&] { open_photos(kGolden + "samples-{000..002}.tar"); },
                          {"samples-002.tar cannot be opened"});
}

/// Two classes of two pictures, in a folder and in a tar.
struct InBoth {
  TempFolder dir;
  Tar tar;
  InBoth() {
    for (int i = 3; i >= 0; --i) {
      const std::string name = concat("train/", i % 2, "/", i, ".jpg");
      const File picture = jpeg_of(20 + i, 20, i);
      dir.write("folder/" + name, picture);
      tar.add(name, picture);
    }
    dir.write("x.tar", tar.bytes());
    dir.write("x.tar.gz", gzip(tar.bytes()));
  }
};

TEST_F(ImageArchive, AnyNumberOfThreadsIsFedWhatAFolderFeeds) {
  const InBoth both;
  const auto epochs = [&](const std::string& data, int threads) {
    const std::shared_ptr<const ImageSource> source = open_photos(both.dir / data).train;
    const auto bad = std::make_shared<BadFiles>(0, [](const std::string&) {});
    const PhotoTransform::Options view{.size = 16, .augment = kRandomCropAndFlip, .seed = 3};
    DataLoader loader(reader_of_images({3, 16, 16}, photo_reader(source, view, bad, Bad::replaced)),
                      {.sampler = {.samples = source->size(), .batch = 3, .seed = 3}, .threads = threads, .epochs = 2});
    std::vector<float> all;
    for (Batch b; loader.next(b);) {
      const std::vector<float> images = b.x.to_vector();
      all.insert(all.end(), images.begin(), images.end());
    }
    return all;
  };
  const std::vector<float> expected = epochs("folder", 0);
  EXPECT_EQ(expected.size(), 2u * 4 * 768);
  for (const char* data : {"x.tar", "x.tar.gz"})
    for (const int threads : {0, 3}) EXPECT_EQ(epochs(data, threads), expected) << data << " " << threads;
}

TEST_F(ImageArchive, IsPackedAsAFolderIs) {
  const InBoth both;
  BadFiles bad(0, [](const std::string&) {});
  for (const char* data : {"folder", "x.tar"})
    write_pack(open_photos(both.dir / data), both.dir / (std::string(data) + ".pack"), {}, bad, [](std::int64_t) {});
  const PhotoDataset a = open_photos(both.dir / "folder.pack"), b = open_photos(both.dir / "x.tar.pack");
  ASSERT_EQ(b.train->size(), 4);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(text_of_image(*a.train, i), text_of_image(*b.train, i));
}

TEST_F(ImageArchive, FoldersAroundItAndFilesBesideItDoNotCount) {
  const Names expected{"a/1.jpg 0", "b/1.jpg 1"};
  const auto classes = [&](std::initializer_list<const char*> names) {
    Tar tar;
    for (const char* name : names) tar.add(name, "x");
    return names_in_archive(*open_photos(written("t.tar", tar.bytes())).train);
  };
  EXPECT_EQ(classes({"a/1.jpg", "b/1.jpg"}), expected);
  EXPECT_EQ(classes({"./b/1.jpg", "././a//1.jpg", "./notes.txt", "a/notes"}), expected);
  EXPECT_EQ(classes({"x/y/a/1.jpg", "x/y/b/1.jpg", "x/z/notes.txt"}), expected);
  EXPECT_EQ(classes({"x/train/a/1.jpg", "x/train/b/1.jpg", "x/test/1.jpg", "x/1.jpg"}), expected);
  EXPECT_EQ(classes({"train/a/1.jpg", "train/b/1.jpg", "__MACOSX/train/a/._1.jpg"}), expected);
}

TEST_F(ImageArchive, NamesOfClassesMayLieInIt) {
  Tar tar;
  tar.add("x/synsets.txt", "n0 fish\nn1 dog\nn2 cat\n").add("x/train/n2/1.jpg", "2").add("x/train/n1/1.jpg", "1");
  tar.add("x/val/n2/1.jpg", "3");
  const PhotoDataset photos = open_photos(written("t.tar", tar.bytes()));
  EXPECT_EQ(photos.classes, (Names{"n0 fish", "n1 dog", "n2 cat"}));
  EXPECT_EQ(names_in_archive(*photos.train), (Names{"n1/1.jpg 1", "n2/1.jpg 2"}));
  EXPECT_EQ(photos.validation->label(0), 2);
  tar.add("x/train/n7/1.jpg", "4");
  refused(tar, {"refused.tar has a folder n7 that is none of the 3 classes"});
}

TEST_F(ImageArchive, ArchivesThatWereJoinedAreReadToTheEnd) {
  File two = Tar().add("a/1.jpg", "1").bytes();
  const File other = Tar().add("b/1.jpg", "2").bytes();
  two.insert(two.end(), other.begin(), other.end());
  const PhotoDataset photos = open_photos(written("two.tar", two));
  ASSERT_EQ(photos.train->size(), 2);
  EXPECT_EQ(text_of_image(*photos.train, 1), "2");
}

TEST_F(ImageArchive, MoreShardsThanAProcessMayHaveOpenAreOpenedInTurns) {
  constexpr int kShards = 300;
  for (int i = 0; i < kShards; ++i)
    dir_.write(concat("s", i, ".tar"),
               Tar().add("x.jpg", concat("picture ", i)).add("x.cls", concat(i % 7, "\n")).bytes());
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  const PhotoDataset photos = open_photos(dir_ / "s{0..299}.tar");
  EXPECT_EQ(open_files(), before);
  ASSERT_EQ(photos.train->size(), kShards);
  for (const std::int64_t i : {0, 299, 42}) {
    EXPECT_EQ(text_of_image(*photos.train, i), concat("picture ", i));
    EXPECT_EQ(photos.train->label(i), i % 7);
  }
}

TEST_F(ImageArchive, TheFingerprintTellsNamesLabelsAndSizes) {
  const auto fingerprint_of = [&](const char* name, const char* picture, const char* label) {
    const Tar tar = Tar().add(concat(name, ".jpg"), picture).add(concat(name, ".cls"), label);
    return open_photos(written("t.tar", tar.bytes())).fingerprint();
  };
  const std::uint64_t first = fingerprint_of("a", "xx", "1");
  EXPECT_EQ(fingerprint_of("a", "yy", "1"), first) << "content is not looked at";
  EXPECT_NE(fingerprint_of("b", "xx", "1"), first);
  EXPECT_NE(fingerprint_of("a", "xxx", "1"), first);
  EXPECT_NE(fingerprint_of("a", "xx", "2"), first);
}

TEST_F(ImageArchive, NoNameLeadsOutOfIt) {
  refused(Tar().add("/a/1.jpg", "x"), {"has a file /a/1.jpg, whose name leads out of it"});
  refused(Tar().add("a/../../b/1.jpg", "x"), {"a/../../b/1.jpg, whose name leads out of it"});
  refused(Tar().add("a/1.jpg", "x").add("a/2.jpg", {}, '2', "/etc/passwd"),
          {"refused.tar has a link, a/2.jpg", "tar --dereference"});
  refused(Tar().add("a/1.jpg", "x").add("a/2.jpg", {}, '1', "a/3.jpg"),
          {"has a link, a/2.jpg, to a/3.jpg, which is not there before it"});
}

TEST_F(ImageArchive, WhatHasNoClassIsRefused) {
  refused(Tar().add("1.jpg", "x").add("2.jpg", "x"), {"refused.tar: 1.jpg lies in no folder of a class", "a list"});
  refused(Tar().add("a/1.jpg", "x").add("b/c/1.jpg", "x"), {"refused.tar: b/c/1.jpg lies in no folder of a class"});
  refused(Tar().add("train/a/1.jpg", "x").add("val/1.jpg", "x"), {"refused.tar: val/1.jpg lies in no folder"});
  refused(Tar().add("n01.tar", "x"), {"n01.tar is an archive in an archive. Unpack the outer one first."});
  refused(Tar().add("notes.txt", "x"), {"refused.tar has no images"});
  refused(Tar(), {"refused.tar has no images"});
  refused(Tar().add("a/1.jpg", "x").add("b/1.jpg", "x").add("a/1.jpg", "y"), {"refused.tar has a/1.jpg twice"});
}

TEST_F(ImageArchive, ASampleHasOneImageAndOneLabel) {
  refused(Tar().add("a.jpg", "x").add("a.cls", "0").add("b.jpg", "x"), {"refused.tar: b.jpg has no label (.cls)"});
  refused(Tar().add("a.jpg", "x").add("b.jpg", "x").add("a.cls", "0"), {"refused.tar: a.jpg has no label (.cls)"});
  refused(Tar().add("a.webp", "x").add("a.cls", "0"), {"refused.tar: a.cls has no image"});
  refused(Tar().add("a.jpg", "x").add("a.cls", "0").add("a.png", "x"), {"a.png is the second image of its sample"});
  refused(Tar().add("a.cls", "1").add("a.cls", "0").add("a.png", "x"), {"a.cls is the second label of its sample"});
  for (const char* label : {"", "cat", "-1", "1.0", "1 2", "100000", "99999999999", "\x80\x04K\x01."})
    refused(Tar().add("a.jpg", "x").add("a.cls", label), {"refused.tar: a.cls is no label. Write the class's number"});
  refused(Tar().add("a.jpg", "x").add("a.cls", std::string(100, '1')), {"a.cls is no label"});
}

TEST_F(ImageArchive, ATarThatIsCutAnywhereIsRefused) {
  const File whole = Tar().add("a/1.jpg", std::string(1300, 'x')).add("b/1.jpg", "y").bytes();
  const std::size_t end = whole.size() - Tar::kBlock;  // half of its end may be missing, and is with some programs
  for (std::size_t size = 0; size < end; size += 64) {
    const std::string path = written("cut.tar", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    expect_error<DataError>([&] { open_photos(path); }, {"cut.tar", "fetch it again"});
  }
  EXPECT_EQ(
      open_photos(written("cut.tar", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(end)})).train->size(),
      2);
}

TEST_F(ImageArchive, AZipThatIsCutAnywhereIsRefused) {
  for (const char* name : {"python.zip", "python-pipe.zip", "info.zip"}) {
    File whole;
    read_image_file(kGolden + name, whole);
    for (std::ptrdiff_t size = 0; size < std::ssize(whole); size += 97)
      expect_error<DataError>(
          [&] {
            open_photos(written("cut.zip", {whole.begin(), whole.begin() + size}));
          },
          {"cut.zip", "fetch it again"});
  }
}

TEST_F(ImageArchive, AZipOfWhichAFileCannotBeFoundIsRefused) {
  File whole;
  read_image_file(kGolden + "python.zip", whole);
  const std::string_view signature("PK\3\4", 4);
  const std::string text(whole.begin(), whole.end());
  int files = 0;
  for (auto at = text.find(signature); at != std::string::npos; at = text.find(signature, at + 1), ++files) {
    File bad = whole;
    bad[at + 2] ^= 1;
    const std::string path = written("bad.zip", bad);
    EXPECT_NE(error_of<DataError>([&] { open_photos(path); }), "") << "the signature at " << at;
  }
  EXPECT_GT(files, 5);
}

TEST_F(ImageArchive, ATarThatIsDamagedInTheMiddleIsRefused) {
  const File picture(700, 1);
  File bytes = Tar().add("a/1.jpg", picture).add("a/2.jpg", picture).add("b/3.jpg", picture).bytes();
  std::fill_n(bytes.begin() + 3 * Tar::kBlock, Tar::kBlock, std::uint8_t{0xA5});  // the second header
  const std::string path = written("bad.tar", bytes);
  expect_error<DataError>([&] { open_photos(path); }, {"bad.tar cannot be read", "fetch it again"});
}

TEST_F(ImageArchive, ArchivesTogetherHaveOneLimitOfMemory) {
  const std::string path = written("x.tar.gz", gzip(Tar().add("a/1.jpg", File(700, 1)).bytes()));
  const std::uint64_t unpacked = Archive(path).bytes_in_memory();
  EXPECT_EQ(unpacked, 3 * Tar::kBlock + 2 * Tar::kBlock);
  EXPECT_NO_THROW(Archive(path, true, unpacked));
  expect_error<DataError>([&] { Archive(path, true, unpacked - 1); }, {"would lie in memory", "gunzip"});
}

TEST_F(ImageArchive, FilesOfMacOsBetweenThoseOfASampleDoNotCount) {
  const std::string path =
      written("mac.tar", Tar().add("._a.jpg", "x").add("a.jpg", "1").add("._a.cls", "x").add("a.cls", "7").bytes());
  const PhotoDataset photos = open_photos(path);
  ASSERT_EQ(photos.train->size(), 1);
  EXPECT_EQ(photos.train->label(0), 7);
}

TEST_F(ImageArchive, ImagesWithOtherThingsThanLabelsBesideThemAreRefused) {
  refused(Tar().add("c/0.jpg", "1").add("c/0.json", "{}").add("c/1.jpg", "1").add("c/1.json", "{}"),
          {"c/0.json lies beside an image that has no label"});
  refused(
      Tar().add("a.jpg", "1").add("a.cls", "0").add("b.jpg", "1").add("b.cls", "0").add("a.jpg", "1").add("a.cls", "0"),
      {"a.jpg is there twice"});
}

TEST_F(ImageArchive, ChecksumsOfZipAndGzipAreCompared) {
  File whole;
  read_image_file(kGolden + "python.zip", whole);
  const std::string stored = "photos/train/b/10.jpgphotos/train/b/10.jpg";  // a name, and what its file holds
  const auto at = std::search(whole.begin(), whole.end(), stored.begin(), stored.end());
  ASSERT_NE(at, whole.end());
  at[30] ^= 1;
  const std::shared_ptr<const ImageSource> damaged = open_photos(written("x.zip", whole)).train;
  expect_error<DataError>([&] { text_of_image(*damaged, 3); }, {"b/10.jpg cannot be read: ", "CRC"});
  EXPECT_EQ(text_of_image(*damaged, 4), repeated("photos/train/b/2.JPEG", 700));

  File packed = gzip(Tar().add("a/1.jpg", "x").bytes());
  packed[packed.size() - 6] ^= 1;
  expect_error<DataError>([&] { open_photos(written("x.tar.gz", packed)); },
                          {"x.tar.gz cannot be read", "incorrect data check"});
  packed.resize(packed.size() / 2);
  expect_error<DataError>([&] { open_photos(written("x.tar.gz", packed)); }, {"middle of its gzip stream"});
}

TEST_F(ImageArchive, ChangesUnderAReaderAreFound) {
  const Tar longer = Tar().add("a/1.jpg", std::string(6000, 'x')).add("b/1.jpg", "y");
  const std::string path = written("x.tar", longer.bytes());
  const std::shared_ptr<const ImageSource> source = open_photos(path).train;
  std::filesystem::resize_file(path, 2048);
  expect_error<DataError>([&] { text_of_image(*source, 0); }, {"x.tar", "became shorter while it was read"});
  written("x.tar", Tar().add("a/1.jpg", std::string(5000, 'x')).add("c/1.jpg", std::string(7000, 'x')).bytes());
  expect_error<DataError>([&] { text_of_image(*source, 0); }, {"a/1.jpg is not as long as its header said"});
}

TEST_F(ImageArchive, WhatIsNoArchiveOfItsNameIsRefused) {
  for (const char* name : {"x.tar", "x.tar.xz", "x.zip", "x.tgz"})
    expect_error<DataError>(
        [&] {
          open_photos(written(name, {'a', 'b', 'c', '\n'}));
        },
        {name, " cannot be read: ", "Give a tar, tar.gz or zip that is not encrypted"});
  const std::string nameless = written("nameless", Tar().add("a/1.jpg", "x").bytes());
  EXPECT_EQ(open_photos(nameless).train->size(), 1);
  EXPECT_EQ(open_photos(written("nameless", gzip(Tar().add("a/1.jpg", "x").bytes()))).train->size(), 1);
}

TEST(ShardsOf, AreCountedAsAShellCounts) {
  EXPECT_EQ(shards_of("x/{008..010}.tar"), (Names{"x/008.tar", "x/009.tar", "x/010.tar"}));
  EXPECT_EQ(shards_of("{8..10}"), (Names{"8", "9", "10"}));
  EXPECT_EQ(shards_of("{08..10}"), (Names{"08", "09", "10"}));
  EXPECT_EQ(shards_of("{0..01}"), (Names{"00", "01"}));
  EXPECT_EQ(shards_of("{0..1}-{2..3}"), (Names{"0-2", "0-3", "1-2", "1-3"}));
  EXPECT_EQ(shards_of("{7..7}.tar"), (Names{"7.tar"}));
  EXPECT_EQ(shards_of("{18446744073709551615..18446744073709551615}"), (Names{"18446744073709551615"}));
  for (const char* itself :
       {"x.tar", "{3..1}.tar", "{a,b}.tar", "{a..b}.tar", "{1..2.tar", "1..2}", "{}", "{-1..2}", ""})
    EXPECT_EQ(shards_of(itself), Names{itself});
  for (const char* many : {"{0..100000}", "{0..18446744073709551615}", "{1..1000}{1..1000}"})
    expect_error<UsageError>([&] { shards_of(many); }, {"stands for more than 100,000 files"});
  const TempFolder dir;
  dir.write("{0..1}.tar", {'x'});
  EXPECT_EQ(shards_of(dir / "{0..1}.tar"), Names{dir / "{0..1}.tar"});
}

TEST(ArchiveAbsent, ABuildWithoutLibarchiveSaysSo) {
  if (has_libarchive()) GTEST_SKIP() << "this build has libarchive";
  expect_error<DataError>([&] { open_photos(kGolden + "gnu.tar"); },
                          {"gnu.tar is an archive, and this build has no libarchive"});
}

}  // namespace
}  // namespace laconic
