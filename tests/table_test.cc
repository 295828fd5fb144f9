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
