#include "core/safetensors.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parallel.h"
#include "core/state.h"
#include "core/stored_elements.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian, and so must be the machine");

using Json = nlohmann::ordered_json;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

/// By DType.
constexpr const char* kNames[] = {"F32", "I32", "I64", "U8", "BF16"};

std::optional<DType> dtype_of(const std::string& name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<DType>(found - kNames);
}

/// The value in host memory and plain order; shares memory where it is so already.
Tensor plain_on_host(const Tensor& tensor) {
  if (tensor.device() == kCpu && tensor.layout() == Layout::plain) return tensor;
  Tensor host = Tensor::empty(tensor.shape(), tensor.dtype());
  host.copy_from(tensor);
  return host;
}

/// Names the tensor, and the field that is wrong.
StoredTensor read_place(const std::string& name, const Json& entry, std::uint64_t data_bytes, const std::string& path) {
  const std::string where = path + ": '" + name + "'";
  require<DataError>(entry.is_object(), where,
                     " is not described by a JSON object. The file is damaged; save it again.");
  const auto field = [&](const char* key) -> const Json& {
    const auto found = entry.find(key);
    require<DataError>(found != entry.end(), where, " has no \"", key, "\". The file is damaged; save it again.");
    return *found;
  };
  const auto number = [&](const Json& value, const char* key) {
    require<DataError>(value.is_number_unsigned(), where, ": \"", key, "\" has ", value.dump(),
                       ", not a whole number from 0. The file is damaged; save it again.");
    return value.get<std::uint64_t>();
  };

  const Json &type = field("dtype"), &dims = field("shape"), &offsets = field("data_offsets");
  require<DataError>(type.is_string(), where, ": \"dtype\" is not a string. The file is damaged; save it again.");
  require<DataError>(dims.is_array(), where, ": \"shape\" is not a list of extents.");
  StoredTensor stored{.name = name, .type = type.get<std::string>(), .extents = {}};
  const ElementType* const element = element_type(stored.type);
  std::uint64_t bytes = element ? element->bytes : 0;
  bool too_large = false;
  for (const Json& dim : dims) {
    const std::uint64_t extent = number(dim, "shape");
    too_large |= extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    too_large |= __builtin_mul_overflow(bytes, extent, &bytes);
    stored.extents.push_back(static_cast<std::int64_t>(extent));
  }
  require<DataError>(offsets.is_array() && offsets.size() == 2, where,
                     ": \"data_offsets\" is not a pair [begin, end]. The file is damaged; save it again.");
  stored.begin = number(offsets[0], "data_offsets"), stored.end = number(offsets[1], "data_offsets");
  require<DataError>(stored.begin <= stored.end && stored.end <= data_bytes, where, " lies at [", stored.begin, ", ",
                     stored.end, ") but the file holds ", data_bytes,
                     " bytes of data. It was cut off, or damaged; copy or save it again.");
  require<DataError>(!too_large && (!element || stored.end - stored.begin == bytes), where, ": shape ", dims.dump(),
                     " in ", stored.type, " does not fill its ", stored.end - stored.begin,
                     " bytes. The file is damaged; save it again.");
  return stored;
}

/// Every byte of the data belongs to one tensor.
void require_no_gaps(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes, const std::string& path) {
  std::vector<const StoredTensor*> in_file;
  for (const StoredTensor& tensor : tensors) in_file.push_back(&tensor);
  std::sort(in_file.begin(), in_file.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t end = 0;
  for (const StoredTensor* tensor : in_file) {
    require<DataError>(tensor->begin >= end, path, ": '", tensor->name, "' at ", tensor->begin,
                       " overlaps what ends at ", end, ". The file is damaged; save it again.");
    require<DataError>(tensor->begin == end, path, ": nothing describes the ", tensor->begin - end, " bytes before '",
                       tensor->name, "'. The file is damaged; save it again.");
    end = tensor->end;
  }
  require<DataError>(end == data_bytes, path, ": nothing describes its last ", data_bytes - end,
                     " bytes. The file is damaged; save it again.");
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (const std::int64_t extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  require<DataError>(file_.size() >= 8, path, ": has ", file_.size(),
                     " bytes, fewer than a safetensors header. It was cut off; copy or save it again.");
  std::uint64_t header_bytes = 0;
  file_.read(0, sizeof header_bytes, &header_bytes);
  require<DataError>(header_bytes <= kMaxHeaderBytes && header_bytes <= file_.size() - 8, path,
                     ": says its header has ", header_bytes, " bytes, but the file has ", file_.size(),
                     ". It was cut off, or is not a safetensors file.");
  std::string text(header_bytes, '\0');
  file_.read(8, header_bytes, text.data());
  const Json header = object_without_twins(text, path, "the header", 3);
  const std::uint64_t data_bytes = file_.size() - 8 - header_bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (entry.is_null()) continue;  // MLX writes it so where there is none
      require<DataError>(entry.is_object(), path, ": \"__metadata__\" is not a JSON object. The file is damaged.");
      for (const auto& [key, value] : entry.items()) {
        require<DataError>(value.is_string(), path, ": \"__metadata__\" has '", key, "' that is not a string.");
        texts_[key] = value.get<std::string>();
      }
    } else {
      require<DataError>(!name.empty(), path, ": a tensor has no name. The file is damaged; save it again.");
      tensors_.push_back(read_place(name, entry, data_bytes, path));
    }
  }
  require_no_gaps(tensors_, data_bytes, path);
  for (StoredTensor& tensor : tensors_) tensor.begin += 8 + header_bytes, tensor.end += 8 + header_bytes;
}

