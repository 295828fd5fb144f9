// Folders and lists of photographs, and what happens where a file is bad.
#include "data/image_source.h"
#include "data/photo_transform.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/error_of.h"
#include "tests/image_files.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

std::vector<std::string> names_of(const ImageSource& source, const std::string& folder) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < source.size(); ++i)
    names.push_back(concat(source.name(i).substr(folder.size() + 1), " ", source.label(i)));
  return names;
}

using Names = std::vector<std::string>;
File text(const std::string& s) { return {s.begin(), s.end()}; }
const File kSmall = jpeg_of(8, 8);

TEST(ImageSource, FoldersAreReadInTheOrderOfTheirBytes) {
  const TempFolder dir;
  for (const char* file : {"train/b/2.JPEG", "train/b/10.jpg", "train/B/x.png", "train/a/\xC3\xA4.jpeg",
                           "train/a/z.ppm", "train/a/.hidden.jpg", "train/a/notes.txt", "val/a/1.jpg", "val/B/1.jpg"})
    dir.write(file, kSmall);
  const PhotoDataset photos = open_photos(dir.path());
  EXPECT_EQ(photos.classes, (Names{"B", "a", "b"}));
  EXPECT_EQ(names_of(*photos.train, dir / "train"),
            (Names{"B/x.png 0", "a/z.ppm 1", "a/\xC3\xA4.jpeg 1", "b/10.jpg 2", "b/2.JPEG 2"}));
  EXPECT_EQ(names_of(*photos.validation, dir / "val"), (Names{"B/1.jpg 0", "a/1.jpg 1"}));
  File buffer;
  const auto bytes = photos.train->read(0, buffer);
  EXPECT_EQ(File(bytes.begin(), bytes.end()), kSmall);
}

TEST(ImageSource, NamesOfClassesGiveTheNumbers) {
  const TempFolder dir;
  dir.write("train/n02/x.jpg", kSmall);
  dir.write("train/n07/x.jpg", kSmall);
  dir.write("val/n07/y.jpg", kSmall);
  dir.write("synsets.txt", text("n00 fish\nn02 dog, hound\r\nn07 cat\n\n"));
  const PhotoDataset photos = open_photos(dir.path() + "/");
  EXPECT_EQ(photos.classes, (Names{"n00 fish", "n02 dog, hound", "n07 cat"}));
  EXPECT_EQ(names_of(*photos.train, dir / "train"), (Names{"n02/x.jpg 1", "n07/x.jpg 2"}));
  EXPECT_EQ(photos.validation->label(0), 2);
  EXPECT_EQ(photos.name, dir.path().substr(dir.path().rfind('/') + 1));
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  for (const char* data : {".", "train,val"}) EXPECT_EQ(open_photos(data).name, photos.name) << data;
  std::filesystem::current_path(here);

  dir.write("other.txt", text("n02\nn08\n"));
  expect_error<DataError>([&] { open_photos(dir.path(), dir / "other.txt"); },
                          {dir / "train", "has a folder n07 that is none of the 2 classes", "`labels`"});
  dir.write("val/n09/y.jpg", kSmall);
  expect_error<DataError>([&] { open_photos(dir.path()); }, {dir / "val", "has a folder n09"});
}

TEST(ImageSource, AFolderIsTheLineThatIsItsNameElseTheOneThatBeginsSo) {
  const TempFolder dir;
  for (const char* file : {"train/sea/1.jpg", "train/sea lion/1.jpg", "train/n02/1.jpg"}) dir.write(file, kSmall);
  dir.write("some.txt", text("\xEF\xBB\xBFsea lion\nsea\nn02 zebra\n"));
  EXPECT_EQ(names_of(*open_photos(dir / "train", dir / "some.txt").train, dir / "train"),
            (Names{"n02/1.jpg 2", "sea/1.jpg 1", "sea lion/1.jpg 0"}));
  dir.write("some.txt", text("sea lion\nsea horse\nn02 zebra\n"));
  expect_error<DataError>([&] { open_photos(dir / "train", dir / "some.txt"); }, {"has a folder sea that is none"});
  dir.write("synsets.txt", text("n00 fish\nn02\nsea\nsea lion\n"));
  EXPECT_EQ(open_photos((dir / "train/") + "," + (dir / "train/")).classes.size(), 4u);
  expect_error<UsageError>([&] { open_photos("synthetic:20,10", dir / "synsets.txt"); }, {"`labels`"});
}

