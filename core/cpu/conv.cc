#include <map>

#include "core/base/kept.h"
#include "core/base/parallel.h"
#include "core/cpu/convolutions.h"
#include "core/cpu/onednn.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"

namespace laconic::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct Geometry : ConvSizes {
  Layout input, output;
  bool bias, relu;
  int threads = kernel_threads();  // oneDNN picks blockings for the number of threads at creation
  auto operator<=>(const Geometry&) const = default;
};

Tag tag_of(Layout layout) {
  switch (layout) {
    case Layout::plain: return Tag::nchw;
    case Layout::channels_last: return Tag::nhwc;
    case Layout::blocked16: break;
  }
  return Tag::nChw16c;
}

/// A weight in the form that a kernel wants.
struct ConvWeights final : Derived {
  memory::desc description;
  Tensor values;
};

class Convolution {
 public:
  explicit Convolution(const Geometry& g)
      : g_(g),
        winograd_(takes_winograd(g, g.input, g.output)),
        direct_(takes_direct(g, g.input, g.output)),
        pointwise_(takes_pointwise(g, g.input, g.output)) {
    const memory::data_type f32 = memory::data_type::f32;
    x_ = memory::desc({g.n, g.c, g.h, g.w}, f32, tag_of(g.input));
    y_ = memory::desc({g.n, g.out, g.oh, g.ow}, f32, tag_of(g.output));
    if (g.bias) b_ = memory::desc({g.out}, f32, Tag::x);
    const memory::dims dims = g.groups == 1 ? memory::dims{g.out, g.c, g.kh, g.kw}
                                            : memory::dims{g.groups, g.out / g.groups, g.c / g.groups, g.kh, g.kw};
    w_plain_ = memory::desc(dims, f32, g.groups == 1 ? Tag::oihw : Tag::goihw);
    w_any_ = memory::desc(dims, f32, Tag::any);
    strides_ = {g.stride, g.stride};
    dilations_ = {g.dilation - 1, g.dilation - 1};
    padding_ = {g.pad, g.pad};
  }