Shape SafetensorsFile::shape_of(const StoredTensor& tensor) const {
  require<DataError>(tensor.extents.size() <= static_cast<std::size_t>(Shape::kMaxRank), path(), ": '", tensor.name,
                     "' has ", tensor.extents.size(), " dimensions, and tensors here have at most ", Shape::kMaxRank,
                     ".");
  return Shape(std::span<const std::int64_t>(tensor.extents));
}

Tensor SafetensorsFile::read(const StoredTensor& stored) const {
  const auto dtype = dtype_of(stored.type);
  require<DataError>(dtype.has_value(), path(), ": '", stored.name, "' has dtype ", stored.type,
                     ", but only F32, BF16, I32, I64 and U8 are read here. Convert it where it was made.");
  const Tensor tensor = Tensor::empty(shape_of(stored), *dtype);
  file_.read(stored.begin, tensor.bytes(), tensor.raw_data());
  return tensor;
}

Tensor SafetensorsFile::read_as(const StoredTensor& stored, DType dtype) const {
  const ElementType* const element = element_type(stored.type);
  const Convert convert = !element ? nullptr : dtype == DType::f32 ? element->to_f32 : element->to_i64;
  require<DataError>(convert != nullptr, path(), ": '", stored.name, "' is ", stored.type, " in the file, and ", dtype,
                     " is needed. ", dtype == DType::f32 ? "Quantised weights are not read: s" : "S", "ave it as ",
                     dtype == DType::f32 ? "F32, F16 or BF16." : "I64.");
  const Tensor tensor = Tensor::empty(shape_of(stored), dtype);
  constexpr std::int64_t kPiece = 1 << 18;  // elements
  const std::int64_t pieces = (tensor.elements() + kPiece - 1) / kPiece;
  std::atomic<std::int64_t> lost = tensor.elements();  // the first element that does not fit
  auto* const to = static_cast<std::byte*>(tensor.raw_data());
  parallel_for(pieces, 1, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::byte> raw;
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t at = piece * kPiece, count = std::min(kPiece, tensor.elements() - at);
      raw.resize(static_cast<std::size_t>(count) * element->bytes);
      file_.read(stored.begin + static_cast<std::uint64_t>(at) * element->bytes, raw.size(), raw.data());
      const std::int64_t fit = convert(raw.data(), count, to + static_cast<std::size_t>(at) * size_of(dtype));
      std::int64_t before = lost;
      while (fit < count && at + fit < before && !lost.compare_exchange_weak(before, at + fit)) {
      }
    }
  });
  require<DataError>(lost == tensor.elements(), path(), ": element ", lost.load(), " of '", stored.name,
                     "' is more than ", dtype, " can hold. Are the weights damaged?");
  return tensor;
}

bool SafetensorsFile::equal(const SafetensorsFile& a, const StoredTensor& x, const SafetensorsFile& b,
                            const StoredTensor& y) {
  if (x.type != y.type || x.extents != y.extents) return false;
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<std::byte> of_x(kPiece), of_y(kPiece);
  for (std::uint64_t at = 0; at < x.end - x.begin; at += kPiece) {
    const std::uint64_t bytes = std::min(kPiece, x.end - x.begin - at);
    a.file_.read(x.begin + at, bytes, of_x.data()), b.file_.read(y.begin + at, bytes, of_y.data());
    if (!std::equal(of_x.begin(), of_x.begin() + static_cast<std::ptrdiff_t>(bytes), of_y.begin())) return false;
  }
  return true;
}

FileSum save_safetensors(const StateDict& state, const std::string& path) {
  Json header = Json::object();
  if (!state.texts().empty()) header["__metadata__"] = Json(state.texts());
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : state) {
    const auto dims = tensor.shape().dims();
    header[name] = {{"dtype", kNames[static_cast<std::size_t>(tensor.dtype())]},
                    {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw DataError(path + ": a tensor's name or text is not UTF-8. Rename it.");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  require<DataError>(text.size() <= kMaxHeaderBytes, path, ": the header would have ", text.size(),
                     " bytes; readers accept ", kMaxHeaderBytes, ". Use fewer or shorter names.");
  const std::uint64_t header_bytes = text.size();

  AtomicFile file(path);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(text);
  for (const auto& [name, tensor] : state) {
    const Tensor host = plain_on_host(tensor);
    file.write(host.raw_data(), host.bytes());
  }
  file.commit();
  return file.sum();
}

StateDict load_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  StateDict state;
  for (const auto& [key, text] : file.texts()) state.set_text(key, text);
  for (const StoredTensor& stored : file.tensors()) state.set(stored.name, file.read(stored));
  return state;
}

}  // namespace laconic
