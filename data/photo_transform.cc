#include "data/photo_transform.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/cpu/simd.h"

namespace laconic {
namespace {

using Taps = ResizeBuffers::Taps;

constexpr int kBits = 22;  // bits of a weight: the sum of 255 times the weights stays below 2^31

/// The inputs [first, end) that count for output o of an axis, and the triangle over them.
struct Triangle {
  double center, reach;
  int first, end;

  /// start, extent : of the box.   size : of the picture
  Triangle(double start, double extent, int outputs, int size, int o) {
    const double scale = extent / outputs;
    center = start + (o + 0.5) * scale;
    reach = std::max(1.0, scale);
    const int low = std::max(0, static_cast<int>(std::floor(start)));
    const int high = std::min(size, static_cast<int>(std::ceil(start + extent)));
    first = std::clamp(static_cast<int>(center - reach + 0.5), low, high - 1);
    end = std::clamp(static_cast<int>(center + reach + 0.5), first + 1, high);
  }
  double operator()(int i) const { return std::max(0.0, 1 - std::abs((i + 0.5 - center) / reach)); }
};

void fill(Taps& taps, double start, double extent, int outputs, int size, int from, int count) {
  taps.first.resize(static_cast<std::size_t>(count));
  taps.count.resize(static_cast<std::size_t>(count));
  taps.most = static_cast<int>(std::ceil(std::max(1.0, extent / outputs))) * 2 + 1;
  taps.weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps.most), 0);
  for (int o = 0; o < count; ++o) {
    const Triangle triangle(start, extent, outputs, size, from + o);
    double sum = 0;
    for (int i = triangle.first; i < triangle.end; ++i) sum += triangle(i);
    std::int32_t* weights = taps.weights.data() + static_cast<std::size_t>(o) * static_cast<std::size_t>(taps.most);
    for (int i = triangle.first; i < triangle.end; ++i)
      *weights++ = sum > 0 ? static_cast<std::int32_t>(0.5 + triangle(i) / sum * (1 << kBits)) : 1 << kBits;
    taps.first[static_cast<std::size_t>(o)] = triangle.first;
    taps.count[static_cast<std::size_t>(o)] = triangle.end - triangle.first;
  }
}

// A pixel is four numbers of which the last is nobody's: it is read from the next one, and written over by it.
typedef std::int32_t Four __attribute__((vector_size(16)));
typedef std::uint8_t FourBytes __attribute__((vector_size(4)));
typedef std::int32_t Sixteen __attribute__((vector_size(64)));
typedef std::uint8_t SixteenBytes __attribute__((vector_size(16)));

/// One row. in : from the pixel that taps.first counts from
LACONIC_MULTIVERSION void resize_across(const std::uint8_t* in, const int* first, const int* count,
                                        const std::int32_t* weights, int most, int outputs, std::uint8_t* out) {
  for (int o = 0; o < outputs; ++o, weights += most, out += 3) {
    const std::uint8_t* p = in + 3 * first[o];
    Four sum = {};
    sum += 1 << (kBits - 1);
    for (int k = 0; k < count[o]; ++k, p += 3) {
      FourBytes pixel;
      cpu::load(pixel, p);
      sum += weights[k] * __builtin_convertvector(pixel, Four);
    }
    sum >>= kBits;
    cpu::store(out, __builtin_convertvector(sum, FourBytes));
  }
}

/// out[i] = sum_k weights[k] in[k stride + i], for n bytes
LACONIC_MULTIVERSION void resize_down(const std::uint8_t* in, std::size_t stride, const std::int32_t* weights,
                                      int count, std::size_t n, std::uint8_t* out) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    Sixteen sum = {};
    sum += 1 << (kBits - 1);
    for (int k = 0; k < count; ++k) {
      SixteenBytes row;
      cpu::load(row, in + static_cast<std::size_t>(k) * stride + i);
      sum += weights[k] * __builtin_convertvector(row, Sixteen);
    }
    sum >>= kBits;
    cpu::store(out + i, __builtin_convertvector(sum, SixteenBytes));
  }
  for (; i < n; ++i) {
    std::int32_t sum = 1 << (kBits - 1);
    for (int k = 0; k < count; ++k) sum += weights[k] * in[static_cast<std::size_t>(k) * stride + i];
    out[i] = static_cast<std::uint8_t>(sum >> kBits);
  }
}

