// Arrays that NumPy and MLX saved, as .npy and as .npz (tests/golden/arrays.py), and files that are nothing good.
#include "data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "core/base/half.h"
#include "data/npz.h"
#include "tests/error_of.h"
#include "tests/fuzz.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using testing::ElementsAre;

std::string golden_array(const std::string& name) {
  return std::string(LACONIC_SOURCE) + "/tests/golden/arrays/" + name;
}

/// As numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& values,
                const std::string& fortran = "False", int version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  std::string file = "\x93NUMPY" + std::string{static_cast<char>(version), 0};
  file += static_cast<char>(header.size() % 256), file += static_cast<char>(header.size() / 256);
  if (version > 1) file += std::string(2, 0);
  return file + header + values;
}
template <class T>
std::string octets_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
Tensor read_back(const std::string& file) { return npy_of(std::as_bytes(std::span(file)), "x.npy"); }

/// One line of expected.txt.
void expect_array(const std::string& line) {
  SCOPED_TRACE(line);
  const std::size_t name_end = std::min(line.find(" float32 "), line.find(" int64 "));
  const std::string name = line.substr(0, name_end);
  std::istringstream rest(line.substr(name_end));
  std::string type, extents, value;
  rest >> type >> extents;
  const auto colon = name.find(':');
  const Tensor x = colon == std::string::npos
                       ? read_npy(golden_array(name))
                       : NpzFile(golden_array(name.substr(0, colon))).read(name.substr(colon + 1));
  EXPECT_EQ(to_string(x.dtype()), type);
  std::vector<std::int64_t> dims;
  std::istringstream shape(extents == "-" ? "" : extents);
  for (std::string extent; std::getline(shape, extent, 'x');) dims.push_back(std::stoll(extent));
  ASSERT_EQ(x.shape(), Shape(std::span<const std::int64_t>(dims)));
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    ASSERT_TRUE(rest >> value);
    if (x.dtype() == DType::i64) {
      EXPECT_EQ(x.data<std::int64_t>()[i], std::stoll(value));
    } else {
      const float expected = std::strtof(value.c_str(), nullptr), got = x.data<float>()[i];
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << got;
      EXPECT_EQ(std::signbit(got), std::signbit(expected)) << got;
    }
  }
}

TEST(Npy, ReadsWhatNumPyAndMlxSave) {
  std::istringstream lines(file_text(golden_array("expected.txt")));
  int arrays = 0;
  for (std::string line; std::getline(lines, line); ++arrays) expect_array(line);
  EXPECT_EQ(arrays, 42);
}

TEST(Npy, AHeaderSaysWhatIsThere) {
  const TempFolder dir;
  const auto header = [&](const std::string& file) {
    dir.write("x.npy", {file.begin(), file.end()});
    return read_npy_header(RandomAccessFile(dir / "x.npy"), "x.npy");
  };
  const NpyHeader tokens = header(npy("<u2", "(3,)", "abcdef"));
  EXPECT_EQ(tokens.dtype, "<u2");
  EXPECT_EQ(tokens.data_offset, 128u);
  EXPECT_EQ(tokens.elements(), 3);
  EXPECT_EQ(tokens.bytes_of_element(), 2u);
  EXPECT_THAT(tokens.shape, ElementsAre(3));
  EXPECT_EQ(header(npy("<u1", "(3,)", "abc")).dtype, "|u1");
  EXPECT_TRUE(header(npy("|u1", "(3, 2)", "abcdef", "True")).fortran);
  for (const char* shape : {"(6,)", "(6, )", "(1, 6)", "(1, 6, 1)"}) {
    EXPECT_FALSE(header(npy("|u1", shape, "abcdef", "True")).fortran) << shape;
  }
  EXPECT_FALSE(header(npy("|u1", "()", "a", "True")).fortran);
  EXPECT_FALSE(header(npy("|u1", "(0, 3)", "", "True")).fortran);
  EXPECT_EQ(header(npy(">c8", "(1,)", "abcdefgh")).dtype, ">c8");
}

