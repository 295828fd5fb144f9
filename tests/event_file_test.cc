#include "apps/look/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/program.h"

namespace laconic {
namespace {

TEST(EventFile, TheChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // the check value of its definition
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, ARecordIsTheOneThatTensorboardsOwnWriterMakes) {
  std::string hex;
  for (const char c : event_record(1.5, 300, {{"a", 0.5f}})) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    hex += two;
  }
  EXPECT_EQ(hex, "1800000000000000a37f4b2209000000000000f83f10ac022a0a0a080a0161150000003f64076a3f");
}

/// Reads what a file says at each step, by tag. Fails where a length is wrong; sums are not looked at.
std::map<std::string, std::map<std::int64_t, float>> read(const std::string& bytes) {
  std::map<std::string, std::map<std::int64_t, float>> all;
  std::size_t at = 0;
  const auto varint = [&](std::size_t& i) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(i++));
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.size()) {
    std::uint64_t length = 0;
    std::memcpy(&length, &bytes.at(at), 8);
    std::size_t i = at + 12, step = 0;
    const std::size_t end = i + length;
    while (i < end) {
      const std::uint64_t key = varint(i);
      if (key == 0x09) {
        i += 8;
      } else if (key == 0x10) {
        step = varint(i);
      } else if (key == 0x1a) {
        i += varint(i);
      } else {
        EXPECT_EQ(key, 0x2au);
        const std::size_t size = varint(i), last = i + size;
        while (i < last) {
          EXPECT_EQ(varint(i), 0x0au);
          varint(i);
          EXPECT_EQ(varint(i), 0x0au);
          const std::size_t letters = varint(i);
          const std::string tag = bytes.substr(i, letters);
          i += letters;
          EXPECT_EQ(varint(i), 0x15u);
          std::memcpy(&all[tag][static_cast<std::int64_t>(step)], &bytes.at(i), 4);
          i += 4;
        }
        EXPECT_EQ(i, last);
      }
    }
    EXPECT_EQ(i, end);
    at = end + 4;
  }
  EXPECT_EQ(at, bytes.size());
  return all;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path());
  return files;
}

TEST(EventFile, HasTheStepsAndEvaluationsOfATrainingAlsoAfterItGoesOn) {
  const TempFolder folder;
  const std::string common = "mnist --data synthetic:100,20 --batch 10 --quiet --tensorboard " + (folder / "board") +
                             " --save " + (folder / "saved") + " --steps ";
  ASSERT_EQ(run(common + "10").exit_code, 0);
  ASSERT_EQ(run(common + "20 --resume").exit_code, 0);
  const std::vector<std::string> files = files_in(folder / "board");
  ASSERT_EQ(files.size(), 2u);
  std::map<std::string, std::map<std::int64_t, float>> all;
  for (const std::string& file : files) {
    EXPECT_TRUE(has(file, "/events.out.tfevents."));
    for (const auto& [tag, values] : read(file_text(file))) all[tag].insert(values.begin(), values.end());
  }
  EXPECT_EQ(all["train/loss"].size(), 20u);
  EXPECT_EQ(all["time/step, ms"].size(), 20u);
  ASSERT_EQ(all["validation/accuracy, %"].size(), 2u);
  EXPECT_EQ(all["validation/accuracy, %"].begin()->first, 10);
  EXPECT_GE(all["validation/accuracy, %"][20], 0);
}

TEST(EventFile, SeveralSeedsHaveFoldersOfTheirOwn) {
  const TempFolder folder;
  const Result r =
      run("mnist --data synthetic:40,20 --batch 10 --steps 2 --repeat 2 --quiet --tensorboard " + (folder / "board"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(files_in(folder.path()).size(), 2u);
}

TEST(EventFile, AFolderThatCannotBeMadeIsOneSentence) {
  const TempFolder folder;
  folder.write("file", {'x'});
  const Result r = run("mnist --data synthetic:40,20 --steps 1 --tensorboard " + (folder / "file/board"));
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "the folder could not be made")) << r.err;
  EXPECT_TRUE(has(r.err, "Check the path of --tensorboard.")) << r.err;
}

}  // namespace
}  // namespace laconic
