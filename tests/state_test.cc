#include "core/state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/base/atomic_file.h"
#include "tests/cuda_devices.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

Tensor bytes_tensor(std::initializer_list<std::uint8_t> values) {
  Tensor t = Tensor::empty({static_cast<std::int64_t>(values.size())}, DType::u8);
  std::copy(values.begin(), values.end(), t.data<std::uint8_t>());
  return t;
}

/// A file with this header and these many zero bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes, std::uint64_t says = ~std::uint64_t{0}) {
  const std::uint64_t n = says == ~std::uint64_t{0} ? header.size() : says;
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + std::string(data_bytes, '\0');
}

class Safetensors : public ::testing::Test {
 protected:
  TempFolder dir_;
  std::string path_ = dir_.path() + "/w.safetensors";

  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read() const { return file_text(path_); }
  /// Loading must fail with a sentence that holds both the path and `part`.
  void expect_refused(const std::string& bytes, const std::string& part) {
    write(bytes);
    try {
      load_safetensors(path_);
      ADD_FAILURE() << "accepted, but should complain of: " << part;
    } catch (const DataError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).rfind(path_, 0), 0u) << e.what();
    }
  }
};

TEST(StateDict, KeepsTheOrderOfInsertionAndReplacesInPlace) {
  StateDict s;
  s.set("z", Tensor::of({1}, {1}));
  s.set("a", Tensor::of({1}, {2}));
  s.set("z", Tensor::of({1}, {3}));
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s.begin()->first, "z");
  EXPECT_EQ(s.at("z").item(), 3);
  EXPECT_EQ(s.find("b"), nullptr);
  EXPECT_THROW(s.set("", Tensor::of({1}, {1})), DataError);
  EXPECT_THROW(s.set("__metadata__", Tensor::of({1}, {1})), DataError);
}

TEST(StateDict, NamesTheNearestTensorWhenOneIsMissing) {
  StateDict s;
  s.set("conv1.weight", Tensor::of({1}, {1}));
  try {
    s.at("conv2.weight");
    FAIL();
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("'conv1.weight'"), std::string::npos) << e.what();
  }
}

TEST(StateDict, APartIsWhatWasMergedUnderAPrefix) {
  StateDict inner, all;
  inner.set("momentum", Tensor::of({2}, {1, 2}));
  inner.set_text("kind", "sgd");
  all.set("model.w", Tensor::of({1}, {5}));
  all.merge(inner, "optimizer.");
  EXPECT_EQ(all.at("optimizer.momentum").to_vector(), (std::vector<float>{1, 2}));
  const StateDict back = all.part("optimizer.");
  EXPECT_EQ(back.size(), 1u);
  EXPECT_EQ(back.at("momentum").to_vector(), (std::vector<float>{1, 2}));
  EXPECT_EQ(back.text("kind"), "sgd");
  EXPECT_THROW(back.text("lr"), DataError);
}

TEST_F(Safetensors, WritesTheseBytes) {
  StateDict s;
  s.set("w", Tensor::of({1, 2}, {1.0f, -2.0f}));
  s.set("u", bytes_tensor({7, 8, 9}));
  s.set_text("by", "me");
  save_safetensors(s, path_);
  std::string header = R"({"__metadata__":{"by":"me"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                       R"("u":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  while (header.size() % 8) header += ' ';
  std::string expected = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  expected += header;
  expected += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x07\x08\x09", 11);
  EXPECT_EQ(read(), expected);
}

TEST_F(Safetensors, ReadsTheseBytesWhateverTheOrderOfTheHeader) {
  const std::string header =
      R"({"b":{"dtype":"I64","shape":[],"data_offsets":[4,12]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::uint64_t n = header.size();
  write(std::string(reinterpret_cast<const char*>(&n), 8) + header + std::string("\x00\x00\x00\x3f", 4) +
        std::string("\x2a\0\0\0\0\0\0\0", 8));
  const StateDict s = load_safetensors(path_);
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s.at("a").item(), 0.5f);
  EXPECT_EQ(s.at("b").rank(), 0);
  EXPECT_EQ(*s.at("b").data<std::int64_t>(), 42);
}