TEST(Npy, ReadsHeadersOfOtherWriters) {
  const auto file = [](const std::string& text) {
    return "\x93NUMPY\x01" + std::string{0, static_cast<char>(text.size()), 0} + text + "abcd";
  };
  for (const char* text : {"{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"|u1\"}",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 2L), }",  // Python 2
                           " { 'descr' : '|u1' , 'shape' : ( 2 , 2 , ) , 'fortran_order' : False , } \n"}) {
    EXPECT_EQ(read_back(file(text)).shape(), (Shape{2, 2})) << text;
    EXPECT_THAT(read_back(file(text)).to_vector(), ElementsAre('a', 'b', 'c', 'd')) << text;
  }
}

TEST(Npy, AnArrayMayHaveNoElements) {
  for (const char* type : {"<f4", ">f4", "<f2", "|u1"}) {
    EXPECT_EQ(read_back(npy(type, "(0, 3)", "", "True")).shape(), (Shape{0, 3})) << type;
  }
}

TEST(Npy, EveryHalfIsItsValue) {
  for (int h = 0; h < 0x10000; ++h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const float magnitude = e == 31  ? (m == 0 ? INFINITY : NAN)
                            : e == 0 ? std::ldexp(static_cast<float>(m), -24)
                                     : std::ldexp(static_cast<float>(1024 + m), e - 25);
    const float value = float_of(static_cast<std::uint16_t>(h));
    ASSERT_EQ(std::isnan(value), std::isnan(magnitude)) << h;
    ASSERT_EQ(std::signbit(value), h >> 15 != 0) << h;
    ASSERT_TRUE(std::isnan(value) || std::abs(value) == magnitude) << h;
  }
}

TEST(Npy, FortransOrderHasTheFirstIndexFastest) {
  fuzz(60, [](Random& random) {
    std::vector<std::int64_t> extents;
    std::string shape = "(";
    std::int64_t elements = 1;
    for (std::uint32_t rank = 1 + random.below(5); rank > 0; --rank) {
      extents.push_back(1 + random.below(4));
      shape += std::to_string(extents.back()) + ",";
      elements *= extents.back();
    }
    std::vector<std::int32_t> values;
    for (std::int32_t i = 0; i < elements; ++i) values.push_back(i);
    const Tensor x = read_back(npy("<i4", shape + ")", octets_of(values), "True"));
    ASSERT_EQ(x.shape(), Shape(std::span<const std::int64_t>(extents)));
    for (std::int64_t i = 0; i < elements; ++i) {
      std::int64_t place = 0, rest = i, stride = elements;
      for (std::size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
        stride /= extents[d];
        place += rest % extents[d] * stride;
      }
      ASSERT_EQ(x.data<std::int64_t>()[i], place) << shape << " " << i;
    }
  });
}

