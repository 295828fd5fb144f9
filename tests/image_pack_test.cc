#include "data/image_pack.h"
#include "data/photo_transform.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/random.h"
#include "tests/error_of.h"
#include "tests/image_files.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

const auto kSilent = [](std::int64_t) {};

/// Three training images and one for validation, of two classes, packed.
struct Packed {
  TempFolder dir;
  std::string path = dir / "all.pack";
  PackReport report;

  explicit Packed(const PackOptions& options = {}) {
    dir.write("train/cat/1.jpg", jpeg_of(60, 40, 1));
    dir.write("train/cat/2.png", golden_image("photo.png"));
    dir.write("train/dog/1.jpg", jpeg_of(30, 90, 2));
    dir.write("val/dog/1.jpg", jpeg_of(40, 40, 3));
    BadFiles bad(0, [](const std::string&) {});
    report = write_pack(open_photos(dir.path()), path, options, bad, kSilent);
  }
  File bytes() const {
    File file;
    read_image_file(path, file);
    return file;
  }
};

TEST(ImagePack, HoldsTheFilesAsTheyAre) {
  const Packed packed;
  const PhotoDataset folder = open_photos(packed.dir.path()), pack = open_photos(packed.path);
  EXPECT_EQ(pack.classes, folder.classes);
  EXPECT_EQ(packed.report.train, 3);
  EXPECT_EQ(packed.report.validation, 1);
  EXPECT_EQ(packed.report.bytes_after, static_cast<std::int64_t>(packed.bytes().size()));
  for (const auto& [a, b] : {std::pair{folder.train, pack.train}, {folder.validation, pack.validation}}) {
    ASSERT_EQ(a->size(), b->size());
    for (std::int64_t i = 0; i < a->size(); ++i) {
      File one, other;
      const auto x = a->read(i, one), y = b->read(i, other);
      EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
      EXPECT_EQ(a->label(i), b->label(i));
    }
  }
  EXPECT_EQ(pack.train->name(1), packed.path + ": cat/2.png");
  EXPECT_NE(pack.fingerprint(), 0u);
  // Two packs, or a pack and a folder.
  EXPECT_EQ(open_photos(packed.path + "," + packed.dir / "val").validation->size(), 1);
  EXPECT_EQ(open_photos(packed.path + "," + packed.path).validation->size(), 1);
}

TEST(ImagePack, ValidationImagesKeepTheNamesOfTheirClasses) {
  const Packed packed;
  const std::string val = packed.dir / "val.pack";
  BadFiles bad(0, [](const std::string&) {});
  write_pack(open_photos(packed.dir / "val"), val, {}, bad, kSilent);  // of one class, dog, which has number 0 there
  for (const std::string& train : {packed.dir / "train", packed.path}) {
    const PhotoDataset photos = open_photos(train + "," + val);
    EXPECT_EQ(photos.validation->label(0), 1) << train;
    EXPECT_NE(photos.fingerprint(), open_photos(train + "," + (packed.dir / "train")).fingerprint());
  }
  packed.dir.write("names.txt", File{'a', '\n', 'c', 'a', 't', '\n', 'd', 'o', 'g', ' ', '2', '\n'});
  write_pack(open_photos(packed.dir / "val", packed.dir / "names.txt"), val, {}, bad, kSilent);
  EXPECT_EQ(open_photos((packed.dir / "train") + "," + val).validation->label(0), 1) << "dog 2 is dog";
  write_pack(open_photos(packed.dir / "train"), val, {}, bad, kSilent);
  expect_error<DataError>([&] { open_photos((packed.dir / "val") + "," + val); },
                          {"has a folder cat that is none of the 1 classes"});
}

TEST(ImagePack, TheFormatIsWhatTheHeaderSays) {
  const Packed packed;
  const File file = packed.bytes();
  const auto u = [&](std::size_t at, int bytes) {
    std::uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | file[at + static_cast<std::size_t>(i)];
    return value;
  };
  const auto text = [&](std::size_t at, std::size_t n) {
    return std::string(file.begin() + static_cast<std::ptrdiff_t>(at),
                       file.begin() + static_cast<std::ptrdiff_t>(at + n));
  };
  EXPECT_EQ(text(0, 8), "LACPACK\n");
  EXPECT_EQ(u(8, 4), 1u);
  const File first = jpeg_of(60, 40, 1);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), file.begin() + 16));
  const std::size_t foot = file.size() - 56, index = u(foot, 8);
  EXPECT_EQ(u(index, 8), 16u);
  EXPECT_EQ(u(index + 8, 4), first.size());
  EXPECT_EQ(u(index + 16, 4), 0u);
  EXPECT_EQ(u(index + 20, 4), 9u);
  EXPECT_EQ(u(foot + 8, 8), 4u * 9);
  EXPECT_EQ(text(index + 4 * 24, 36), "cat/1.jpgcat/2.pngdog/1.jpgdog/1.jpg");
  EXPECT_EQ(text(index + 4 * 24 + 36, u(foot + 16, 8)), "cat\ndog\n");
  EXPECT_EQ(u(foot + 24, 8), 3u);
  EXPECT_EQ(u(foot + 32, 8), 1u);
  EXPECT_EQ(text(foot + 48, 8), "LACPACK\n");
}