TEST_F(Safetensors, GivesBackEveryDtypeShapeAndText) {
  StateDict s;
  std::vector<float> values(2 * 3 * 4);
  std::iota(values.begin(), values.end(), -3.5f);
  s.set("f", Tensor::of({2, 3, 4}, std::span<const float>(values)));
  s.set("empty", Tensor::empty({0, 5}));
  Tensor i = Tensor::empty({2}, DType::i32);
  i.data<std::int32_t>()[0] = -1, i.data<std::int32_t>()[1] = 1 << 30;
  s.set("i", i);
  const std::int64_t big[] = {std::int64_t{1} << 60};
  s.set("l", Tensor::of({1}, std::span<const std::int64_t>(big)));
  s.set("weights of \"é\"", bytes_tensor({255}));
  s.set_text("step", "12\n");
  save_safetensors(s, path_);
  const StateDict back = load_safetensors(path_);
  ASSERT_EQ(back.size(), s.size());
  EXPECT_EQ(back.at("f").to_vector(), values);
  EXPECT_EQ(back.at("f").shape(), Shape({2, 3, 4}));
  EXPECT_EQ(back.at("empty").shape(), Shape({0, 5}));
  EXPECT_EQ(back.at("i").data<std::int32_t>()[1], 1 << 30);
  EXPECT_EQ(*back.at("l").data<std::int64_t>(), std::int64_t{1} << 60);
  EXPECT_EQ(*back.at("weights of \"é\"").data<std::uint8_t>(), 255);
  EXPECT_EQ(back.text("step"), "12\n");
  EXPECT_EQ(back.begin()->first, "f");
}

TEST_F(Safetensors, TakesValuesFromADeviceAndGivesThemBack) {
  NEEDS_CUDA();
  const Tensor f = Tensor::of({2, 2}, {1, 2, 3, 4}), l = Tensor::of({1}, std::vector<std::int64_t>{1 << 20});
  StateDict s;
  s.set("f", copied(f, kCuda));
  s.set("l", copied(l, kCuda));
  save_safetensors(s, path_);
  const StateDict back = load_safetensors(path_);
  EXPECT_EQ(back.at("f").to_vector(), f.to_vector());
  EXPECT_EQ(back.at("l").to_vector(), l.to_vector());
  const Tensor there = Tensor::empty({2, 2}, DType::f32, kCuda);
  there.copy_from(back.at("f"));
  EXPECT_EQ(there.to_vector(), f.to_vector());
}

TEST_F(Safetensors, AnEmptyStateIsAFileToo) {
  save_safetensors({}, path_);
  EXPECT_TRUE(load_safetensors(path_).empty());
}

TEST_F(Safetensors, WritesMemoryOfTheTrapDevice) {
  StateDict s;
  s.set("w", Tensor::of({2}, {3, 4}, kTrap));
  save_safetensors(s, path_);
  EXPECT_EQ(load_safetensors(path_).at("w").to_vector(), (std::vector<float>{3, 4}));
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  StateDict s;
  s.set("w", Tensor::of({3}, {1, 2, 3}));
  save_safetensors(s, path_);
  const std::string whole = read();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_THROW(load_safetensors(path_), DataError) << n << " of " << whole.size() << " bytes";
  }
}

TEST_F(Safetensors, SurvivesEveryChangedByteOfTheHeader) {
  StateDict s;
  s.set("w", Tensor::of({3}, {1, 2, 3}));
  s.set("v", bytes_tensor({1, 2}));
  save_safetensors(s, path_);
  const std::string whole = read();
  for (std::size_t i = 0; i < whole.size() - 14; ++i)
    for (int change : {1, 4, 0x80}) {
      std::string bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ change);
      write(bad);
      try {
        load_safetensors(path_);  // some changes only rename
      } catch (const DataError&) {
      }
    }
}

