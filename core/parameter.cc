#include "core/parameter.h"

#include <algorithm>

#include "core/raw.h"

namespace laconic {
namespace {
constexpr std::int64_t kAlignElements = 16;
}

const char* to_string(Role role) {
  switch (role) {
    case Role::conv: return "conv";
    case Role::linear: return "linear";
    case Role::recurrent: return "recurrent";
    case Role::embedding: return "embedding";
    case Role::norm: return "norm";
    case Role::bias: break;
  }
  return "bias";
}

Parameter::Parameter(const Shape& shape, Role role) : value_(Tensor::empty(shape)), leaf_(std::make_shared<ParameterLeaf>()) {
  info.shape = shape;
  info.role = role;
  info.elements = shape.elements();
  leaf_->owner = this;
}

void Parameter::ParameterLeaf::complete() {
  if (owner->arena_) owner->arena_->announce(*owner);
}

Tensor Parameter::fresh() {
  if (arena_ && arena_->listener_) arena_->listener_->before_forward(*this, all_rows());
  return tensor();
}

ParameterArena::ParameterArena(const std::vector<std::shared_ptr<Parameter>>& registered, Device device) {
  for (auto it = registered.rbegin(); it != registered.rend(); ++it) {
    // A tied parameter belongs where its first registration puts it: it is ready only after that (earlier) layer.
    if (std::find(std::next(it), registered.rend(), *it) != registered.rend()) continue;
    require<Error>((*it)->arena_ == nullptr, "arena: parameter ", (*it)->info.name, " already belongs to another arena.");
    parameters_.push_back(*it);
  }
  for (const auto& p : parameters_) {
    p->info.index = static_cast<int>(&p - parameters_.data());
    p->info.offset = size_;
    elements_ += p->info.elements;
    size_ += (p->info.elements + kAlignElements - 1) / kAlignElements * kAlignElements;
  }
  values_ = Tensor::zeros({size_}, DType::f32, device);
  gradients_ = Tensor::zeros({size_}, DType::f32, device);
  for (const auto& p : parameters_) {
    p->arena_ = this;
    const Tensor place = values_.range(p->info.offset, p->info.elements).view(p->info.shape);
    place.copy_from(p->value_);
    p->value_ = place;
    p->leaf_->grad = gradients_.range(p->info.offset, p->info.elements).view(p->info.shape);
    p->leaf_->written = false;
  }
  release_unused_memory(device);  // where the values were before
}

ParameterArena::~ParameterArena() {
  for (const auto& p : parameters_) p->arena_ = nullptr;
}

Tensor ParameterArena::make_state() const { return Tensor::zeros({size_}, DType::f32, values_.device()); }

void ParameterArena::begin_step() {
  for (const auto& p : parameters_) p->leaf_->written = p->announced_ = false;
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
  if (!last_ || p.announced_) return;
  p.announced_ = true;
  if (listener_) listener_->gradient_ready(p, p.all_rows());
}

}  // namespace laconic