TEST(Npy, SaysWhatIsWrong) {
  const std::string two = octets_of<float>({1, 2});
  expect_error<DataError>([] { read_back("no numbers here"); }, {"x.npy is no .npy file."});
  expect_error<DataError>([] { read_back(""); }, {"x.npy is no .npy file."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(2,)", two, "False", 4)); }, {"x.npy is no .npy file."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(2,)", two).substr(0, 50)); }, {"x.npy is cut in its header."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(3,)", two)); },
                          {"x.npy has 8 bytes of values, but 3 of 4 bytes each are promised."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(-2,)", two)); }, {"its shape (-2,) is none."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(4294967296, 4294967296)", two)); }, {"is none."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(1,1,1,1,1,1,2)", two)); }, {"more than 6 dimensions"});
  expect_error<DataError>([&] { read_back(npy("<f4", "2", two)); }, {"its header has no '('"});
  expect_error<DataError>([&] { read_back(npy("<f4", "(2,)", two, "Maybe")); }, {"'Maybe', neither True nor False"});
  expect_error<DataError>([&] { read_back(npy("<c8", "(1,)", two)); }, {"x.npy has the type '<c8', not one of f2"});
  expect_error<DataError>([&] { read_back(npy("<V2", "(4,)", two)); },
                          {"'<V2', bytes that say no number (bfloat16 is saved so). Save x.astype('f4')."});
  expect_error<DataError>([&] { read_back(npy("<U2", "(1,)", two)); }, {"has the type '<U2', which is no number"});
  expect_error<DataError>([&] { read_back(npy("|O", "(1,)", two)); }, {"holds objects of Python"});
  expect_error<DataError>([&] { read_back(npy("<f4', 'descr': '<f4", "(2,)", two)); }, {"says 'descr' twice"});
  std::string columns = npy("<f4", "(1,)", two);
  columns.replace(columns.find("'<f4'"), 5, "[('a', '<f4'), ('b', '<f4')]");
  columns.erase(columns.size() - two.size() - 24, 23);
  expect_error<DataError>([&] { read_back(columns); }, {"has several values an element, [('a', '<f4'), ('b'"});
  std::string other = npy("<f4", "(2,)", two);
  other.replace(other.find("shape"), 5, "form_");
  expect_error<DataError>([&] { read_back(other); }, {"its header says 'form_', which no .npy file has."});
}

TEST(Npy, RefusesNumbersThatHaveNoPlace) {
  expect_error<DataError>(
      [] {
        read_back(npy("<f8", "(2,)", octets_of<double>({1, -0x1.ffffffp127})));
      },
      {"x.npy: element 1 is beyond float32."});
  expect_error<DataError>(
      [] {
        read_back(npy("<u8", "(2,)", octets_of<std::uint64_t>({1ull << 63, 0})));
      },
      {"x.npy: element 0 is beyond int64."});
  EXPECT_THAT(read_back(npy("<f8", "(1,)", octets_of<double>({0x1.fffffefffffffp127}))).to_vector(),
              ElementsAre(0x1.fffffep127f));
}

