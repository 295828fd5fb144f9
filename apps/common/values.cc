#include "apps/common/values.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/common/text.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/safetensors.h"
#include "data/input_file.h"

namespace laconic {
namespace {

constexpr std::int64_t kBlock = 4096;  // values that are drawn with one key

/// Shares of magnitudes below 2^-10, to 2^-5 and to 1; the rest is above. Within a class they are even by exponent.
struct Mix {
  const char* name;
  float small, middle, large;
};
constexpr Mix kMixes[] = {{"alexnet", 0.749f, 0.039f, 0.211f}, {"hdc", 0.92f, 0.065f, 0.015f}, {"whole", 0, 0, 0}};

float drawn(const Mix& mix, Random& random) {
  const float which = random.uniform(), sign = random.below(2) ? 1.0f : -1.0f;
  const auto between = [&](float low, float high) { return sign * std::exp2(random.uniform(low, high)); };
  if (which < mix.small) return between(-24, -10);
  if (which < mix.small + mix.middle) return between(-10, -5);
  if (which < mix.small + mix.middle + mix.large) return between(-5, 0);
  return between(0, 1);
}

void draw(const std::string& name, std::int64_t block, float* x, std::int64_t count) {
  Random random(0, Purpose::test, static_cast<std::uint64_t>(block), static_cast<std::uint64_t>(name[0]));
  const float factor = name == "heavy" ? std::exp(2 * random.normal()) : 1.0f;
  const Mix* const mix =
      std::find_if(std::begin(kMixes), std::end(kMixes), [&](const Mix& m) { return m.name == name; });
  for (std::int64_t i = 0; i < count; ++i) {
    if (mix != std::end(kMixes)) {
      x[i] = drawn(*mix, random);
    } else if (name == "uniform") {
      x[i] = random.uniform(-1, 1);
    } else if (name == "laplace") {
      const float u = random.uniform() - 0.5f;
      x[i] = std::copysign(std::log(std::max(1 - 2 * std::abs(u), 0x1p-24f)), u);
    } else {
      x[i] = factor * random.normal();
    }
  }
}

}  // namespace

const std::vector<std::string>& select_distributions() {
  static const std::vector<std::string> names{"uniform", "normal", "laplace", "heavy"};
  return names;
}

namespace {

/// All values of the files NAME.f32 of a folder, as --dump-gradients writes one, in the order of their names.
Tensor read_folder(const std::string& path) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".f32") files.push_back(entry.path().string());
  require<DataError>(!files.empty(), path,
                     " has no files NAME.f32: give a folder that --dump-gradients has written, as ", "DIR/step-000100");
  std::sort(files.begin(), files.end());
  std::vector<Tensor> parts;
  std::int64_t elements = 0, at = 0;
  for (const std::string& file : files) elements += parts.emplace_back(read_values(file, "")).elements();
  const Tensor all = Tensor::empty({elements});
  for (const Tensor& part : parts) {
    all.range(at, part.elements()).copy_from(part);
    at += part.elements();
  }
  return all;
}

}  // namespace

Tensor read_values(const std::string& path, const std::string& name) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return read_folder(path);
  if (path.ends_with(".safetensors")) {
    const SafetensorsFile all(path);
    std::vector<std::string> names;
    for (const StoredTensor& tensor : all.tensors()) names.push_back(tensor.name);
    require<DataError>(!name.empty() || names.size() == 1, path, " has ", names.size(),
                       " tensors (--tensor): name one of ", join(names, ", "));
    const auto at = name.empty() ? names.begin() : std::ranges::find(names, name);
    require<DataError>(at != names.end(), path, " has no tensor '", name, "' (--tensor): ", did_you_mean(name, names),
                       "name another");
    const Tensor found = all.read_as(all.tensors()[static_cast<std::size_t>(at - names.begin())], DType::f32);
    require<DataError>(found.elements() > 0, path, ": ", name, " has no values (--tensor): give one that has");
    return found;
  }
  const RandomAccessFile file(path);
  const std::uint64_t bytes = file.size();
  require<DataError>(name.empty(), path, " is no safetensors file (--tensor): it has no names");
  require<DataError>(bytes % 4 == 0 && bytes > 0, path, " has ", bytes,
                     " bytes: it must be float32 values, 4 bytes each, or end in .safetensors");
  Tensor x = Tensor::empty({static_cast<std::int64_t>(bytes / 4)});
  file.read(0, bytes, x.data<float>());
  return x;
}

Tensor values_named(const std::string& name, std::int64_t elements, const std::vector<std::string>& distributions) {
  if (std::find(distributions.begin(), distributions.end(), name) == distributions.end()) {
    const auto colon = name.find(".safetensors:");
    const auto end = colon == std::string::npos ? name.size() : colon + 12;
    if (!std::filesystem::exists(name.substr(0, end))) {
      const std::string close = nearest(name, distributions);
      throw UsageError(
          concat("'", name, "' is neither a distribution nor a file (--data): ",
                 close.empty() ? "there are " + join(distributions, ", ") : "did you mean " + close + "?"));
    }
    const Tensor x = read_values(name.substr(0, end), end < name.size() ? name.substr(end + 1) : "");
    require<DataError>(elements <= x.elements(), name, " has ", x.elements(), " values (--elements): ask for no more");
    return elements == 0 ? x : x.range(0, elements);
  }
  Tensor x = Tensor::empty({elements});
  float* const to = x.data<float>();
  parallel_for((elements + kBlock - 1) / kBlock, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) draw(name, b, to + b * kBlock, std::min(kBlock, elements - b * kBlock));
  });
  return x;
}

}  // namespace laconic
