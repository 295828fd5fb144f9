#include "data/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/dataset.h"
#include "tests/error_of.h"
#include "tests/fuzz.h"
#include "tests/gzip.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using testing::ElementsAre;

std::vector<std::uint8_t> octets(const std::string& text) { return {text.begin(), text.end()}; }

Table table_of(const std::string& text, char separator = ',') {
  const TempFolder dir;
  dir.write("t.csv", octets(text));
  return read_csv(dir / "t.csv", separator);
}

TEST(Csv, HasNumbersAndClasses) {
  const Table t = table_of("\xEF\xBB\xBFwidth, height,kind\r\n1,-2.5,cat\r\n\r\n+3e1, 4 ,\"dog, large\"\r\n5,6,cat");
  EXPECT_EQ(t.rows(), 3);
  EXPECT_THAT(t.columns(), ElementsAre("width", "height", "kind"));
  EXPECT_EQ(t.numbers({"height", "width"}).shape(), (Shape{3, 2}));
  EXPECT_THAT(t.numbers({"height", "width"}).to_vector(), ElementsAre(-2.5f, 1, 4, 30, 6, 5));
  EXPECT_EQ(t.numbers({}, {"kind"}).to_vector(), t.numbers({"width", "height"}).to_vector());
  EXPECT_THAT(t.class_names("kind"), ElementsAre("cat", "dog, large"));
  EXPECT_THAT(t.classes("kind").to_vector(), ElementsAre(0, 1, 0));
  EXPECT_EQ(t.classes("kind").dtype(), DType::i64);
}

TEST(Csv, NeedsNoHeaderAndTakesOtherSeparatorsQuotesAndGzip) {
  const Table t = table_of("10;a\n9;\"b \"\"c\"\"\nd\"\n10;e\n", ';');
  EXPECT_THAT(t.columns(), ElementsAre("0", "1"));
  EXPECT_THAT(t.class_names("0"), ElementsAre("9", "10"));  // by value, not by letter
  EXPECT_THAT(t.class_names("1"), ElementsAre("a", "b \"c\"\nd", "e"));
  const TempFolder dir;
  dir.write("t.csv.gz", gzip(octets("a,b\n1,2\n")));
  EXPECT_THAT(read_csv(dir / "t.csv.gz").numbers().to_vector(), ElementsAre(1, 2));
}

TEST(Csv, ALineOfQuotesAloneIsAValue) {
  EXPECT_THAT(table_of("name\na\n\"\"\n\nb\n").class_names("name"), ElementsAre("", "a", "b"));
}

TEST(Csv, SaysWhatIsWrong) {
  expect_error<DataError>([] { read_csv("/nowhere/t.csv"); }, {"/nowhere/t.csv"});
  expect_error<DataError>([] { table_of(""); }, {"t.csv is empty."});
  expect_error<DataError>([] { table_of("\n\n"); }, {"t.csv is empty."});
  expect_error<DataError>([] { table_of("a,b\n1,2\n3\n"); }, {"t.csv, line 3: 1 values, but the first line has 2."});
  expect_error<DataError>([] { table_of("a,b\n1,\"2\n"); }, {"t.csv, line 2: a quote is not closed."});
  expect_error<DataError>(
      [] { table_of("a,b\n1,x\n").numbers(); },
      {"t.csv, row 1: 'x' in column 'b' is no number. Read that column by classes(), or leave it out."});
  expect_error<DataError>([] { table_of("a,b\n1,\n").numbers(); }, {"row 1: '' in column 'b' is no number"});
  expect_error<DataError>([] { table_of("width,b\n1,2\n").numbers({"with"}); },
                          {"there is no column 'with': did you mean width?"});
  expect_error<DataError>([] { table_of("a,b\n1,2\n").classes("zebra"); }, {"there is no column 'zebra'."});
}

/// As numpy.save writes it.
std::vector<std::uint8_t> npy(const std::string& type, const std::string& shape,
                              const std::vector<std::uint8_t>& values, const std::string& fortran = "False",
                              int version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  std::string file = "\x93NUMPY" + std::string{static_cast<char>(version), 0};
  file += static_cast<char>(header.size() % 256), file += static_cast<char>(header.size() / 256);
  if (version > 1) file += std::string(2, 0);
  std::vector<std::uint8_t> bytes = octets(file + header);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}
template <class T>
std::vector<std::uint8_t> bytes_of(std::initializer_list<T> values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}
Tensor read_back(const std::vector<std::uint8_t>& file) {
  const TempFolder dir;
  dir.write("x.npy", file);
  return read_npy(dir / "x.npy");
}

