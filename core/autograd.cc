#include "core/autograd.h"

#include <algorithm>

#include "core/raw.h"

namespace laconic {
namespace {

const std::string kNoLayer;
thread_local bool is_recording = true;
thread_local std::uint64_t sequence_counter = 0;
thread_local std::uint64_t walk_counter = 0;
thread_local const std::string* layer = &kNoLayer;
thread_local BackwardWatch* backward_watch = nullptr;

/// What the two runs of a checkpointed segment share.
struct Segment {
  std::vector<Tensor> kept;  // the results of once(), in order
  std::size_t next = 0;      // the next one of the second run
  bool second = false;
};
thread_local Segment* segment = nullptr;  // the segment that runs on this thread

Tensor copy_of(const Tensor& t, Layout layout) {
  Tensor copy = Tensor::empty(t.shape(), t.dtype(), t.device(), layout);
  copy.copy_from(t);
  return copy;
}

}  // namespace

std::uint64_t Node::next_sequence() { return ++sequence_counter; }

bool recording() { return is_recording; }
NoGrad::NoGrad() : Scoped(is_recording, false) {}

LayerScope::LayerScope(const std::string& name) : Scoped(layer, &name) {}
void set_backward_watch(BackwardWatch* watch) { backward_watch = watch; }

bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs) {
  if (!is_recording) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.node() != nullptr; });
}

Grads::Target Grads::into(int i, const Shape& shape, Device device) {
  Node& target = *node_.inputs_[i].node;
  if (target.is_leaf()) {
    auto& leaf = static_cast<Leaf&>(target);
    if (!leaf.grad.defined()) leaf.grad = Tensor::empty(shape, DType::f32, device);
    require<ShapeError>(leaf.grad.shape() == shape, node_.operation_, ": a gradient of shape ", shape,
                        " for a parameter of shape ", leaf.grad.shape(), ".");
    const bool add = std::exchange(leaf.written, true);
    return {leaf.grad, add};
  }
  Tensor& pending = target.pending_;
  if (!pending.defined()) {
    pending = Tensor::empty(shape, DType::f32, device);
    return {pending, false};
  }
  pending = raw::cast(pending, DType::f32);
  if (!pending.sole_owner() || pending.layout() != Layout::plain) pending = copy_of(pending, Layout::plain);
  return {pending, true};
}

/// A ghost's gradient has no values. For a target that has some it is 0.
static Tensor of_values(Tensor gradient, Device device, DType dtype) {
  if (gradient.device() != kGhost || device == kGhost) return gradient;
  return Tensor::zeros(gradient.shape(), dtype, device);
}

void Grads::put(int i, Tensor gradient) {
  Node& target = *node_.inputs_[i].node;
  if (target.is_leaf()) {
    auto& leaf = static_cast<Leaf&>(target);
    if (!leaf.grad.defined()) leaf.grad = Tensor::empty(gradient.shape(), DType::f32, gradient.device());
    gradient = of_values(std::move(gradient), leaf.grad.device(), leaf.grad.dtype());
    if (std::exchange(leaf.written, true)) {
      raw::add_into(leaf.grad, gradient);
    } else {
      leaf.grad.copy_from(raw::cast(gradient, leaf.grad.dtype()));
    }
    return;
  }
  gradient = of_values(std::move(gradient), target.device_, target.dtype_);
  if (!target.pending_.defined()) {
    target.pending_ = std::move(gradient);
  } else if (target.takes_pair_ && !target.pending_second_.defined()) {
    target.pending_second_ = std::move(gradient);
  } else if (target.pending_.dtype() == DType::bf16) {
    target.pending_ = raw::wide_sum(target.pending_, gradient);  // sums are float32's
  } else {
    // The pending tensor may also be another input's gradient (an addition hands the same one to both): then it must
    // not be written into.
    if (!target.pending_.sole_owner()) target.pending_ = copy_of(target.pending_, target.pending_.layout());
    raw::add_into(target.pending_, gradient);
  }
}