/// What a thread works in. Kept, because memory that comes and goes is cleared by the system each time; but not what a
/// single huge picture took.
struct Workspace {
  Image image;
  ResizeBuffers resize;
  std::vector<std::uint8_t> pixels;

  void trim() {
    constexpr std::size_t kKeep = std::size_t{32} << 20;
    for (auto* buffer : {&image.pixels, &resize.rows})
      if (buffer->capacity() > kKeep) std::vector<std::uint8_t>().swap(*buffer);
  }
};

/// [0, 1) with 32 bits.
double uniform(Random& random) { return random.bits() * 0x1p-32; }
double uniform(Random& random, double low, double high) { return low + (high - low) * uniform(random); }
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }  // ties go to even, as in Python

constexpr double kLeastArea = 0.08, kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;

Region random_crop(Random& random, int width, int height) {
  const double area = static_cast<double>(width) * height;
  for (int i = 0; i < 10; ++i) {
    const double part = area * uniform(random, kLeastArea, 1);
    const double ratio = std::exp(uniform(random, std::log(kLeastRatio), std::log(kMostRatio)));
    const int w = rounded(std::sqrt(part * ratio)), h = rounded(std::sqrt(part / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto y = random.below(static_cast<std::uint32_t>(height - h + 1));
    const auto x = random.below(static_cast<std::uint32_t>(width - w + 1));
    return {static_cast<int>(x), static_cast<int>(y), w, h};
  }
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < kLeastRatio) h = std::min(height, rounded(w / kLeastRatio));
  if (ratio > kMostRatio) w = std::min(width, rounded(h * kMostRatio));
  return {(width - w) / 2, (height - h) / 2, w, h};
}

/// ITU-R 601-2, as PIL's convert("L").
inline int grey(const std::uint8_t* p) { return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16; }

inline std::uint8_t blend(int a, int x, float f) {
  const float y = static_cast<float>(a) + f * static_cast<float>(x - a);
  return static_cast<std::uint8_t>(std::clamp(y, 0.0f, 255.0f));
}

void blend_with(int a, float f, std::uint8_t* pixels, std::size_t n) {
  std::uint8_t table[256];
  for (int v = 0; v < 256; ++v) table[v] = blend(a, v, f);
  for (std::size_t i = 0; i < 3 * n; ++i) pixels[i] = table[pixels[i]];
}

/// The largest of 1, 2, 4, 8 by which `view` may be reduced before it is resized, and still is.
int dct_scale(const Resizing& view) {
  int scale = 1;
  while (scale < 8 && view.box.width >= 2 * scale * view.width && view.box.height >= 2 * scale * view.height)
    scale *= 2;
  return scale;
}

}  // namespace

Region Resizing::source(int picture_width, int picture_height) const {
  const auto axis = [](double start, double extent, int outputs, int size, int from, int count) {
    return std::pair{Triangle(start, extent, outputs, size, from).first,
                     Triangle(start, extent, outputs, size, from + count - 1).end};
  };
  const auto [left, right] = axis(box.x, box.width, width, picture_width, window.x, window.width);
  const auto [top, bottom] = axis(box.y, box.height, height, picture_height, window.y, window.height);
  return {left, top, right - left, bottom - top};
}

