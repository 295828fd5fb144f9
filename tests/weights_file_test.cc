#include "core/weights_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "core/base/parallel.h"
#include "core/foreign_file.h"
#include "core/state.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using namespace std::string_literals;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string file_with(const std::string& header, const std::string& data) {
  const std::uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

/// A file with one tensor "w" of one dimension.
std::string file_of_one(const std::string& type, std::size_t elements, const std::string& data) {
  return file_with(
      concat(R"({"w":{"dtype":")", type, R"(","shape":[)", elements, R"(],"data_offsets":[0,)", data.size(), "]}}"),
      data);
}

class Weights : public ::testing::Test {
 protected:
  TempFolder dir_;

  std::string write(const std::string& name, const std::string& bytes) {
    dir_.write(name, {bytes.begin(), bytes.end()});
    return dir_ / name;
  }
  std::string save(const std::string& name, const std::vector<std::pair<std::string, std::vector<float>>>& tensors,
                   const std::map<std::string, std::string>& texts = {}) {
    StateDict state;
    for (const auto& [tensor, values] : tensors)
      state.set(tensor, Tensor::of({static_cast<std::int64_t>(values.size())}, std::span<const float>(values)));
    for (const auto& [key, text] : texts) state.set_text(key, text);
    save_safetensors(state, dir_ / name);
    return dir_ / name;
  }
  std::vector<float> read(const std::string& path, const std::string& name) {
    return WeightsFile(path).read_as(name, DType::f32).to_vector();
  }
  template <class T>
  std::vector<float> widened(const std::string& type, const std::vector<T>& elements) {
    return read(write("w", file_of_one(type, elements.size(), bytes_of(elements))), "w");
  }
  template <class T>
  std::vector<std::int64_t> whole(const std::string& type, const std::vector<T>& elements) {
    const Tensor x =
        WeightsFile(write("w", file_of_one(type, elements.size(), bytes_of(elements)))).read_as("w", DType::i64);
    return {x.data<std::int64_t>(), x.data<std::int64_t>() + x.elements()};
  }
  void expect_refused(const std::string& path, std::initializer_list<std::string> parts) {
    expect_error<DataError>([&] { WeightsFile file(path); }, parts);
  }
};