TEST(ImageSource, ListsAreTakenAsTheyStand) {
  const TempFolder dir;
  dir.write("train.txt", text("b/2.jpg 1\nb/1.jpg\t1\r\n\na b/1 2.jpg 0"));
  dir.write("val.txt", text("b/2.jpg 3\n"));
  const PhotoDataset photos = open_photos(dir.path());
  EXPECT_EQ(names_of(*photos.train, dir.path()), (Names{"b/2.jpg 1", "b/1.jpg 1", "a b/1 2.jpg 0"}));
  EXPECT_EQ(photos.classes, (Names{"0", "1", "2", "3"}));

  dir.write("by-folder.txt", text("z/1.jpg\na/2.jpg\n"));
  const PhotoDataset single = open_photos((dir / "by-folder.txt") + "," + (dir / "by-folder.txt"));
  EXPECT_EQ(names_of(*single.train, dir.path()), (Names{"z/1.jpg 1", "a/2.jpg 0"}));
  EXPECT_EQ(names_of(*single.validation, dir.path()), names_of(*single.train, dir.path()));
  EXPECT_EQ(open_photos(dir / "by-folder.txt").validation, nullptr);

  dir.write("labels.txt", text("one\ntwo\n"));
  expect_error<DataError>([&] { open_photos(dir.path()); },
                          {"val.txt has label 3 for", "2.jpg, but there are 2 classes"});
  dir.write("mixed.txt", text("a/1.jpg 1\na/2.jpg\n"));
  expect_error<DataError>([&] { open_photos(dir / "mixed.txt"); }, {"mixed.txt has a line 2 without a label"});
  dir.write("bare.txt", text("1.jpg\n"));
  expect_error<DataError>([&] { open_photos(dir / "bare.txt"); }, {"neither a label nor a folder in line 1, '1.jpg'"});
  dir.write("empty.txt", text("\n\n"));
  expect_error<DataError>([&] { open_photos(dir / "empty.txt"); }, {"empty.txt names no files"});
}

TEST(ImageSource, BlanksAtTheEndOfALineOfAListDoNotCount) {
  const TempFolder dir;
  dir.write("list.txt", text("a/1.jpg 0\t\na/2.jpg\t1 \t\r\n \t\n"));
  EXPECT_EQ(names_of(*open_photos(dir / "list.txt").train, dir.path()), (Names{"a/1.jpg 0", "a/2.jpg 1"}));
}

TEST(ImageSource, AByteZeroEndsNoPath) {
  const TempFolder dir;
  dir.write("list.txt", text(std::string("a/1.jpg 0\na/2.jpg\0.png 1\n", 25)));
  expect_error<DataError>([&] { open_photos(dir / "list.txt"); },
                          {dir / "list.txt has a byte 0 in line 2. Give a text file, or correct the line."});
}

TEST(ImageSource, SaysWhatIsMissing) {
  const TempFolder dir;
  expect_error<DataError>([&] { open_photos(dir / "none"); }, {"none is no file or folder (`data`)", "synthetic"});
  expect_error<DataError>([&] { open_photos(dir.path()); }, {dir.path(), "has no folders with images", "train.txt"});
  dir.write("train/notes.txt", kSmall);
  expect_error<DataError>([&] { open_photos(dir.path()); }, {dir / "train", "has no folders with images"});
  expect_error<DataError>([&] { read_labels(dir / "train/none"); }, {"cannot be opened"});
}

TEST(ImageSource, TheFingerprintTellsNamesLabelsAndOrder) {
  const TempFolder dir;
  const auto fingerprint_of = [&](const std::string& list) {
    dir.write("list.txt", text(list));
    return open_photos(dir / "list.txt").fingerprint();
  };
  const std::uint64_t first = fingerprint_of("a 0\nb 1\n");
  EXPECT_EQ(fingerprint_of("a 0\nb 1"), first);
  for (const char* other : {"b 1\na 0\n", "a 1\nb 0\n", "a 0\nc 1\n", "a 0\nb 1\nb 1\n"})
    EXPECT_NE(fingerprint_of(other), first) << other;
}

TEST(ImageSource, SizesTellThatAFileWasReplaced) {
  const TempFolder dir;
  const auto sizes_with = [&](const File& file) {
    dir.write("a/1.jpg", file);
    return open_photos(dir.path()).sizes();
  };
  const std::uint64_t first = sizes_with(kSmall), content = open_photos(dir.path()).fingerprint();
  EXPECT_EQ(sizes_with(kSmall), first) << "times do not count";
  EXPECT_NE(sizes_with(jpeg_of(9, 8)), first);
  EXPECT_EQ(open_photos(dir.path()).fingerprint(), content);
}

TEST(ImageSource, SyntheticPhotosAreLearnablePicturesOfTenClasses) {
  const PhotoDataset photos = open_photos("synthetic:30,20");
  EXPECT_EQ(photos.classes.size(), 10u);
  EXPECT_EQ(photos.train->size(), 30);
  EXPECT_EQ(photos.validation->size(), 20);
  File buffer;
  const Image image = decode_image(photos.train->read(3, buffer), "x");
  EXPECT_EQ(image.width, 64);
  EXPECT_EQ(open_photos("synthetic:30,20").fingerprint(), photos.fingerprint());
  EXPECT_EQ(open_photos("synthetic:30,20,100").classes.size(), 100u);
  for (const char* wrong : {"x", "30", "30,20,", "30,20,0", "30,20,10001", "30,20,10,1"})
    EXPECT_THROW(open_photos("synthetic:" + std::string(wrong)), UsageError) << wrong;
}