TEST(Npy, ReadsWhatNumPySaves) {
  const Tensor x = read_back(npy("<f4", "(2, 1, 3)", bytes_of<float>({1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(x.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_THAT(x.to_vector(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_back(npy("<f8", "(2,)", bytes_of<double>({0.5, -1}), "False", 2)).to_vector(),
              ElementsAre(0.5f, -1));
  for (const Tensor& t : {read_back(npy("<i8", "(2,)", bytes_of<std::int64_t>({7, -8}))),
                          read_back(npy("<i4", "(2,)", bytes_of<std::int32_t>({7, -8}))),
                          read_back(npy("|i1", "(2,)", bytes_of<std::int8_t>({7, -8})))}) {
    EXPECT_EQ(t.dtype(), DType::i64);
    EXPECT_THAT(t.to_vector(), ElementsAre(7, -8));
  }
  EXPECT_THAT(read_back(npy("|u1", "(1, 2)", {200, 1})).to_vector(), ElementsAre(200, 1));
  EXPECT_THAT(read_back(npy("|b1", "(2,)", {0, 1})).to_vector(), ElementsAre(0, 1));
  EXPECT_EQ(read_back(npy("<f4", "()", bytes_of<float>({3}))).shape(), Shape{});
  EXPECT_EQ(read_back(npy("<f4", "(0, 3)", {})).shape(), (Shape{0, 3}));
}

TEST(Npy, SaysWhatIsWrong) {
  const std::vector<std::uint8_t> two = bytes_of<float>({1, 2});
  expect_error<DataError>([] { read_back(octets("no numbers here")); }, {"x.npy is no .npy file."});
  expect_error<DataError>([] { read_back({}); }, {"x.npy is no .npy file."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(3,)", two)); },
                          {"x.npy has 8 bytes of values, but 3 of 4 bytes each are promised."});
  expect_error<DataError>([&] { read_back(npy(">f4", "(2,)", two)); }, {"x.npy has the type '>f4', not one of <f4"});
  expect_error<DataError>([&] { read_back(npy("<f4", "(2,)", two, "True")); }, {"is in the order of Fortran"});
  expect_error<DataError>([&] { read_back(npy("<f4", "(-2,)", two)); }, {"its shape (-2,) is none."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(4294967296, 4294967296)", two)); }, {"is none."});
  expect_error<DataError>([&] { read_back(npy("<f4", "(1,1,1,1,1,1,2)", two)); }, {"more than 6 dimensions"});
}

TEST(Npy, DamagedFilesAreReadOrRefused) {
  const std::vector<std::uint8_t> good = npy("<f4", "(2, 2)", bytes_of<float>({1, 2, 3, 4}));
  fuzz(400, [&](Random& random) {
    std::vector<std::byte> file(good.size());
    std::memcpy(file.data(), good.data(), good.size());
    file = damaged(std::move(file), random);
    std::vector<std::uint8_t> bytes(file.size());
    if (!file.empty()) std::memcpy(bytes.data(), file.data(), file.size());
    try {
      read_back(bytes);
    } catch (const DataError&) {
    }
  });
}

TEST(Csv, DamagedFilesAreReadOrRefused) {
  const std::string good = "a,b,c\n1,\"2\",x\n3,4,\"y\"\"z\"\n";
  fuzz(400, [&](Random& random) {
    std::vector<std::byte> file(good.size());
    std::memcpy(file.data(), good.data(), good.size());
    file = damaged(std::move(file), random);
    try {
      const Table t = table_of({reinterpret_cast<const char*>(file.data()), file.size()});
      for (const std::string& column : t.columns()) t.classes(column);
      t.numbers();
    } catch (const DataError&) {
    }
  });
}

TEST(Dataset, RowsOfTensorsPartsOfThemAndFunctionsOfThem) {
  std::vector<float> values(20);
  std::vector<std::int64_t> labels(10);
  for (std::size_t i = 0; i < 10; ++i) values[2 * i] = static_cast<float>(i), labels[i] = static_cast<std::int64_t>(i);
  const SharedDataset data = tensor_dataset(Tensor::of({10, 2}, values), Tensor::of({10}, labels));
  Random random(0, Purpose::test);
  EXPECT_EQ(data->size(), 10);
  EXPECT_EQ(data->get(3, random).x.shape(), (Shape{2}));
  EXPECT_EQ(data->get(3, random).y.shape(), Shape{});
  EXPECT_EQ(data->get(3, random).x.to_vector()[0], 3);

  const auto [first, second] = split(data, 0.7, 5);
  EXPECT_EQ(first->size(), 7);
  EXPECT_EQ(second->size(), 3);
  std::vector<float> seen;
  for (const SharedDataset& part : {first, second})
    for (std::int64_t i = 0; i < part->size(); ++i) {
      const Example e = part->get(i, random);
      EXPECT_EQ(e.x.to_vector()[0], e.y.item());
      seen.push_back(e.y.item());
    }
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(seen[i], static_cast<float>(i));

  const SharedDataset other = mapped(data, [](Example e, Random&) {
    return Example{Tensor::of({1}, {e.y.item() * 2}), e.y};
  });
  EXPECT_EQ(other->get(4, random).x.item(), 8);
  EXPECT_NE(fingerprint(*other), fingerprint(*data));
  EXPECT_EQ(fingerprint(*data), fingerprint(*tensor_dataset(Tensor::of({10, 2}, values), Tensor::of({10}, labels))));
  labels[9] = 0;
  EXPECT_NE(fingerprint(*data), fingerprint(*tensor_dataset(Tensor::of({10, 2}, values), Tensor::of({10}, labels))));

  expect_error<ShapeError>([&] { tensor_dataset(Tensor::zeros({3}), Tensor::zeros({4})); },
                           {"tensor_dataset: x [3] and y [4] have not as many rows."});
  expect_error<ShapeError>([&] { tensor_dataset(Tensor::zeros({3}, DType::u8), Tensor::zeros({3})); },
                           {"tensor_dataset: x is uint8 on cpu, not float32 or int64 in host memory."});
  expect_error<UsageError>([&] { split(data, 1.5); }, {"split: a share of 1.5 is not in [0, 1]."});
}

}  // namespace
}  // namespace laconic