std::int64_t Grads::chunk_rows(int i) const {
  const Node& target = *node_.inputs_[i].node;
  if (!target.is_leaf()) return 0;
  const auto& leaf = static_cast<const Leaf&>(target);
  return leaf.uses_ == 1 ? leaf.chunk_rows() : 0;
}

void Grads::complete_rows(int i, std::int64_t first, std::int64_t count) {
  static_cast<Leaf&>(*node_.inputs_[i].node).complete_rows(first, count);
}

/// The walk over a recorded graph.
class Tape {
 public:
  template <class Inputs>
  static Tensor record(const char* operation, const Tensor& y, const Inputs& inputs, BackwardPair backward,
                       bool takes_pair) {
    const auto wants = [](const Tensor& t) { return t.node() != nullptr; };
    if (!is_recording || std::none_of(inputs.begin(), inputs.end(), wants)) return y;
    auto node = std::make_shared<Node>(operation);
    node->scope_ = layer;
    node->dtype_ = y.dtype(), node->device_ = y.device();
    for (const Tensor& t : inputs) node->inputs_.push_back({t.node(), TensorWatch(t)});
    node->backward_ = std::move(backward);
    node->takes_pair_ = takes_pair;
    return y.with_node(std::move(node));
  }

  static void backward(const Tensor& loss, float scale) {
    require<ShapeError>(loss.defined() && loss.elements() == 1, "backward: the loss has shape ",
                        loss.defined() ? loss.shape() : Shape{},
                        ", not one element. Reduce it first, for example with a mean.");
    require<ShapeError>(loss.node() != nullptr,
                        "backward: the loss has no history. Was it computed under NoGrad, or from no parameter?");
    const std::uint64_t walk = ++walk_counter;
    const Nodes order = collect(loss.node(), 0, [walk](const std::shared_ptr<Node>& input) {
      auto& leaf = static_cast<Leaf&>(*input);
      leaf.uses_ = std::exchange(leaf.visited_, walk) == walk ? leaf.uses_ + 1 : 1;
    });
    NoGrad no_grad;
    loss.node()->pending_ = Tensor::full(loss.shape(), scale, loss.device());
    run(order);
  }

