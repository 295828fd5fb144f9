#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/scoped.h"
#include "core/tensor.h"

namespace laconic {

class Grads;

/// One recorded operation, or a leaf whose gradient is wanted. Operations make nodes through record(); users never see
/// them. A node owns what its backward needs and the nodes of its inputs, until its backward has run.
class Node {
 public:
  explicit Node(const char* operation) : operation_(operation), sequence_(next_sequence()) {}
  virtual ~Node() = default;
  virtual bool is_leaf() const { return false; }
  const char* operation() const { return operation_; }

 private:
  friend class Grads;
  friend class Tape;
  static std::uint64_t next_sequence();

  const char* operation_;
  std::uint64_t sequence_;                      // made later = used later: descending order is a valid backward order
  const std::string* scope_ = nullptr;          // the layer that was running, for traces; owned by the module
  DType dtype_ = DType::f32;                    // the type of the operation's result and of its gradient
  Device device_;                               // the device of both
  struct Input {
    std::shared_ptr<Node> node;  // null where no gradient is wanted
    TensorWatch value;           // the value that backward may need as it was
  };
  std::vector<Input> inputs_;
  std::function<void(const Tensor&, const Tensor&, Grads&)> backward_;
  std::function<Tensor()> again_;               // a checkpointed segment's second run, recorded
  bool takes_pair_ = false;                     // gradients of two uses are handed over unsummed
  Tensor pending_, pending_second_;             // the sums of what consumers have contributed so far
  std::uint64_t visited_ = 0;
};

/// A leaf: where a gradient is collected. The first use in a step WRITES, later uses ADD, so that nobody has to zero
/// gradients; accumulation over several backward passes is the same rule.
class Leaf : public Node {
 public:
  Leaf() : Node("leaf") {}
  bool is_leaf() const override { return true; }
  Tensor grad;           ///< allocated at first use unless set before
  bool written = false;  ///< false: the next contribution overwrites
  /// Called by Tape at the last use in a backward pass. Uses are counted over the part of the graph that is walked.
  virtual void complete() {}
  /// Rows in which an operation that can should finish this gradient, telling complete_rows after each; 0: at once.
  virtual std::int64_t chunk_rows() const { return 0; }
  /// Rows [first, first + count) of grad are final: no use of them is left. complete() still follows.
  virtual void complete_rows(std::int64_t /*first*/, std::int64_t /*count*/) {}

 private:
  friend class Grads;
  friend class Tape;
  int uses_ = 0;
};

/// Where a backward function puts the gradients of its operation's inputs, by their number in record().
class Grads {
 public:
  explicit Grads(Node& node) : node_(node) {}
  bool wants(int i) const { return node_.inputs_[i].node != nullptr; }

  struct Target {
    Tensor tensor;  ///< plain layout, float32
    bool add;       ///< false: overwrite; true: add to what is there
  };
  /// Memory for the gradient of input i, for kernels that can write or add in place: a parameter's slice of the
  /// gradient arena. Throws ShapeError if the leaf's gradient has another shape.
  Target into(int i, const Shape& shape, Device device);
  /// Hands over a gradient in memory of its own, float32 or bf16; kept without a copy where possible.
  void put(int i, Tensor gradient);

  /// Rows in which the gradient of input i is wanted, because it travels so; 0: as a whole, also at any use but the
  /// last, which alone makes rows final. An operation that goes by it calls complete_rows after each chunk.
  std::int64_t chunk_rows(int i) const;
  void complete_rows(int i, std::int64_t first, std::int64_t count);

 private:
  Node& node_;
};

using Backward = std::function<void(const Tensor& dy, Grads& grads)>;
using BackwardPair = std::function<void(const Tensor& dy, const Tensor& dy2, Grads& grads)>;

/// True while operations are being recorded on this thread (not inside NoGrad).
bool recording();
/// While one lives, nothing is recorded on this thread.
struct NoGrad : Scoped<bool> {
  NoGrad();
};

/// True if any of these wants a gradient now: what an operation asks before it keeps values for its backward.
bool wants_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> inputs);

/// Declares y = operation(inputs) with its derivative: `backward(dy, grads)` puts dL/d(input i) for every i with
/// grads.wants(i). dy is bf16 if y is, else float32. It captures values (Tensor::value()), never nodes: one that holds
/// its own output would never be freed. Returns y with its history, or plain y if no gradient is wanted.
Tensor record(const char* operation, const Tensor& y,
              std::initializer_list<std::reference_wrapper<const Tensor>> inputs, Backward backward);
Tensor record(const char* operation, const Tensor& y, const std::vector<Tensor>& inputs, Backward backward);
/// record() for an operation that can take dL/dy as two unsummed parts (dy2 may be undefined): where a value was used
/// twice, the sum is then fused into the operation's own pass over memory.
Tensor record_pair(const char* operation, const Tensor& y,
                   std::initializer_list<std::reference_wrapper<const Tensor>> inputs, BackwardPair backward);

/// A tensor whose gradient is collected in `leaf`, for experiments and tests (models use core/parameter.h).
Tensor with_gradient(const Tensor& value, std::shared_ptr<Leaf> leaf);

/// Runs the tape backward from `loss` (one element), whose own gradient is `scale`. Order: reverse topological,
/// deterministic. Frees the graph on the way. Cost: each recorded operation once.
/// Throws Error if the graph was already used or one of its inputs was written since, ShapeError if loss has more than
/// one element or no history.
void backward(const Tensor& loss, float scale = 1.0f);

/// y = f(x), keeping x alone: when backward comes here f is run again, recorded, and backward goes through what that
/// made, then on in front of x. No bit differs from f(x) without this: gradients are added in the same order, and a
/// parameter is complete at its last use as ever. Saves what f keeps for its backward, costs f once more.
/// f must do the same both times: what it depends on (x, parameters, a ForwardContext) may not change before backward;
/// what it changes besides, or what must not be computed anew, goes through once() and recomputing(). Inside another
/// segment, and where nothing is recorded, this is f(x).
///   source   Chen et al. 2016, "Training deep nets with sublinear memory cost"
Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> f);
/// True on this thread while a segment is run for the second time: a count of runs leaves this one out.
bool recomputing();
/// make(); in the second run of a segment, what the same call gave in the first. For what is small and dear to compute,
/// or comes with a side effect.
Tensor once(const std::function<Tensor()>& make);

/// Names the layer that runs on this thread, for traces and messages; nests. Made by Module. The string must outlive
/// the graph.
struct LayerScope : Scoped<const std::string*> {
  explicit LayerScope(const std::string& name);
};

/// Called around each operation's backward on this thread while set (traces); null: nothing.
struct BackwardWatch {
  virtual ~BackwardWatch() = default;
  virtual void before(const char* operation, const std::string& layer) = 0;
  virtual void after() = 0;
};
void set_backward_watch(BackwardWatch* watch);

}  // namespace laconic
