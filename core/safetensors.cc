// save_safetensors and load_safetensors of core/state.h.
#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/state.h"

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

Json parse_header(const std::string& text, const std::string& path) {
  // The parser keeps the last of two equal keys, so that duplicates are looked for on the way.
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    require<DataError>(depth <= 3, path, ": the header is nested too deeply. Is this a safetensors file?");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      require<DataError>(keys.back().insert(key).second, path, ": the header has '", key,
                         "' twice. The file is damaged; save it again.");
    }
    return true;
  };
  try {
    Json header = Json::parse(text, watch);
    require<DataError>(header.is_object(), path, ": the header is not a JSON object. Is this a safetensors file?");
    return header;
  } catch (const Json::exception&) {
    throw DataError(path + ": the header is not JSON. Is this a safetensors file?");
  }
}

struct Place {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

Place read_place(const std::string& name, const Json& entry, std::uint64_t data_bytes, const std::string& path) {
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
  const auto dtype = dtype_of(type.get<std::string>());
  require<DataError>(dtype.has_value(), where, " has dtype ", type.get<std::string>(),
                     ", but only F32, BF16, I32, I64 and U8 are read here. Convert it where it was made.");
  require<DataError>(dims.is_array() && dims.size() <= static_cast<std::size_t>(Shape::kMaxRank), where,
                     ": \"shape\" is not a list of at most ", Shape::kMaxRank, " extents.");
  std::vector<std::int64_t> extents;
  std::uint64_t bytes = size_of(*dtype);
  bool too_large = false;
  for (const Json& dim : dims) {
    const std::uint64_t extent = number(dim, "shape");
    too_large |= extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    too_large |= __builtin_mul_overflow(bytes, extent, &bytes);
    extents.push_back(static_cast<std::int64_t>(extent));
  }
  require<DataError>(offsets.is_array() && offsets.size() == 2, where,
                     ": \"data_offsets\" is not a pair [begin, end]. The file is damaged; save it again.");
  const std::uint64_t begin = number(offsets[0], "data_offsets"), end = number(offsets[1], "data_offsets");
  require<DataError>(begin <= end && end <= data_bytes, where, " lies at [", begin, ", ", end, ") but the file holds ",
                     data_bytes, " bytes of data. It was cut off, or damaged; copy or save it again.");
  require<DataError>(!too_large && end - begin == bytes, where, ": shape ", dims.dump(), " in ",
                     type.get<std::string>(), " does not fill its ", end - begin,
                     " bytes. The file is damaged; save it again.");
  return {name, *dtype, Shape(std::span<const std::int64_t>(extents)), begin, end};
}

}  // namespace

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
  const RandomAccessFile file(path);
  require<DataError>(file.size() >= 8, path, ": has ", file.size(),
                     " bytes, fewer than a safetensors header. It was cut off; copy or save it again.");
  std::uint64_t header_bytes = 0;
  file.read(0, sizeof header_bytes, &header_bytes);
  require<DataError>(header_bytes <= kMaxHeaderBytes && header_bytes <= file.size() - 8, path, ": says its header has ",
                     header_bytes, " bytes, but the file has ", file.size(),
                     ". It was cut off, or is not a safetensors file.");
  std::string text(header_bytes, '\0');
  file.read(8, header_bytes, text.data());
  const Json header = parse_header(text, path);
  const std::uint64_t data_bytes = file.size() - 8 - header_bytes;

  StateDict state;
  std::vector<Place> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      require<DataError>(entry.is_object(), path, ": \"__metadata__\" is not a JSON object. The file is damaged.");
      for (const auto& [key, value] : entry.items()) {
        require<DataError>(value.is_string(), path, ": \"__metadata__\" has '", key, "' that is not a string.");
        state.set_text(key, value.get<std::string>());
      }
    } else {
      require<DataError>(!name.empty(), path, ": a tensor has no name. The file is damaged; save it again.");
      places.push_back(read_place(name, entry, data_bytes, path));
    }
  }

  std::vector<const Place*> in_file;
  for (const Place& place : places) in_file.push_back(&place);
  std::sort(in_file.begin(), in_file.end(),
            [](const Place* a, const Place* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  std::uint64_t end = 0;
  for (const Place* place : in_file) {
    require<DataError>(place->begin >= end, path, ": '", place->name, "' at ", place->begin, " overlaps what ends at ",
                       end, ". The file is damaged; save it again.");
    require<DataError>(place->begin == end, path, ": nothing describes the ", place->begin - end, " bytes before '",
                       place->name, "'. The file is damaged; save it again.");
    end = place->end;
  }
  require<DataError>(end == data_bytes, path, ": nothing describes its last ", data_bytes - end,
                     " bytes. The file is damaged; save it again.");

  for (const Place& place : places) {
    const Tensor tensor = Tensor::empty(place.shape, place.dtype);
    state.set(place.name, tensor);
    file.read(8 + header_bytes + place.begin, tensor.bytes(), tensor.raw_data());
  }
  return state;
}

}  // namespace laconic
