#include "data/npy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/parse.h"
#include "core/ops/reshape.h"

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

struct Half {
  std::uint16_t bits;
};
template <class To, class From>
To converted(From value) {
  return static_cast<To>(value);
}
template <>
float converted(Half half) {
  return float_of(half.bits);
}

/// Whether To has this number, or one that rounds to it.
template <class To, class From>
bool has_place(From value) {
  if constexpr (std::is_same_v<From, double>) return std::abs(value) < 0x1.ffffffp127 || !std::isfinite(value);
  if constexpr (std::is_same_v<From, std::uint64_t>) return value <= std::numeric_limits<std::int64_t>::max();
  return true;
}

template <class From, class To>
void convert(const std::byte* from, std::int64_t n, bool big_endian, void* to, const std::string& where) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::byte bytes[sizeof(From)];
    std::memcpy(bytes, from + static_cast<std::size_t>(i) * sizeof bytes, sizeof bytes);
    if (big_endian) std::reverse(bytes, bytes + sizeof bytes);
    const auto value = std::bit_cast<From>(bytes);
    require<DataError>(has_place<To>(value), where, ": element ", i, " is beyond ", kDTypeOf<To>, ".");
    static_cast<To*>(to)[i] = converted<To>(value);
  }
}

struct NpyType {
  std::string_view name;
  DType as;
  void (*convert)(const std::byte* from, std::int64_t n, bool big_endian, void* to, const std::string& where);
};
template <class From, class To>
constexpr NpyType read_as(const char* name) {
  return {name, kDTypeOf<To>, convert<From, To>};
}
constexpr NpyType kNpyTypes[] = {read_as<Half, float>("f2"),
                                 read_as<float, float>("f4"),
                                 read_as<double, float>("f8"),
                                 read_as<std::int8_t, std::int64_t>("i1"),
                                 read_as<std::int16_t, std::int64_t>("i2"),
                                 read_as<std::int32_t, std::int64_t>("i4"),
                                 read_as<std::int64_t, std::int64_t>("i8"),
                                 read_as<std::uint8_t, std::int64_t>("u1"),
                                 read_as<std::uint16_t, std::int64_t>("u2"),
                                 read_as<std::uint32_t, std::int64_t>("u4"),
                                 read_as<std::uint64_t, std::int64_t>("u8"),
                                 read_as<std::uint8_t, std::int64_t>("b1")};

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
  const auto* type = std::ranges::find(kNpyTypes, std::string_view(h.dtype).substr(1), &NpyType::name);
  require<DataError>(h.dtype[1] != 'V', where, " has the type '", h.dtype,
                     "', bytes that say no number (bfloat16 is saved so). Save x.astype('f4').");
  require<DataError>(type != std::end(kNpyTypes), where, " has the type '", h.dtype,
                     "', not one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1. Save x.astype('f4').");
  const auto rank = static_cast<int>(h.shape.size()), most = Shape::kMaxRank;
  require<DataError>(rank <= most, where, " has more than ", most, " dimensions.");
  std::vector<std::int64_t> extents = h.shape;
  if (h.fortran) std::ranges::reverse(extents);
  const Tensor stored = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), type->as);
  type->convert(file.data() + h.data_offset, h.elements(), h.dtype[0] == '>', stored.raw_data(), where);
  if (!h.fortran) return stored;
  require<DataError>(rank < most || type->as == DType::f32, where, " is in the order of Fortran and has ", most,
                     " dimensions of integers. Save numpy.ascontiguousarray of it.");
  std::vector<int> backwards;
  for (int d = rank; d-- > 0;) backwards.push_back(d);
  return permute(stored, backwards);
}

Tensor read_npy(const std::string& path) { return npy_of(read_file(path), path); }

}  // namespace laconic