  void forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b) {
    if (winograd_)
      return winograd_forward(y.data<float>(), x.data<float>(), w.data<float>(), g_.bias ? b.data<float>() : nullptr,
                              g_.relu, g_, g_.input, g_.output);
    if (direct_)
      return direct_forward(y.data<float>(), x.data<float>(), w.data<float>(), g_.bias ? b.data<float>() : nullptr,
                            g_.relu, g_);
    if (!forward_.primitive) {
      dnnl::primitive_attr attributes = onednn_attributes();
      if (g_.relu) append_relu(attributes);
      const auto description = describe_forward(attributes);
      forward_.w = description.weights_desc();
      forward_.primitive = {
          "conv forward",
          description,
          {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, forward_.w}, {DNNL_ARG_BIAS, b_}, {DNNL_ARG_DST, y_}}};
    }
    const Tensor form = weights(w, forward_.w, true);
    forward_.primitive.run({{DNNL_ARG_SRC, x.raw_data()},
                            {DNNL_ARG_WEIGHTS, form.raw_data()},
                            {DNNL_ARG_BIAS, g_.bias ? b.raw_data() : nullptr},
                            {DNNL_ARG_DST, y.raw_data()}});
  }

  void backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w) {
    if (winograd_)
      return winograd_backward_data(dx.data<float>(), dy.data<float>(), w.data<float>(), g_, g_.input, g_.output);
    if (direct_) return direct_backward_data(dx.data<float>(), dy.data<float>(), w.data<float>(), g_);
    if (!data_.primitive) {
      const auto description =
          describe_backward<dnnl::convolution_backward_data>(onednn_engine(), onednn_attributes(), hint(), kDirect, x_,
                                                             w_any_, y_, strides_, dilations_, padding_, padding_);
      data_.w = description.weights_desc();
      data_.primitive = {"conv backward data",
                         description,
                         {{DNNL_ARG_DIFF_SRC, x_}, {DNNL_ARG_WEIGHTS, data_.w}, {DNNL_ARG_DIFF_DST, y_}}};
    }
    const Tensor form = weights(w, data_.w, false);
    data_.primitive.run(
        {{DNNL_ARG_DIFF_SRC, dx.raw_data()}, {DNNL_ARG_WEIGHTS, form.raw_data()}, {DNNL_ARG_DIFF_DST, dy.raw_data()}});
  }

  void backward_weights(const Tensor& dw, bool add_dw, const Tensor& db, bool add_db, const Tensor& x,
                        const Tensor& dy) {
    if (winograd_)
      return winograd_backward_weights(dw.data<float>(), add_dw, g_.bias ? db.data<float>() : nullptr, add_db,
                                       x.data<float>(), dy.data<float>(), g_, g_.input, g_.output);
    if (direct_)
      return direct_backward_weights(dw.data<float>(), add_dw, g_.bias ? db.data<float>() : nullptr, add_db,
                                     x.data<float>(), dy.data<float>(), g_);
    if (pointwise_)
      return pointwise_backward_weights(dw.data<float>(), add_dw, g_.bias ? db.data<float>() : nullptr, add_db,
                                        x.data<float>(), dy.data<float>(), g_);
    if (!weights_.primitive) {
      const auto with = [&](const auto&... tensors) {
        return describe_backward<dnnl::convolution_backward_weights>(onednn_engine(), onednn_attributes(), hint(),
                                                                     kDirect, tensors..., strides_, dilations_,
                                                                     padding_, padding_);
      };
      const auto description = g_.bias ? with(x_, w_any_, b_, y_) : with(x_, w_any_, y_);
      weights_.w = description.diff_weights_desc();
      weights_.primitive = {
          "conv backward weights",
          description,
          {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DIFF_WEIGHTS, weights_.w}, {DNNL_ARG_DIFF_BIAS, b_}, {DNNL_ARG_DIFF_DST, y_}}};
    }
    const memory::desc& found = weights_.w;
    const bool direct = found == w_plain_ && !add_dw;
    const Tensor blocked = direct ? dw : Tensor::empty({static_cast<std::int64_t>(found.get_size() / sizeof(float))});
    const Tensor bias = g_.bias && add_db ? Tensor::empty({g_.out}) : db;
    weights_.primitive.run({{DNNL_ARG_SRC, x.raw_data()},
                            {DNNL_ARG_DIFF_WEIGHTS, blocked.raw_data()},
                            {DNNL_ARG_DIFF_BIAS, g_.bias ? bias.raw_data() : nullptr},
                            {DNNL_ARG_DIFF_DST, dy.raw_data()}});
    if (!direct) reorder(found, blocked.raw_data(), w_plain_, dw.raw_data(), add_dw);
    if (g_.bias && add_db) cpu::add(db.data<float>(), bias.data<float>(), g_.out);
  }

 private:
  using Forward = dnnl::convolution_forward;

  static constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;

  Forward::primitive_desc describe_forward(const dnnl::primitive_attr& attributes) {
    const auto with = [&](const auto&... tensors) {
      return describe<Forward>(onednn_engine(), attributes, dnnl::prop_kind::forward_training, kDirect, tensors...,
                               strides_, dilations_, padding_, padding_);
    };
    return g_.bias ? with(x_, w_any_, b_, y_) : with(x_, w_any_, y_);
  }
  Forward::primitive_desc hint() { return describe_forward(onednn_attributes()); }

  /// w in the form asked for. Forward keeps its form until the value changes (evaluation uses it again and again);
  /// backward borrows that one if it fits, else makes its own for the moment: the value changes every step anyway.
  Tensor weights(const Tensor& w, const memory::desc& wanted, bool keep) {
    if (wanted == w_plain_) return w;
    auto* cache = dynamic_cast<ConvWeights*>(w.derived().get());
    if (cache && cache->version == w.version() && cache->description == wanted) return cache->values;
    const bool reuse = keep && cache && cache->description == wanted;
    const Tensor values =
        reuse ? cache->values : Tensor::empty({static_cast<std::int64_t>(wanted.get_size() / sizeof(float))});
    reorder(w_plain_, w.raw_data(), wanted, values.raw_data());
    if (keep) {
      auto made = std::make_shared<ConvWeights>();
      made->version = w.version();
      made->description = wanted;
      made->values = values;
      w.derived() = std::move(made);
    }
    return values;
  }

  Geometry g_;
  // Our own: all passes, or with pointwise_ the weights' gradient; else oneDNN's direct sums.
  const bool winograd_, direct_, pointwise_;
  memory::desc x_, y_, b_, w_plain_, w_any_;
  memory::dims strides_, dilations_, padding_;
  struct {
    BoundPrimitive primitive;
    memory::desc w;  // the weights, or their gradient, as it takes them
  } forward_, data_, weights_;
};

Convolution& convolution(const Tensor& x, const Tensor& y, const Shape& w, bool bias, const ops::Conv2dOptions& o) {
  const Geometry g{conv_sizes(x, y, w, o), x.layout(), y.layout(), bias, o.relu};
  thread_local std::map<Geometry, Convolution> made;
  return kept(made, g, g);
}

}  // namespace

ConvLayouts conv_layouts(const Tensor& x, std::int64_t out, int groups) {
  const std::int64_t c = x.dim(1);
  const bool wide = has_avx512() && out % 16 == 0 && (groups == 1 || (c / groups % 16 == 0 && out / groups % 16 == 0));
  if (wide && c % 16 == 0 && x.layout() != Layout::channels_last) return {Layout::blocked16, Layout::blocked16};
  // The first convolution of a model reads the image as it comes.
  if (wide && c <= 4 && x.layout() == Layout::plain) return {Layout::plain, Layout::blocked16};
  return {Layout::channels_last, Layout::channels_last};
}

void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
                    const ops::Conv2dOptions& options) {
  convolution(x, y, w.shape(), b.defined(), options).forward(y, x, w, b);
}

// The backward passes do not depend on the ReLU (its mask is already in dy). The weights' gradient shares the object of
// the forward pass.
void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& options) {
  convolution(dx, dy, w.shape(), false, options).backward_data(dx, dy, w);
}

void conv2d_backward_weights(const Tensor& dw, bool add_dw, const Tensor& db, bool add_db, const Tensor& x,
                             const Tensor& dy, const ops::Conv2dOptions& options) {
  convolution(x, dy, dw.shape(), db.defined(), options).backward_weights(dw, add_dw, db, add_db, x, dy);
}

}  // namespace laconic::cpu