void resize(const Image& picture, const Resizing& r, ResizeBuffers& buffers, std::uint8_t* out) {
  const Region need = r.source(picture.width, picture.height), have = picture.part;
  require<ShapeError>(need.x >= have.x && need.y >= have.y && need.x + need.width <= have.x + have.width &&
                          need.y + need.height <= have.y + have.height,
                      "resize: a part of ", have.width, " x ", have.height, " pixels of the picture does not hold the ",
                      need.width, " x ", need.height, " that are needed.");
  fill(buffers.across, r.box.x, r.box.width, r.width, picture.width, r.window.x, r.window.width);
  fill(buffers.down, r.box.y, r.box.height, r.height, picture.height, r.window.y, r.window.height);
  const std::size_t row_bytes = static_cast<std::size_t>(r.window.width) * 3;
  buffers.rows.resize(static_cast<std::size_t>(need.height) * row_bytes + Image::kSlack);
  for (int& first : buffers.across.first) first -= have.x;
  for (int y = 0; y < need.height; ++y)
    resize_across(picture.at(have.x, need.y + y), buffers.across.first.data(), buffers.across.count.data(),
                  buffers.across.weights.data(), buffers.across.most, r.window.width,
                  buffers.rows.data() + static_cast<std::size_t>(y) * row_bytes);
  for (int y = 0; y < r.window.height; ++y) {
    const auto o = static_cast<std::size_t>(y);
    resize_down(buffers.rows.data() + static_cast<std::size_t>(buffers.down.first[o] - need.y) * row_bytes, row_bytes,
                buffers.down.weights.data() + o * static_cast<std::size_t>(buffers.down.most), buffers.down.count[o],
                row_bytes, out + o * row_bytes);
  }
}

PhotoDraw draw_photo(const PhotoAugment& augment, std::uint64_t seed, std::int64_t epoch, std::int64_t sample,
                     int width, int height) {
  Random random(seed, Purpose::augment, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
  PhotoDraw draw;
  if (augment.crop) draw.crop = random_crop(random, width, height);
  draw.flip = augment.flip && random.bits() >> 31;
  const float jitter[] = {augment.brightness, augment.contrast, augment.saturation};
  if (std::any_of(jitter, jitter + 3, [](float j) { return j > 0; })) {
    random.shuffle(draw.order);
    for (std::size_t k = 0; k < 3; ++k) {
      const auto j = static_cast<double>(jitter[k]);
      draw.factors[k] = static_cast<float>(uniform(random, std::max(0.0, 1 - j), 1 + j));
    }
  }
  return draw;
}

void jitter_colors(const PhotoDraw& draw, std::uint8_t* pixels, std::size_t n) {
  for (const int kind : draw.order) {
    const float f = draw.factors[static_cast<std::size_t>(kind)];
    if (f == 1) continue;
    if (kind == 0) {
      blend_with(0, f, pixels, n);
    } else if (kind == 1) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += static_cast<std::uint64_t>(grey(pixels + 3 * i));
      blend_with(static_cast<int>(static_cast<double>(sum) / static_cast<double>(n) + 0.5), f, pixels, n);
    } else {
      for (std::uint8_t* p = pixels; p < pixels + 3 * n; p += 3) {
        const int a = grey(p);
        for (int c = 0; c < 3; ++c) p[c] = blend(a, p[c], f);
      }
    }
  }
}

Resizing evaluation_view(int size, int width, int height, double margin) {
  const int shorter = rounded(size * margin);
  Resizing r{.box = {0, 0, static_cast<double>(width), static_cast<double>(height)},
             .width = shorter,
             .height = shorter,
             .window = {}};
  if (width < height)
    r.height = static_cast<int>(static_cast<double>(shorter) * height / width);
  else
    r.width = static_cast<int>(static_cast<double>(shorter) * width / height);
  r.window = {rounded((r.width - size) / 2.0), rounded((r.height - size) / 2.0), size, size};
  return r;
}

PhotoTransform::PhotoTransform(const Options& options) : o_(options), table_(3 * 256) {
  require<UsageError>(o_.size >= 1 && o_.size <= 4096, "images of ", o_.size, " x ", o_.size,
                      " pixels are asked for (`image-size`): give 1 to 4096, as `image-size` 224");
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t v = 0; v < 256; ++v)
      table_[c * 256 + v] = (static_cast<float>(v) / 255.0f - o_.mean[c]) / o_.std[c];
}