/// Four pictures, of which `bad` are text.
std::string folder_with(const TempFolder& dir, const std::set<int>& bad) {
  for (int i = 0; i < 4; ++i)
    dir.write(concat("train/", i % 2, "/", i, ".JPEG"), bad.count(i) != 0 ? text("oops") : jpeg_of(20 + i, 20, i));
  return dir / "train";
}

TEST(BadFiles, AreReplacedByTheNextGoodOneUpToAMost) {
  const TempFolder dir;
  const std::shared_ptr<const ImageSource> source = open_photos(folder_with(dir, {0, 2})).train;  // 0/0 0/2 1/1 1/3
  std::vector<std::string> warnings;
  const auto reader = [&](int most) {
    return photo_reader(source, {.size = 8},
                        std::make_shared<BadFiles>(most, [&](const std::string& w) { warnings.push_back(w); }),
                        Bad::replaced);
  };
  std::vector<float> good(192), replaced(192);
  const ReadSample read = reader(2);
  EXPECT_EQ(read(0, 2, good.data()), 1);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_EQ(read(0, 0, replaced.data()), 1);  // 0/0 and 0/2 are bad, 1/1 stands in, with its label
    EXPECT_EQ(replaced, good);
  }
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("0/0.JPEG is no JPEG, PNG or PPM"), std::string::npos) << warnings[0];
  expect_error<DataError>([&] { reader(1)(0, 0, good.data()); }, {"0/2.JPEG", "1 before it", "`max-bad`"});
  expect_error<DataError>([&] { reader(0)(0, 1, good.data()); }, {"0/2.JPEG", "`max-bad` 10"});
}

TEST(BadFiles, AreLeftOutOfAnEvaluation) {
  const TempFolder dir;
  const std::shared_ptr<const ImageSource> source = open_photos(folder_with(dir, {0, 2})).train;  // 0/0 0/2 1/1 1/3
  const auto bad = std::make_shared<BadFiles>(2, [](const std::string&) {});
  const ReadSample read = photo_reader(source, {.size = 8}, bad, Bad::left_out);
  DataLoader loader(reader_of_images({3, 8, 8}, read),
                    {.sampler = {.samples = 4, .batch = 3, .shuffle = false}, .epochs = 1});
  std::vector<float> expected(192);
  for (const int samples : {1, 1}) {  // of 0/0 0/2 1/1, and of 1/3
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    const Batch rest = without_left_out(std::move(batch));
    EXPECT_EQ(rest.samples, samples);
    EXPECT_EQ(rest.y.shape(), (Shape{1}));
    EXPECT_EQ(rest.y.data<std::int64_t>()[0], 1);
    EXPECT_EQ(read(0, rest.step_in_epoch == 0 ? 2 : 3, expected.data()), 1);
    EXPECT_EQ(rest.x.to_vector(), expected);
  }
}

TEST(BadFiles, EndTheRunWhereNothingIsLeft) {
  const TempFolder dir;
  const std::shared_ptr<const ImageSource> source = open_photos(folder_with(dir, {0, 1, 2, 3})).train;
  std::vector<float> out(192);
  const auto bad = std::make_shared<BadFiles>(100, [](const std::string&) {});
  const ReadSample read = photo_reader(source, {.size = 8}, bad, Bad::replaced);
  expect_error<DataError>([&] { read(0, 1, out.data()); }, {"There is no other image"});
}

TEST(BadFiles, AMissingFileIsOneToo) {
  const TempFolder dir;
  const std::shared_ptr<const ImageSource> source = open_photos(folder_with(dir, {})).train;
  dir.remove("train/1/3.JPEG");
  std::vector<float> out(192);
  const auto bad = std::make_shared<BadFiles>(0, [](const std::string&) {});
  const ReadSample read = photo_reader(source, {.size = 8}, bad, Bad::replaced);
  expect_error<DataError>([&] { read(0, 3, out.data()); }, {"1/3.JPEG cannot be opened"});
}

TEST(PhotoReader, FeedsTheLoaderTheSameForAnyNumberOfThreads) {
  const TempFolder dir;
  const std::shared_ptr<const ImageSource> source = open_photos(folder_with(dir, {1})).train;
  const auto epoch = [&](int threads) {
    const auto bad = std::make_shared<BadFiles>(1, [](const std::string&) {});
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
  const std::vector<float> alone = epoch(0);
  EXPECT_EQ(alone.size(), 2u * 4 * 768);
  EXPECT_EQ(epoch(1), alone);
  EXPECT_EQ(epoch(3), alone);
}

}  // namespace
}  // namespace laconic
