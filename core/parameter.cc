#include "core/parameter.h"

#include "core/raw.h"

namespace laconic {
namespace {
constexpr std::int64_t kAlignElements = 16;
}

const char* to_string(Role role) {
  constexpr const char* kNames[] = {"conv", "linear", "recurrent", "embedding", "norm", "bias"};
  return kNames[static_cast<std::size_t>(role)];
}

Parameter::Parameter(const Shape& shape, Role role, Device device)
    : value_(Tensor::empty(shape, DType::f32, device)), leaf_(std::make_shared<ParameterLeaf>()) {
  info.shape = shape;
  info.role = role;
  info.elements = shape.elements();
  leaf_->owner = this;
}

void Parameter::freeze(bool on) {
  require<Error>(on == frozen_ || arena_ == nullptr, "freeze: parameter ", info.name,
                 " is being trained. Freeze parameters before a Trainer is made.");
  require<Error>(on == frozen_ || arenas_without_ == 0, "freeze: parameter ", info.name,
                 " was frozen when a Trainer was made. Unfreeze it before one is made.");
  frozen_ = on;
}

void Parameter::to(Device device) {
  if (value_.device() == device) return;
  require<Error>(arena_ == nullptr, "to: parameter ", info.name, " is being trained on device ", value_.device(), ".");
  const Tensor moved = Tensor::empty(value_.shape(), DType::f32, device);
  moved.copy_from(value_);
  value_ = moved;
  leaf_->grad = {}, leaf_->written = false;  // it was on the old device
}

void Parameter::ParameterLeaf::complete() {
  // Where no use has put a gradient, last step's is there still: finish_gradients() zeroes it first.
  if (owner && owner->arena_ && written) owner->arena_->announce(*owner);
}

std::int64_t Parameter::ParameterLeaf::chunk_rows() const {
  return owner && owner->arena_ && owner->arena_->last_ ? owner->chunk_rows_ : 0;
}

void Parameter::ParameterLeaf::complete_rows(std::int64_t first, std::int64_t count) {
  if (owner && owner->arena_) owner->arena_->announce(*owner, {first, count});
}

Tensor Parameter::fresh() {
  refresh(all_rows());
  return tensor();
}

void Parameter::refresh(Rows rows) {
  if (recomputing()) return;  // the first run has waited, and no update has come since
  if (arena_ && arena_->listener_) arena_->listener_->before_forward(*this, rows);
}

ParameterArena::ParameterArena(const std::vector<std::shared_ptr<Parameter>>& registered, Device device) {
  for (auto it = registered.rbegin(); it != registered.rend(); ++it) {
    if ((*it)->frozen()) {
      left_out_.push_back(*it);
      continue;
    }
    // A tied parameter belongs where its first registration puts it: it is ready only after that (earlier) layer.
    if (std::find(std::next(it), registered.rend(), *it) != registered.rend()) continue;
    require<Error>((*it)->arena_ == nullptr, "arena: parameter ", (*it)->info.name,
                   " already belongs to another arena.");
    require<Error>((*it)->info.elements > 0, "arena: parameter ", (*it)->info.name, " has no elements: its shape is ",
                   (*it)->info.shape, ". Leave it out of the model.");
    parameters_.push_back(*it);
  }
  for (const auto& p : parameters_) {
    p->info.index = static_cast<int>(&p - parameters_.data());
    p->info.offset = size_;
    elements_ += p->info.elements;
    size_ += (p->info.elements + kAlignElements - 1) / kAlignElements * kAlignElements;
  }
  values_ = Tensor::zeros({size_}, DType::f32, device);
  values_.keep_versions_apart();
  for (const auto& p : left_out_) ++p->arenas_without_;
  for (const auto& p : parameters_) {
    p->arena_ = this;
    const Tensor place = values_.range(p->info.offset, p->info.elements).view(p->info.shape);
    place.copy_from(p->value_);
    p->value_ = place;
    p->leaf_->grad = {}, p->leaf_->written = false;
  }
  release_unused_memory(kCpu);  // the old place of the values: there are never three copies
  try {
    gradients_ = Tensor::zeros({size_}, DType::f32, device);
  } catch (...) {
    leave_parameters();
    throw;
  }
  for (const auto& p : parameters_)
    p->leaf_->grad = gradients_.range(p->info.offset, p->info.elements).view(p->info.shape);
}

ParameterArena::~ParameterArena() { leave_parameters(); }

void ParameterArena::leave_parameters() {
  for (const auto& p : parameters_) p->arena_ = nullptr;
  for (const auto& p : left_out_) --p->arenas_without_;
}

Tensor ParameterArena::make_state() const { return Tensor::zeros({size_}, DType::f32, values_.device()); }

void ParameterArena::begin_step() {
  for (const auto& p : parameters_) p->leaf_->written = false, p->announced_rows_ = 0;
}

void ParameterArena::backward(const Tensor& loss, float scale, bool last) {
  last_ = last;
  laconic::backward(loss, scale);
}

void ParameterArena::finish_gradients() {
  last_ = true;
  for (const auto& p : parameters_) {
    if (!p->leaf_->written) {
      // No forward has asked for this parameter in this step, so an update of the last one may still be on its way.
      if (listener_) listener_->before_forward(*p, p->all_rows());
      raw::fill(p->leaf_->grad, 0.0f);
      p->leaf_->written = true;
    }
    announce(*p);
  }
}

void ParameterArena::announce(Parameter& p) {
  if (p.announced_rows_ == 0) announce(p, p.all_rows());
}

void ParameterArena::announce(Parameter& p, Rows rows) {
  if (!last_) return;
  p.announced_rows_ += rows.count;
  if (listener_) listener_->gradient_ready(p, rows);
}

}  // namespace laconic