  static Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> f) {
    const auto shared = std::make_shared<Segment>();
    const std::uint64_t begin = sequence_counter;
    Tensor y;
    {
      // Recorded too, though the record is dropped: the very kernels of an ordinary run, and every use of a leaf.
      const Scoped<Segment*> running(segment, shared.get());
      y = f(x);
    }
    if (!y.node() || y.node()->sequence_ <= begin) return y;  // nothing to go back through
    auto node = std::make_shared<Node>("checkpoint");
    node->scope_ = layer;
    node->dtype_ = y.dtype(), node->device_ = y.device();
    node->takes_pair_ = y.node()->takes_pair_;
    collect(y.node(), begin, [&](const std::shared_ptr<Node>& input) { node->inputs_.push_back({input, {}}); });
    node->inputs_.push_back({nullptr, TensorWatch(x)});
    node->again_ = [x, f = std::move(f), shared] {
      shared->second = true;
      const Scoped<Segment*> running(segment, shared.get());
      return f(x);
    };
    return y.with_node(std::move(node));
  }

 private:
  using Nodes = std::vector<std::shared_ptr<Node>>;

  /// The nodes that lead to `root` and are younger than `begin`, the latest first. `outside` is told every use that
  /// they make of a leaf or an older node.
  template <class F>
  static Nodes collect(const std::shared_ptr<Node>& root, std::uint64_t begin, F&& outside) {
    const std::uint64_t walk = ++walk_counter;
    Nodes order;
    const auto visit = [&](const std::shared_ptr<Node>& node) {
      if (std::exchange(node->visited_, walk) != walk) order.push_back(node);
    };
    if (!root->is_leaf()) visit(root);
    for (std::size_t next = 0; next < order.size(); ++next) {
      const std::shared_ptr<Node> node = order[next];
      require<Error>(node->backward_ || node->again_, "backward: the graph of '", node->operation_,
                     "' was already used and freed. Run the forward pass again before a second backward.");
      for (const auto& [input, value] : node->inputs_) {
        if (!input) continue;
        input->is_leaf() || input->sequence_ <= begin ? outside(input) : visit(input);
      }
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a->sequence_ > b->sequence_; });
    return order;
  }

  static void run(const Nodes& order) {
    for (const auto& node : order) {
      if (node->pending_.defined()) require_unwritten(*node);
      node->again_ && node->pending_.defined() ? run_again(*node) : run(*node);
    }
  }

  static void require_unwritten(const Node& node) {
    for (const Node::Input& input : node.inputs_)
      require<Error>(!input.value.written(), "backward: input ", &input - node.inputs_.data(), " of '", node.operation_,
                     "' was written since the forward pass. Write into a copy instead.");
  }

  /// A checkpointed segment: makes its part of the graph anew and goes through that. Its nodes make the uses of leaves
  /// that were counted as this node's.
  static void run_again(Node& node) {
    const std::uint64_t begin = sequence_counter;
    Tensor y;
    {
      const Scoped<const std::string*> in_layer(layer, node.scope_);
      const Scoped<bool> recorded(is_recording, true);
      y = std::exchange(node.again_, nullptr)();
    }
    node.inputs_.clear();
    y.node()->pending_ = std::move(node.pending_);
    y.node()->pending_second_ = std::move(node.pending_second_);
    const Nodes order = collect(std::exchange(y, {}).node(), begin, [](const std::shared_ptr<Node>&) {});
    run(order);
  }

  static void run(Node& node) {
    const auto taken = [&](Tensor& pending) {
      Tensor gradient = std::exchange(pending, {});
      if (!gradient.defined()) return gradient;
      return raw::cast(of_values(std::move(gradient), node.device_, node.dtype_), node.dtype_);
    };
    const Tensor dy = taken(node.pending_), dy2 = taken(node.pending_second_);
    Grads grads(node);
    if (dy.defined()) {
      const Scoped<const std::string*> in_layer(layer, node.scope_ ? node.scope_ : &kNoLayer);
      if (backward_watch) backward_watch->before(node.operation_, *layer);
      std::exchange(node.backward_, nullptr)(dy, dy2, grads);
      if (backward_watch) backward_watch->after();
    }
    node.backward_ = nullptr;
    node.again_ = nullptr;
    for (const auto& [input, value] : std::exchange(node.inputs_, {})) {
      if (!input || !input->is_leaf()) continue;
      auto& leaf = static_cast<Leaf&>(*input);
      if (--leaf.uses_ == 0) leaf.complete();
    }
  }
};

static BackwardPair of_one(Backward backward) {
  return [backward = std::move(backward)](const Tensor& dy, const Tensor&, Grads& grads) { backward(dy, grads); };
}

Tensor record(const char* operation, const Tensor& y,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Backward backward) {
  return Tape::record(operation, y, inputs, of_one(std::move(backward)), false);
}
Tensor record(const char* operation, const Tensor& y, const std::vector<Tensor>& inputs, Backward backward) {
  return Tape::record(operation, y, inputs, of_one(std::move(backward)), false);
}
Tensor record_pair(const char* operation, const Tensor& y,
                   std::initializer_list<std::reference_wrapper<const Tensor>> inputs, BackwardPair backward) {
  return Tape::record(operation, y, inputs, std::move(backward), true);
}

Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> f) {
  return is_recording && !segment ? Tape::checkpoint(x, std::move(f)) : f(x);
}

bool recomputing() { return segment && segment->second; }

Tensor once(const std::function<Tensor()>& make) {
  if (!segment) return make();
  if (segment->second) return segment->kept.at(segment->next++);
  segment->kept.push_back(make());
  return segment->kept.back();
}

Tensor with_gradient(const Tensor& value, std::shared_ptr<Leaf> leaf) { return value.with_node(std::move(leaf)); }

void backward(const Tensor& loss, float scale) { Tape::backward(loss, scale); }

void Tensor::backward() const { laconic::backward(*this); }

}  // namespace laconic