TEST(ImagePack, MakesLargerPicturesSmall) {
  const Packed packed({.size = 20, .threads = 3});
  const PhotoDataset pack = open_photos(packed.path), folder = open_photos(packed.dir.path());
  for (std::int64_t i = 0; i < 3; ++i) {
    File one, other;
    const Image small = decode_image(pack.train->read(i, one), "x"),
                large = decode_image(folder.train->read(i, other), "x");
    EXPECT_EQ(std::min(small.width, small.height), 20);
    EXPECT_NEAR(static_cast<double>(small.width) / small.height, static_cast<double>(large.width) / large.height, 0.1);
    std::vector<std::uint8_t> expected(static_cast<std::size_t>(small.width * small.height * 3 + Image::kSlack));
    ResizeBuffers buffers;
    resize(large,
           {{0, 0, double(large.width), double(large.height)},
            small.width,
            small.height,
            {0, 0, small.width, small.height}},
           buffers, expected.data());
    expected.resize(expected.size() - Image::kSlack);
    EXPECT_LT(difference(pixels_of(small), expected).mean, 6) << i;
  }
  const Packed same({.size = 4000});
  EXPECT_EQ(same.bytes(), Packed().bytes());
}

TEST(ImagePack, BadFilesAreNamedOrLeftOut) {
  const Packed packed;
  packed.dir.write("train/cat/0.jpg", {'x'});
  std::vector<std::string> warnings;
  BadFiles one(1, [&](const std::string&w) { warnings.push_back(w); }), none(0, {});
  EXPECT_EQ(write_pack(open_photos(packed.dir.path()), packed.path, {}, one, kSilent).train, 3);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("cat/0.jpg is no JPEG"), std::string::npos);
  EXPECT_EQ(open_photos(packed.path).train->size(), 3);
  const File before = packed.bytes();
  expect_error<DataError>([&] { write_pack(open_photos(packed.dir.path()), packed.path, {}, none, kSilent); },
                          {"cat/0.jpg"});
  EXPECT_EQ(packed.bytes(), before) << "half-written";
}

TEST(ImagePack, AnyCutIsNamed) {
  const Packed packed;
  const File file = packed.bytes();
  for (std::size_t keep = 0; keep < file.size(); keep += keep < 100 || file.size() - keep < 400 ? 1 : 97) {
    packed.dir.write("cut.pack", File(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(keep)));
    const std::string said = error_of<DataError>([&] { ImagePack(packed.dir / "cut.pack"); });
    ASSERT_NE(said.find("cut.pack"), std::string::npos) << keep << " bytes: " << said;
  }
}

TEST(ImagePack, ACutWhileItIsReadIsNamed) {
  const Packed packed;
  const PhotoDataset pack = open_photos(packed.path);
  std::filesystem::resize_file(packed.path, 30);
  File buffer;
  EXPECT_EQ(pack.train->name(2), packed.path + ": dog/1.jpg") << "the index is in memory";
  expect_error<DataError>([&] { pack.train->read(2, buffer); },
                          {packed.path, "became shorter while it was read. Is something else writing it?"});
}

TEST(ImagePack, AnyDamageIsNamed) {
  const Packed packed;
  const File file = packed.bytes();
  Random random(1, Purpose::test);
  for (int round = 0; round < 500; ++round) {
    File damaged = file;
    const bool late = random.below(2) == 0;  // in the index
    const std::size_t at =
        late ? file.size() - 1 - random.below(300) : random.below(static_cast<std::uint32_t>(file.size()));
    if (at >= 12 && at < 16) continue;  // kept for later versions
    damaged[at] ^= static_cast<std::uint8_t>(1 + random.below(255));
    packed.dir.write("damaged.pack", damaged);
    const std::string said = error_of<DataError>([&] {
      const ImagePack pack(packed.dir / "damaged.pack");
      File buffer;
      for (const auto& split : {pack.train(), pack.validation()})
        for (std::int64_t i = 0; i < split->size(); ++i) split->read(i, buffer);
    });
    ASSERT_NE(said.find("damaged.pack"), std::string::npos) << "byte " << at << ": " << said;
  }
}

TEST(ImagePack, OtherFilesAreNone) {
  const TempFolder dir;
  dir.write("x", {'L', 'A', 'C'});
  EXPECT_FALSE(ImagePack::is_one(dir / "x"));
  EXPECT_FALSE(ImagePack::is_one(dir / "none"));
  expect_error<DataError>([&] { ImagePack(dir / "x"); }, {"is no pack of images"});
  expect_error<DataError>([&] { ImagePack(dir / "none"); }, {"cannot be opened"});
}

}  // namespace
}  // namespace laconic