void PhotoTransform::operator()(std::span<const std::uint8_t> file, const std::string& name, std::int64_t epoch,
                                std::int64_t sample, float* out) const {
  thread_local Workspace work;
  const ImageHeader header = read_image_header(file, name);
  const PhotoDraw draw = draw_photo(o_.augment, o_.seed, epoch, sample, header.width, header.height);
  Resizing view = evaluation_view(o_.size, header.width, header.height, o_.margin);
  int most_scale = 1;
  if (o_.augment.crop) {
    const Region& c = draw.crop;
    view = {.box = {double(c.x), double(c.y), double(c.width), double(c.height)},
            .width = o_.size,
            .height = o_.size,
            .window = {0, 0, o_.size, o_.size}};
    most_scale = dct_scale(view);
  }
  decode_image(file, header, name, view.source(header.width, header.height), most_scale, o_.decoder, work.image);
  for (double* v : {&view.box.x, &view.box.y, &view.box.width, &view.box.height}) *v /= work.image.scale;
  const auto n = static_cast<std::size_t>(o_.size) * static_cast<std::size_t>(o_.size);
  work.pixels.resize(3 * n + Image::kSlack);
  resize(work.image, view, work.resize, work.pixels.data());
  jitter_colors(draw, work.pixels.data(), n);
  // x -> (x/255 - mean) / std, and each row the other way round if it is flipped.
  const std::ptrdiff_t step = draw.flip ? -1 : 1;
  for (int y = 0; y < o_.size; ++y) {
    const std::uint8_t* p = work.pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(o_.size) * 3;
    float* to = out + static_cast<std::size_t>(y) * static_cast<std::size_t>(o_.size) + (draw.flip ? o_.size - 1 : 0);
    for (int x = 0; x < o_.size; ++x, p += 3, to += step)
      for (std::size_t c = 0; c < 3; ++c) to[c * n] = table_[c * 256 + p[c]];
  }
  work.trim();
}

ReadSample photo_reader(std::shared_ptr<const ImageSource> source, const PhotoTransform::Options& options,
                        std::shared_ptr<BadFiles> bad, Bad then) {
  return [source, transform = PhotoTransform(options), bad, then](std::int64_t epoch, std::int64_t sample,
                                                                  float* pixels) -> std::int64_t {
    thread_local std::vector<std::uint8_t> buffer;
    for (std::int64_t i = sample;; i = (i + 1) % source->size()) {
      const std::string name = source->name(i);
      std::string what;
      try {
        transform(source->read(i, buffer), name, epoch, sample, pixels);
        return source->label(i);
      } catch (const DataError& e) {
        what = e.what();
      }
      bad->add(name, what);
      if (then == Bad::left_out) return kLeftOut;
      require<DataError>((i + 1) % source->size() != sample, what, " There is no other image.");
    }
  };
}

namespace {

class Photos final : public Dataset {
 public:
  Photos(std::shared_ptr<const ImageSource> source, const PhotoTransform::Options& options)
      : source_(std::move(source)), size_(options.size), transform_(options) {}
  std::int64_t size() const override { return source_->size(); }
  Example get(std::int64_t i, Random& random) const override {
    std::vector<std::uint8_t> buffer;
    const Tensor x = Tensor::empty({3, size_, size_});
    transform_(source_->read(i, buffer), source_->name(i), random.bits(), i, x.data<float>());
    return {x, Tensor::of({}, std::vector<std::int64_t>{source_->label(i)})};
  }

 private:
  std::shared_ptr<const ImageSource> source_;
  int size_;
  PhotoTransform transform_;
};

}  // namespace

SharedDataset photo_dataset(std::shared_ptr<const ImageSource> source, const PhotoTransform::Options& options) {
  return std::make_shared<Photos>(std::move(source), options);
}

}  // namespace laconic
