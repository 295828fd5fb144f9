#include "data/dataset.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "data/input_file.h"

namespace laconic {
namespace {

class TensorRows final : public Dataset {
 public:
  TensorRows(const Tensor& x, const Tensor& y) : x_(x.value()), y_(y.value()) {}
  std::int64_t size() const override { return x_.dim(0); }
  Example get(std::int64_t i, Random&) const override { return {row(x_, i), row(y_, i)}; }

 private:
  static Tensor row(const Tensor& t, std::int64_t i) { return t.rows(i, 1).view(Shape(t.shape().dims().subspan(1))); }
  Tensor x_, y_;
};

class Mapped final : public Dataset {
 public:
  Mapped(SharedDataset data, std::function<Example(Example, Random&)> f) : data_(std::move(data)), f_(std::move(f)) {}
  std::int64_t size() const override { return data_->size(); }
  Example get(std::int64_t i, Random& random) const override { return f_(data_->get(i, random), random); }

 private:
  SharedDataset data_;
  std::function<Example(Example, Random&)> f_;
};

class Chosen final : public Dataset {
 public:
  Chosen(SharedDataset data, std::vector<std::int64_t> samples)
      : data_(std::move(data)), samples_(std::move(samples)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  Example get(std::int64_t i, Random& random) const override {
    return data_->get(samples_[static_cast<std::size_t>(i)], random);
  }

 private:
  SharedDataset data_;
  std::vector<std::int64_t> samples_;
};

}  // namespace

SharedDataset tensor_dataset(const Tensor& x, const Tensor& y) {
  require<ShapeError>(x.rank() >= 1 && y.rank() >= 1 && x.dim(0) == y.dim(0), "tensor_dataset: x ", x.shape(),
                      " and y ", y.shape(), " have not as many rows.");
  for (const Tensor* t : {&x, &y})
    require<ShapeError>(
        (t->dtype() == DType::f32 || t->dtype() == DType::i64) && t->device() == kCpu && t->layout() == Layout::plain,
        "tensor_dataset: ", t == &x ? "x" : "y", " is ", t->dtype(), " on ", t->device(),
        ", not float32 or int64 in host memory.");
  return std::make_shared<TensorRows>(x, y);
}

SharedDataset mapped(SharedDataset data, std::function<Example(Example, Random&)> f) {
  return std::make_shared<Mapped>(std::move(data), std::move(f));
}

std::pair<SharedDataset, SharedDataset> split(const SharedDataset& data, double first_share, std::uint64_t seed) {
  require<UsageError>(first_share >= 0 && first_share <= 1, "split: a share of ", first_share, " is not in [0, 1].");
  std::vector<std::int64_t> order(static_cast<std::size_t>(data->size()));
  std::iota(order.begin(), order.end(), 0);
  Random(seed, Purpose::split).shuffle(order);
  const auto middle =
      order.begin() + static_cast<std::ptrdiff_t>(first_share * static_cast<double>(order.size()) + 0.5);
  return {std::make_shared<Chosen>(data, std::vector(order.begin(), middle)),
          std::make_shared<Chosen>(data, std::vector(middle, order.end()))};
}

std::uint64_t fingerprint(const Dataset& data) {
  Digest digest;
  const std::int64_t size = data.size();
  digest.add(&size, sizeof size);
  if (size == 0) return digest.value();
  const auto sample = [&](std::int64_t i) {
    Random random(0, Purpose::augment, 0, static_cast<std::uint64_t>(i));
    return data.get(i, random);
  };
  const Example first = sample(0);
  const std::int64_t most =
      std::max<std::int64_t>(1, (64 << 20) / static_cast<std::int64_t>(first.x.bytes() + first.y.bytes() + 1));
  const std::int64_t step = (size + most - 1) / most;
  for (std::int64_t i = 0; i < size; i += step) {
    const Example e = sample(i);
    for (const Tensor* t : {&e.x, &e.y}) digest.add(t->raw_data(), t->bytes());
  }
  return digest.value();
}

}  // namespace laconic