/// A number of 1 + exponent + mantissa bits by its definition (IEEE 754, 3.4).
double defined(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, all = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & all;
  const double fraction = static_cast<double>(bits & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (exponent == all) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return exponent == 0 ? sign * std::pow(2, 1 - bias) * fraction : sign * std::pow(2, exponent - bias) * (1 + fraction);
}

TEST_F(Weights, EveryHalfIsItsValue) {
  std::vector<std::uint16_t> all(65536);
  for (unsigned i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> values = widened("F16", all);
  for (unsigned i = 0; i < 65536; ++i) {
    const double expected = defined(i, 5, 10);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(values[i])) << i;
    else
      ASSERT_EQ(values[i], expected) << i;
    ASSERT_EQ(std::signbit(values[i]), i >= 32768) << i;
  }
}

TEST_F(Weights, EveryNumberOf8BitsIsItsValue) {
  std::vector<std::uint8_t> all(256);
  for (unsigned i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(i);
  const std::vector<float> e5m2 = widened("F8_E5M2", all), e4m3 = widened("F8_E4M3", all);
  for (unsigned i = 0; i < 256; ++i) {
    const double of_5 = defined(i, 5, 2);
    EXPECT_TRUE(std::isnan(of_5) ? std::isnan(e5m2[i]) : e5m2[i] == of_5) << i;
    // Without infinities its largest exponent holds numbers, up to 448 (Micikevicius et al. 2022, Table 1).
    const double of_4 = (i & 0x7f) >= 0x78 ? (i & 0x80 ? -1 : 1) * 256 * (1 + (i & 7) / 8.0) : defined(i, 4, 3);
    EXPECT_TRUE((i & 0x7f) == 0x7f ? std::isnan(e4m3[i]) : e4m3[i] == of_4) << i;
  }
  EXPECT_EQ(e4m3[0x7e], 448);
  EXPECT_EQ(e5m2[0x7b], 57344);
}

TEST_F(Weights, OtherFloatsAreWidenedOrRounded) {
  EXPECT_EQ(widened("BF16", std::vector<std::uint16_t>{0x3f80, 0xc000, 0x0001}),
            (std::vector<float>{1, -2, std::bit_cast<float>(0x10000u)}));
  constexpr double kMost = std::numeric_limits<float>::max();
  const std::vector<float> rounded =
      widened("F64", std::vector<double>{0.1, -kMost, 0x1.fffffeffp127, HUGE_VAL, 1e-60});
  EXPECT_EQ(rounded, (std::vector<float>{0.1f, -static_cast<float>(kMost), static_cast<float>(kMost), HUGE_VALF, 0}));
}

TEST_F(Weights, AnElementThatDoesNotFitIsNamed) {
  std::vector<double> values(600'000, 1);
  values[300'000] = -0x1.ffffffp127, values[500'000] = 1e300;  // in other pieces
  set_kernel_threads(2);
  expect_error<DataError>([&] { widened("F64", values); }, {"element 300000 of 'w' is more than float32 can hold"});
  set_kernel_threads(1);
  expect_error<DataError>(
      [&] {
        whole("U64", std::vector<std::uint64_t>{1, std::uint64_t{1} << 63});
      },
      {"element 1 of 'w' is more than int64"});
}

TEST_F(Weights, WholeNumbersOfAllTypesAreTaken) {
  EXPECT_EQ(whole("BOOL", std::vector<std::uint8_t>{0, 1}), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(whole("I8", std::vector<std::int8_t>{-128, 7}), (std::vector<std::int64_t>{-128, 7}));
  EXPECT_EQ(whole("U8", std::vector<std::uint8_t>{255}), (std::vector<std::int64_t>{255}));
  EXPECT_EQ(whole("I16", std::vector<std::int16_t>{-300}), (std::vector<std::int64_t>{-300}));
  EXPECT_EQ(whole("U16", std::vector<std::uint16_t>{65535}), (std::vector<std::int64_t>{65535}));
  EXPECT_EQ(whole("I32", std::vector<std::int32_t>{-70000}), (std::vector<std::int64_t>{-70000}));
  EXPECT_EQ(whole("U32", std::vector<std::uint32_t>{4'000'000'000u}), (std::vector<std::int64_t>{4'000'000'000}));
  EXPECT_EQ(whole("I64", std::vector<std::int64_t>{-1}), (std::vector<std::int64_t>{-1}));
}

TEST_F(Weights, ATypeIsRefusedWhereItIsNeededAlone) {
  for (const char* type : {"I8", "F8_E8M0", "F4"}) {
    const WeightsFile file(write("w", file_of_one(type, 2, "ab")));
    expect_error<DataError>([&] { file.read_as("w", DType::f32); }, {concat("'w' is ", type), "Quantised"});
  }
  const WeightsFile deep(
      write("w", file_with(R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "\0\0\0\0"s)));
  expect_error<DataError>([&] { deep.read_as("w", DType::f32); }, {"has 7 dimensions", "at most 6"});
}

TEST_F(Weights, NoMetadataMayBeWrittenAsNull) {
  const std::string path = write(
      "w",
      file_with(R"({"__metadata__":null,"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", bytes_of<float>({5})));
  EXPECT_EQ(read(path, "w"), std::vector<float>{5});
  EXPECT_EQ(load_safetensors(path).at("w").item(), 5);
}

TEST_F(Weights, ShardsAreReadThroughTheirIndexOrItsFolder) {
  save("a-1.safetensors", {{"x", {1, 2}}}, {{"format", "pt"}});
  save("a-2.safetensors", {{"y", {3}}}, {{"format", "pt"}});
  const std::string index =
      write("model.safetensors.index.json",
            R"({"metadata":{"total_size":12},"weight_map":{"x":"a-1.safetensors","y":"a-2.safetensors"}})");
  for (const std::string& path : {index, dir_.path()}) {
    EXPECT_EQ(read(path, "x"), (std::vector<float>{1, 2}));
    EXPECT_EQ(read(path, "y"), std::vector<float>{3});
    EXPECT_EQ(WeightsFile(path).entries().size(), 2u);
  }
}

TEST_F(Weights, AnIndexThatCannotBeFollowedIsRefused) {
  save("a", {{"x", {1}}});
  save("b", {{"x", {2}}, {"y", {3}}});
  const auto index = [&](const std::string& map) { return write("i.json", R"({"weight_map":)" + map + "}"); };
  expect_refused(index(R"({"x":"a","z":"c"})"), {"i.json names c, which is not beside it"});
  expect_refused(index(R"({"x":"a","q":"a"})"), {"says that 'q' is in a, and it is not"});
  expect_refused(index(R"({"x":"a","y":"b"})"), {"'x' is in ", "/a and in ", "/b"});
  expect_refused(index(R"({"x":"a","x":"b"})"), {"has 'x' twice"});
  expect_refused(index(R"({"x":"../a"})"), {"\"../a\", which is no file beside the index"});
  expect_refused(index(R"({"x":3})"), {"'x' is in 3"});
  expect_refused(index("{}"), {"no index of weights"});
  expect_refused(index("[]"), {"no index of weights"});
  expect_refused(write("i.json", "{\"n_layer\": 12}"), {"no index of weights"});
  expect_refused(write("i.json", "{\"weight_map\": "), {"is not JSON"});
}

TEST_F(Weights, AFolderHasOneFileOfWeights) {
  std::filesystem::create_directory(dir_ / "none");
  expect_refused(dir_ / "none", {"none has no model.safetensors", "no other safetensors file"});
  save("one.safetensors", {{"x", {1}}});
  EXPECT_EQ(read(dir_.path(), "x"), std::vector<float>{1});
  save("two.safetensors", {{"x", {2}}});
  expect_refused(dir_.path(), {"several other safetensors files"});
  save("weights.safetensors", {{"x", {3}}});
  EXPECT_EQ(read(dir_.path(), "x"), std::vector<float>{3});
  save("model.safetensors", {{"x", {4}}});
  EXPECT_EQ(read(dir_.path(), "x"), std::vector<float>{4});
}

TEST_F(Weights, ATensorMayHaveAnotherName) {
  const std::string path = save("w", {{"head", {1, 2}}}, {{"tail", "head"}, {"format", "pt"}});
  EXPECT_EQ(read(path, "tail"), (std::vector<float>{1, 2}));
  EXPECT_TRUE(WeightsFile(path).entries().at("tail").again);
  EXPECT_EQ(WeightsFile(path).entries().size(), 2u);
  EXPECT_EQ(read(save("w", {{"head", {1}}, {"tail", {1}}}, {{"tail", "head"}}), "tail"), std::vector<float>{1});
  expect_refused(save("w", {{"head", {1}}, {"tail", {2}}}, {{"tail", "head"}}),
                 {"says that 'tail' is 'head'", "other numbers under both names"});
}

TEST_F(Weights, FilesOfOtherFormatsAreNamedWithWhatConvertsThem) {
  const auto zip = [](const std::string& name) {
    std::string head(30, '\0');
    head.replace(0, 4, "PK\3\4"), head[26] = static_cast<char>(name.size());
    return head + name + std::string(300, 'x');
  };
  const std::string path = dir_ / "it's.bin";
  const auto said = [&](const std::string& bytes) { return about_foreign_file(write("it's.bin", bytes)); };
  EXPECT_TRUE(said(zip("archive/data.pkl")).starts_with(path + " is a file of PyTorch"));
  EXPECT_NE(said(zip("archive/data.pkl")).find("it'\\''s.bin' '" + dir_.path() + "/it'\\''s.safetensors'"),
            std::string::npos)
      << said(zip("archive/data.pkl"));
  EXPECT_NE(said(zip("w.npy")).find("numpy.load"), std::string::npos);
  EXPECT_NE(said(zip("readme.txt")).find("zip archive. Unpack it"), std::string::npos);
  EXPECT_NE(said("\x80\x02}q").find("torch.load"), std::string::npos);
  EXPECT_NE(said("GGUF\3" + std::string(100, '\0')).find("gguf_file"), std::string::npos);
  EXPECT_NE(said("\x89HDF\r\n\x1a\n").find("h5py"), std::string::npos);
  EXPECT_NE(said("\x93NUMPY\1").find("array of NumPy"), std::string::npos);
  EXPECT_NE(said("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("git lfs pull"), std::string::npos);
  EXPECT_NE(said("\n<!DOCTYPE html>").find("page of the web"), std::string::npos);
  for (const std::string& bytes : {""s, "P"s, "laconic"s, file_of_one("F32", 1, "abcd")}) EXPECT_EQ(said(bytes), "");
  expect_refused(write("w.pth", zip("w/data.pkl")), {"w.pth is a file of PyTorch"});
}

TEST_F(Weights, AHeaderWhoseLengthSpellsAnotherFormatIsRead) {
  // 0x3c bytes: '<'.
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize('<', ' ');
  EXPECT_EQ(read(write("w", file_with(header, bytes_of<float>({7}))), "w"), std::vector<float>{7});
  header.resize('{', ' ');
  EXPECT_EQ(read(write("w", file_with(header, bytes_of<float>({8}))), "w"), std::vector<float>{8});
}

}  // namespace
}  // namespace laconic
