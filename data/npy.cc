#include "data/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/ops/reshape.h"
#include "core/stored_elements.h"

namespace laconic {
namespace {

constexpr std::uint64_t kMostNpyHeader = 1 << 16;
constexpr std::int64_t kMostNpyElements = std::int64_t{1} << 48;

/// Takes the header's text apart, a dictionary of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader parse() {
    NpyHeader h;
    std::string keys;  // those that have been
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      require<DataError>(keys.find("'" + key + "'") == std::string::npos, where_, ": its header says '", key,
                         "' twice.");
      keys += "'" + key + "'";
      expect(':');
      if (key == "descr")
        h.dtype = type();
      else if (key == "fortran_order")
        h.fortran = truth();
      else if (key == "shape")
        h.shape = shape();
      else
        throw DataError(concat(where_, ": its header says '", key, "', which no .npy file has."));
      if (take(',')) continue;
      expect('}');
      break;
    }
    for (const char* key : {"descr", "fortran_order", "shape"})
      require<DataError>(keys.find(key) != std::string::npos, where_, ": its header has no '", key, "'.");
    // A vector lies in memory in either order alike, and so does whatever has one extent besides those of 1.
    const auto longer = std::ranges::count_if(h.shape, [](std::int64_t extent) { return extent > 1; });
    h.fortran = h.fortran && longer > 1 && h.elements() > 0;
    return h;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\n", at_), text_.size()); }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    require<DataError>(take(c), where_, ": its header has no '", std::string(1, c), "' at byte ", at_, " of its text.");
  }
  std::string up_to(std::string_view ends) {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    const std::string_view quote = take('"') ? "\"" : "'";
    if (quote == "'") expect('\'');
    const std::string text = up_to(quote);
    expect(quote[0]);
    return text;
  }
  bool truth() {
    skip_blanks();
    const std::string word = up_to(" ,}");
    require<DataError>(word == "True" || word == "False", where_, ": its order of Fortran is '", word,
                       "', neither True nor False.");
    return word == "True";
  }
  /// One number an element: floating-point, signed, unsigned, truth, complex, or bytes that are anything.
  std::string type() {
    skip_blanks();
    const std::size_t begin = at_;
    require<DataError>(at_ < text_.size() && text_[at_] != '[' && text_[at_] != '(', where_,
                       " has several values an element, ", text_.substr(begin, 40), " …. Save them one by one.");
    std::string type = quoted();
    require<DataError>(type.size() < 2 || type[1] != 'O', where_,
                       " holds objects of Python, which are not read. Save numbers: numpy.save(file, x.astype('f4')).");
    const auto bytes = number_from<int>(type.size() < 3 ? "" : type.substr(2));
    require<DataError>(bytes && *bytes >= 1 && *bytes <= 16 && std::string_view("<>|=").find(type[0]) < 4 &&
                           std::string_view("fiubcV").find(type[1]) < 6,
                       where_, " has the type '", type, "', which is no number. Save numbers, as x.astype('f4').");
    if (*bytes == 1) type[0] = '|';
    if (type[0] == '=') type[0] = '<';
    return type;
  }
  std::vector<std::int64_t> shape() {
    skip_blanks();
    const std::size_t begin = at_;
    std::vector<std::int64_t> extents;
    std::int64_t elements = 1;
    expect('(');
    while (!take(')')) {
      skip_blanks();
      std::string digits = up_to(" ,)");
      if (digits.ends_with('L')) digits.pop_back();  // Python 2 wrote (3L, 4L)
      const auto extent = number_from<std::int64_t>(digits);
      require<DataError>(extent && *extent >= 0 && (*extent == 0 || elements <= kMostNpyElements / *extent), where_,
                         ": its shape ", text_.substr(begin, text_.find(')', begin) - begin), ") is none.");
      extents.push_back(*extent), elements *= *extent;
      if (take(',')) continue;
      expect(')');
      break;
    }
    return extents;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

/// front : the array's first bytes, all or at least kMostNpyHeader   bytes : of the whole array
NpyHeader npy_header_of(std::span<const std::byte> front, std::uint64_t bytes, const std::string& where) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint64_t>(front[i]); };
  require<DataError>(
      front.size() >= 12 && std::memcmp(front.data(), "\x93NUMPY", 6) == 0 && byte(6) >= 1 && byte(6) <= 3, where,
      " is no .npy file.");
  const bool is_long = byte(6) > 1;
  const std::size_t begin = is_long ? 12 : 10;
  const std::uint64_t length = byte(8) | byte(9) << 8 | (is_long ? byte(10) << 16 | byte(11) << 24 : 0);
  require<DataError>(length <= bytes - begin, where, " is cut in its header.");
  require<DataError>(length <= kMostNpyHeader - begin, where, " has a header of ", length,
                     " bytes, more than one number an element needs. Save its columns one by one.");
  const std::string_view text(reinterpret_cast<const char*>(front.data()) + begin, length);
  NpyHeader h = NpyDictionary(text, where).parse();
  h.data_offset = begin + length;
  const std::uint64_t values = bytes - h.data_offset;
  require<DataError>(values == static_cast<std::uint64_t>(h.elements()) * h.bytes_of_element(), where, " has ", values,
                     " bytes of values, but ", h.elements(), " of ", h.bytes_of_element(), " bytes each are promised.");
  return h;
}