std::vector<std::byte> as_message(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

TEST(Npy, DamagedFilesAreReadOrRefused) {
  const std::string good = npy("<f4", "(2, 2)", octets_of<float>({1, 2, 3, 4}), "True");
  fuzz(400, [&](Random& random) {
    try {
      npy_of(damaged(as_message(good), random), "x.npy");
    } catch (const DataError&) {
    }
  });
}

/// A .npz file of these bytes.
class Npz : public testing::Test {
 protected:
  NpzFile of(const std::string& file) const {
    dir_.write("x.npz", {file.begin(), file.end()});
    return NpzFile(dir_ / "x.npz");
  }
  /// few.npz with `bytes` in place of those at `at`, counted from its end if `at` is negative.
  std::string with(std::ptrdiff_t at, const std::string& bytes) const {
    std::string file = few_;
    return file.replace(at < 0 ? file.size() - static_cast<std::size_t>(-at) : static_cast<std::size_t>(at),
                        bytes.size(), bytes);
  }

  TempFolder dir_;
  std::string few_ = file_text(golden_array("streamed.npz"));
  std::ptrdiff_t entry_ = static_cast<std::ptrdiff_t>(few_.find("PK\1\2"));  // of a, the first
};

TEST_F(Npz, HasNamesInTheirOrderAndRefusesOnlyWhatIsAskedFor) {
  EXPECT_THAT(NpzFile(golden_array("streamed.npz")).names(), ElementsAre("a", "b c/d"));
  const NpzFile mlx(golden_array("mlx.npz"));
  EXPECT_THAT(mlx.names(), testing::Contains("brain"));
  EXPECT_EQ(mlx.read("vector").shape(), Shape{3});
  expect_error<DataError>([&] { mlx.read("brain"); }, {"mlx.npz: brain has the type '<V2'"});
  expect_error<DataError>([&] { mlx.read("vectors"); }, {"there is no array 'vectors': did you mean vector?"});
}

TEST_F(Npz, TheEndOfAnArchiveMayBeIn64Bits) {
  const std::string large = file_text(golden_array("zip64.npz"));
  const std::vector<float> a = of(large).read("a").to_vector();
  std::string file = large;
  file.replace(file.size() - 14, 12, 12, '\xFF');  // entries, bytes and place of the directory
  EXPECT_EQ(of(file).read("a").to_vector(), a);
  file.erase(file.size() - 42, 20);  // without the record that says where it is said in 64 bits
  expect_error<DataError>([&] { of(file); }, {"x.npz has a damaged directory"});
}

TEST_F(Npz, ACommentMayFollow) {
  std::string file = few_ + "PK\5\6 no directory, but a comment";
  file[few_.size() - 2] = static_cast<char>(file.size() - few_.size());
  EXPECT_EQ(of(file).read("a").shape(), (Shape{2, 12}));
}

TEST_F(Npz, SaysWhatIsWrong) {
  expect_error<DataError>([&] { of(""); }, {"x.npz is no .npz file"});
  expect_error<DataError>([&] { of(npy("<f4", "(0,)", "")); }, {"x.npz is no .npz file"});
  for (const std::size_t keep : {few_.size() - 1, few_.size() / 2, std::size_t{30}})
    expect_error<DataError>([&] { of(few_.substr(0, keep)); }, {"x.npz is no .npz file", "it was cut"});
  expect_error<DataError>([&] { of(with(-12, "\3")); }, {"x.npz has a damaged directory"});        // 3 entries
  expect_error<DataError>([&] { of(with(-10, "\xFF\xFF")); }, {"x.npz has a damaged directory"});  // too long
  const NpzFile encrypted = of(with(entry_ + 8, "\1"));
  expect_error<DataError>([&] { encrypted.read("a"); }, {"x.npz: a is encrypted. Save it by numpy.savez."});
  const NpzFile bzip2 = of(with(entry_ + 10, "\14"));
  expect_error<DataError>([&] { bzip2.read("a"); }, {"x.npz: a is packed by method 12 of zip"});
  for (const int field : {16, 20, 24, 42}) {  // checksum, lengths, place
    const NpzFile wrong = of(with(entry_ + field, "\5"));
    EXPECT_NE(error_of<DataError>([&] { wrong.read("a"); }), "") << field;
    EXPECT_EQ(wrong.read("b c/d").shape(), Shape{3});
  }
  const NpzFile flipped = of(with(60, "\1"));
  expect_error<DataError>([&] { flipped.read("a"); }, {"x.npz: a is damaged: its checksum is wrong."});
  const NpzFile renamed = of(with(entry_ + 46, "c"));
  expect_error<DataError>([&] { renamed.read("c"); }, {"x.npz has a damaged directory"});
  const NpzFile bomb = of(with(entry_ + 24, std::string("\xFE\xFF\xFF\xFF", 4)));
  expect_error<DataError>([&] { bomb.read("a"); }, {"x.npz has a damaged directory"});
  const NpzFile longer = of(with(entry_ + 24, std::string("\xDF\x00", 2)));  // of 224
  expect_error<DataError>([&] { longer.read("a"); }, {"x.npz: a is damaged"});
}

TEST_F(Npz, RefusesANameThatIsThereTwice) {
  std::string file = file_text(golden_array("types.npz"));
  file.replace(file.rfind("f4.npy"), 6, "f2.npy");
  expect_error<DataError>([&] { of(file); }, {"x.npz has two arrays of the name 'f2'"});
}

TEST_F(Npz, DamagedFilesAreReadOrRefused) {
  for (const char* name : {"streamed.npz", "zip64.npz", "mlx.npz"}) {
    const std::string good = file_text(golden_array(name));
    fuzz(200, [&](Random& random) {
      const std::vector<std::byte> bytes = damaged(as_message(good), random);
      try {
        const NpzFile file = of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        for (const std::string& array : file.names()) file.read(array);
      } catch (const DataError&) {
      }
    });
  }
}

}  // namespace
}  // namespace laconic