TEST_F(Safetensors, RefusesHostileHeaders) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string f = "\"F32\"";
  expect_refused(file_of("{}", 0, std::uint64_t{1} << 63), "says its header has 9223372036854775808");
  expect_refused(file_of("{}", 0, 3), "says its header has 3");
  expect_refused(file_of("{", 0), "not JSON");
  expect_refused(file_of("[1]", 0), "not a JSON object");
  expect_refused(file_of(std::string(100000, '['), 0), "nested too deeply");
  expect_refused(file_of("{\"w\":\"\xff\"}", 0), "not JSON");
  expect_refused(file_of("{}", 3), "last 3 bytes");
  expect_refused(file_of(R"({"w":3})", 0), "'w' is not described");
  expect_refused(file_of(R"({"w":{"dtype":"F32","shape":[1]}})", 4), "no \"data_offsets\"");
  expect_refused(file_of(one("3", "[1]", "[0,4]"), 4), "\"dtype\" is not a string");
  expect_refused(file_of(one("\"F16\"", "[2]", "[0,4]"), 4), "F16");
  expect_refused(file_of(one(f, "1", "[0,4]"), 4), "\"shape\"");
  expect_refused(file_of(one(f, "[-1]", "[0,4]"), 4), "-1");
  expect_refused(file_of(one(f, "[1.0]", "[0,4]"), 4), "1.0");
  expect_refused(file_of(one(f, "[1,1,1,1,1,1,1]", "[0,4]"), 4), "at most 6");
  expect_refused(file_of(one(f, "[1]", "[4,0]"), 4), "[4, 0)");
  expect_refused(file_of(one(f, "[1]", "[-4,0]"), 4), "-4");
  expect_refused(file_of(one(f, "[1]", "[0,4,8]"), 4), "not a pair");
  expect_refused(file_of(one(f, "[2]", "[0,8]"), 4), "holds 4 bytes");
  expect_refused(file_of(one(f, "[2]", "[0,4]"), 4), "does not fill");
  expect_refused(file_of(one(f, "[4611686018427387904,4]", "[0,0]"), 0), "does not fill");  // 2^64 bytes
  expect_refused(file_of(one(f, "[0,18446744073709551615]", "[0,0]"), 0), "does not fill");
  const std::string v = R"("v":{"dtype":"F32","shape":[1],"data_offsets":)";
  const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":)";
  expect_refused(file_of("{" + v + "[0,4]}," + w + "[2,6]}}", 6), "overlaps");
  expect_refused(file_of("{" + v + "[0,4]}," + w + "[0,4]}}", 4), "overlaps");
  expect_refused(file_of("{" + v + "[0,4]}," + w + "[8,12]}}", 12), "4 bytes before 'w'");
  expect_refused(file_of("{" + v + "[0,4]}," + v + "[4,8]}}", 8), "'v' twice");
  expect_refused(file_of(R"({"__metadata__":[]})", 0), "__metadata__");
  expect_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "'a'");
  expect_refused(file_of(R"({"":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0), "no name");
}

TEST_F(Safetensors, SaysWhatIsWrongWithThePath) {
  EXPECT_THROW(load_safetensors(path_), DataError);
  EXPECT_THROW(load_safetensors(dir_.path()), DataError);
  EXPECT_THROW(save_safetensors({}, dir_.path() + "/no/such/place"), DataError);
  EXPECT_THROW(save_safetensors({}, dir_.path()), DataError);  // a directory stands there
}

TEST_F(Safetensors, ANameThatIsNotUtf8IsRefusedAndNothingWritten) {
  StateDict s;
  s.set("\xff", Tensor::of({1}, {1}));
  EXPECT_THROW(save_safetensors(s, path_), DataError);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(Safetensors, ADiskThatFillsUpLeavesTheOldFileAndNoOther) {
  StateDict s;
  s.set("w", Tensor::of({1}, {1}));
  save_safetensors(s, path_);
  const std::string before = read();
  s.set("w", Tensor::zeros({1 << 20}));
  // A limit on the size of files fails in the same place as a full disk.
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(save_safetensors(s, path_), DataError);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST(AtomicFile, IsNotThereBeforeCommitAndGoneWithoutIt) {
  TempFolder dir;
  const std::string path = dir.path() + "/f";
  {
    AtomicFile file(path);
    file.write("abc");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  AtomicFile file(path);
  file.write("abc");
  file.commit();
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
}

/// A device like /dev/null (3) or /dev/full (7). Root gets one of its own, which a defect may replace; others cannot
/// hurt the system's.
std::string device(const TempFolder& dir, unsigned minor) {
  const std::string name = minor == 3 ? "/null" : "/full", own = dir.path() + name;
  return ::mknod(own.c_str(), S_IFCHR | 0600, makedev(1, minor)) == 0 ? own : ::geteuid() != 0 ? "/dev" + name : "";
}

TEST(AtomicFile, WritesDevicesAndPipesInPlace) {
  TempFolder dir;
  const std::string null = device(dir, 3), full = device(dir, 7);
  if (!null.empty() && !full.empty()) {
    AtomicFile nothing(null);
    nothing.write("abc");
    nothing.commit();
    EXPECT_TRUE(std::filesystem::is_character_file(null));
    EXPECT_THROW(AtomicFile(full).write("abc"), DataError);
    EXPECT_TRUE(std::filesystem::is_character_file(full));
  }
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(AtomicFile(pipe).write("abc"), DataError);  // nobody reads it
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  {
    AtomicFile file(pipe);
    file.write("abc");
    file.commit();
  }
  char read[4] = {};
  EXPECT_EQ(::read(reader, read, sizeof read), 3);
  EXPECT_STREQ(read, "abc");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THROW(AtomicFile(dir.path()), DataError);
}

TEST(AtomicFile, LinksStayLinks) {
  TempFolder dir;
  std::filesystem::create_directory(dir.path() + "/far");
  for (const char* target : {"far/there", "far/later"}) {
    const std::string link = dir.path() + "/link", behind = dir.path() + "/" + target;
    std::filesystem::remove(link);
    if (std::string(target) == "far/there") std::ofstream(behind) << "old";
    std::filesystem::create_symlink(target, link);
    AtomicFile file(link);
    file.write("new");
    file.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    std::string text;
    std::ifstream(behind) >> text;
    EXPECT_EQ(text, "new");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path() + "/far"), {}), 2);
}

TEST(AtomicFile, KnowsTheSumOfWhatItWrote) {
  TempFolder dir;
  const std::string path = dir.path() + "/f";
  AtomicFile file(path);
  file.write("123456789");
  file.commit();
  EXPECT_EQ(file.sum().text(), "9 cbf43926");  // the check value of CRC-32
  EXPECT_EQ(sum_of_file(path), file.sum());
  EXPECT_EQ(FileSum::parse("9 cbf43926"), file.sum());
  for (const char* text : {"", "9", "9 ", "9 xyz", "x cbf43926", "9 cbf43926 ", "9 1cbf43926"})
    EXPECT_THROW(FileSum::parse(text), DataError) << text;
}

TEST(AtomicFile, SweepsItsOwnLeftoversAlone) {
  TempFolder dir;
  for (const char* name : {"f", "f.1.2.tmp", "f.1.tmp", "f.1.2.tmp.bak", "f.a.2.tmp", "ff.1.2.tmp", "f..2.tmp"})
    std::ofstream(dir.path() + "/" + name) << "";
  AtomicFile::sweep(dir.path(), "f");
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/f.1.2.tmp"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 6);
}

class RequireMatch : public ::testing::Test {
 protected:
  const std::vector<ExpectedTensor> expected_ = {{"fc.weight", {2, 3}}, {"fc.bias", {2}}};
  StateDict found_;
  void SetUp() override {
    found_.set("fc.bias", Tensor::zeros({2}));
    found_.set("fc.weight", Tensor::zeros({2, 3}));
  }
  void expect_refused(const std::string& part) {
    try {
      require_match(expected_, found_, "w.safetensors", "lenet");
      ADD_FAILURE() << "accepted, but should complain of: " << part;
    } catch (const DataError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
};

TEST_F(RequireMatch, AcceptsTheSameTensorsInAnyOrder) {
  EXPECT_NO_THROW(require_match(expected_, found_, "w", "lenet"));
  const std::int64_t zero[] = {0};
  found_.set("bn.num_batches_tracked", Tensor::of({}, std::span<const std::int64_t>(zero)));
  EXPECT_NO_THROW(require_match(expected_, found_, "w", "lenet"));
}
TEST_F(RequireMatch, NamesBothShapes) {
  found_.set("fc.weight", Tensor::zeros({3, 2}));
  expect_refused("w.safetensors: 'fc.weight' is [3, 2] in the file but lenet expects [2, 3]");
}
TEST_F(RequireMatch, NamesBothDtypes) {
  found_.set("fc.bias", Tensor::zeros({2}, DType::i64));
  expect_refused("'fc.bias' is int64 in the file but lenet expects float32");
}
TEST_F(RequireMatch, NamesWhatIsNotExpected) {
  found_.set("fc2.bias", Tensor::zeros({2}));
  expect_refused("'fc2.bias' [2] is in the file but lenet has nothing of that name");
}
TEST_F(RequireMatch, NamesWhatIsMissingAndWhatIsNear) {
  StateDict other;
  other.set("fc.weights", Tensor::zeros({2, 3}));
  found_ = other;
  expect_refused("'fc.weight' [2, 3] of lenet is not in the file. The nearest name there is 'fc.weights'");
}

}  // namespace
}  // namespace laconic