/// NumPy's names of types, without the order of bytes, and those of element_type().
constexpr std::pair<std::string_view, const char*> kNpyTypes[] = {
    {"f2", "F16"}, {"f4", "F32"}, {"f8", "F64"}, {"b1", "BOOL"}, {"i1", "I8"},  {"i2", "I16"},
    {"i4", "I32"}, {"i8", "I64"}, {"u1", "U8"},  {"u2", "U16"},  {"u4", "U32"}, {"u8", "U64"}};

}  // namespace

std::int64_t NpyHeader::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::size_t NpyHeader::bytes_of_element() const { return number_from<std::size_t>(dtype.substr(2)).value(); }

NpyHeader read_npy_header(const RandomAccessFile& file, const std::string& where) {
  std::vector<std::byte> front(std::min(file.size(), kMostNpyHeader));
  file.read(0, front.size(), front.data());
  return npy_header_of(front, file.size(), where);
}

Tensor npy_of(std::span<const std::byte> file, const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  const NpyHeader h = npy_header_of(file, file.size(), where);
  require<DataError>(h.dtype[1] != 'V', where, " has the type '", h.dtype,
                     "', bytes that say no number (bfloat16 is saved so). Save x.astype('f4').");
  const auto named = [&](const auto& names) { return names.first == std::string_view(h.dtype).substr(1); };
  const auto* const names = std::ranges::find_if(kNpyTypes, named);
  require<DataError>(names != std::end(kNpyTypes), where, " has the type '", h.dtype,
                     "', not one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1. Save x.astype('f4').");
  const auto rank = static_cast<int>(h.shape.size()), most = Shape::kMaxRank;
  require<DataError>(rank <= most, where, " has more than ", most, " dimensions.");
  std::vector<std::int64_t> extents = h.shape;
  if (h.fortran) std::ranges::reverse(extents);
  const ElementType& type = *element_type(names->second);
  const Tensor stored =
      Tensor::empty(Shape(std::span<const std::int64_t>(extents)), type.to_f32 ? DType::f32 : DType::i64);
  std::span<const std::byte> values = file.subspan(h.data_offset);
  std::vector<std::byte> little_endian;
  if (h.dtype[0] == '>' && !values.empty()) {
    little_endian.assign(values.begin(), values.end());
    for (auto at = little_endian.begin(); at != little_endian.end(); at += static_cast<std::ptrdiff_t>(type.bytes))
      std::reverse(at, at + static_cast<std::ptrdiff_t>(type.bytes));
    values = little_endian;
  }
  const auto convert = type.to_f32 ? type.to_f32 : type.to_i64;
  const std::int64_t fit = convert(values.data(), h.elements(), static_cast<std::byte*>(stored.raw_data()));
  require<DataError>(fit == h.elements(), where, ": element ", fit, " is beyond ", stored.dtype(), ".");
  if (!h.fortran) return stored;
  require<DataError>(rank < most || type.to_f32, where, " is in the order of Fortran and has ", most,
                     " dimensions of integers. Save numpy.ascontiguousarray of it.");
  std::vector<int> backwards;
  for (int d = rank; d-- > 0;) backwards.push_back(d);
  return permute(stored, backwards);
}

Tensor read_npy(const std::string& path) { return npy_of(read_file(path), path); }

}  // namespace laconic
