#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/slice.h"
#include "core/tensor.h"

namespace laconic {

/// What a parameter is for. Optimisers (no decay on norms), compressors (dispatch by kind) and plans read it; nobody
/// needs to know the layer.
enum class Role : std::uint8_t { conv, linear, recurrent, embedding, norm, bias };
const char* to_string(Role role);

/// Rows [first, first + count) of a parameter's outermost dimension.
struct Rows {
  std::int64_t first = 0, count = 0;
  bool operator==(const Rows&) const = default;
};

/// A description that travels without the memory.
struct ParameterInfo {
  std::string name;  ///< the name in checkpoints, for example "features.0.weight"
  Shape shape;
  Role role = Role::linear;
  bool output = false;        ///< belongs to the layer that makes the predictions (never quantised by some methods)
  int index = -1;             ///< position in the arena: 0 is used last in forward and ready first in backward
  std::int64_t elements = 0;
  std::int64_t offset = -1;   ///< first element in the arena, a multiple of 16 (64 bytes)

  /// Elements [first, first + count) of a parameter.
  struct Part {
    std::int64_t first = 0, count = 0;
  };
  /// The elements of these rows.
  Part part(Rows rows) const {
    const std::int64_t row = elements / std::max<std::int64_t>(1, shape.rank() ? shape[0] : 1);
    return {rows.first * row, rows.count * row};
  }
};

class Parameter;

/// Told when gradients are complete and asked before values are used: a strategy (dist/method) or the plain optimiser
/// loop. All calls come on the compute thread.
class ParameterListener {
 public:
  virtual ~ParameterListener() = default;
  /// These rows of the gradient are final for this step. O(1), or one pass over them.
  virtual void gradient_ready(Parameter& parameter, Rows rows) = 0;
  /// These rows of the value are about to be read by a forward pass: returns when they are fresh.
  virtual void before_forward(Parameter& parameter, Rows rows) = 0;
};

/// A trained tensor: value, gradient and description. Made by a Module, shared where layers tie weights, and moved into
/// an arena before training.
class Parameter {
 public:
  Parameter(const Shape& shape, Role role, Device device = kCpu);
  ~Parameter() { leaf_->owner = nullptr; }  // a graph may hold the leaf for longer
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  ParameterInfo info;
  /// The value as a leaf of the tape: what operations take. A frozen parameter gives its value alone.
  Tensor tensor() const { return frozen_ ? value_ : value_.with_node(leaf_); }
  const Tensor& value() const { return value_; }
  /// A frozen parameter is not trained: it has no gradient, nothing of it is sent, and arenas leave it out.
  /// Throws Error if it is in an arena, or was left out of one.
  void freeze(bool on = true);
  bool frozen() const { return frozen_; }
  /// Moves the value to a device, and forgets the gradient. Throws Error if it is in an arena on another one.
  void to(Device device);
  /// The gradient of this step; undefined before the first backward unless in an arena.
  const Tensor& grad() const { return leaf_->grad; }
  Rows all_rows() const { return {0, info.shape.rank() ? info.shape[0] : 1}; }

  /// Waits until the value may be read (listener), then returns tensor(). Called by layers in forward.
  Tensor fresh();
  /// Waits for these rows alone.
  void refresh(Rows rows);

  /// Rows in which operations that can (ops::linear, the recurrent ones, ops::embedding) finish the gradient and await
  /// the value, so that a large weight travels while it is computed; 0: as a whole. Set by a strategy from its plan:
  /// the products' bits may depend on it.
  std::int64_t chunk_rows() const { return chunk_rows_; }
  void set_chunk_rows(std::int64_t rows) { chunk_rows_ = rows; }

 private:
  friend class ParameterArena;
  struct ParameterLeaf final : Leaf {
    Parameter* owner = nullptr;  // null once it is gone
    void complete() override;
    std::int64_t chunk_rows() const override;
    void complete_rows(std::int64_t first, std::int64_t count) override;
  };
  Tensor value_;
  std::shared_ptr<ParameterLeaf> leaf_;
  class ParameterArena* arena_ = nullptr;
  bool frozen_ = false;
  int arenas_without_ = 0;  // arenas that have left it out
  std::int64_t chunk_rows_ = 0;
  std::int64_t announced_rows_ = 0;  // rows of this step's gradient: all, none, or some while chunks are finished
};

/// All parameters of one model in one piece of memory, their gradients in another, both in the same order: the reverse
/// of registration, so that what backward finishes together lies together. Each parameter starts on 64 bytes; the
/// padding between is zero and belongs to no count. Fusing neighbours costs no copy; the optimiser, a checksum or a
/// checkpoint is one walk.
class ParameterArena {
 public:
  /// Moves the parameters (in order of registration, duplicates allowed: tied weights) and keeps their values. Frozen
  /// ones stay where they are.
  explicit ParameterArena(const std::vector<std::shared_ptr<Parameter>>& registered, Device device = kCpu);
  ~ParameterArena();
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  const std::vector<std::shared_ptr<Parameter>>& parameters() const { return parameters_; }  ///< arena order
  std::int64_t elements() const { return elements_; }   ///< trained numbers, without padding
  std::int64_t size() const { return size_; }           ///< numbers with padding
  const Tensor& values() const { return values_; }      ///< [size()]
  const Tensor& gradients() const { return gradients_; }
  /// Zeros laid out like the arena, for momentum, residuals, …   Parameter p's part: state.range(p.offset, p.elements)
  Tensor make_state() const;

  /// Says that values() was written in the places of these parameters; without a range, of all. What kernels have made
  /// of the old values, as weights in an order of their own, no longer counts. Parameters' own tensors tell by
  /// themselves.
  void changed(int first, int count) const {
    for (int i = first; i < first + count; ++i) parameters_[static_cast<std::size_t>(i)]->value().bump_version();
  }
  void changed() const { changed(0, static_cast<int>(parameters_.size())); }

  void set_listener(ParameterListener* listener) { listener_ = listener; }  ///< null: none. Not owned

  /// Forgets the gradients of the last step (writes nothing: the first use overwrites).
  void begin_step();
  /// Backward from loss. With last = true each parameter's gradient_ready fires at its last use; earlier micro-batches
  /// of an accumulated step pass false.
  void backward(const Tensor& loss, float scale = 1.0f, bool last = true);
  /// Ends the step's gradients: what no use has written is zeroed, what was not announced is announced, in arena order,
  /// so that no collective is missing on any rank. An idle rank calls only this.
  void finish_gradients();

 private:
  friend class Parameter;
  void leave_parameters();
  void announce(Parameter& p);
  void announce(Parameter& p, Rows rows);
  std::vector<std::shared_ptr<Parameter>> parameters_, left_out_;
  Tensor values_, gradients_;
  std::int64_t elements_ = 0, size_ = 0;
  ParameterListener* listener_ = nullptr;
  bool last_ = true;
};

}  // namespace laconic
