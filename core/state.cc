#include "core/state.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace laconic {
namespace {

std::string did_you_mean(const std::string& name, const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [n, tensor] : state) names.push_back(n);
  const std::string close = nearest(name, names);
  return close.empty() ? "" : concat(" The nearest name there is '", close, "'.");
}

}  // namespace

void StateDict::set(const std::string& name, Tensor tensor) {
  require<DataError>(!name.empty() && name != "__metadata__", "state: a tensor cannot be named '", name,
                     "'. Choose another name.");
  const auto [place, added] = index_.emplace(name, entries_.size());
  if (added)
    entries_.emplace_back(name, std::move(tensor));
  else
    entries_[place->second].second = std::move(tensor);
}

const Tensor* StateDict::find(const std::string& name) const {
  const auto place = index_.find(name);
  return place == index_.end() ? nullptr : &entries_[place->second].second;
}

const Tensor& StateDict::at(const std::string& name) const {
  const Tensor* tensor = find(name);
  if (!tensor)
    throw DataError(concat("state: there is no tensor '", name, "' among ", size(), ".", did_you_mean(name, *this),
                           " Was this saved by another model or version?"));
  return *tensor;
}

void StateDict::merge(const StateDict& other, const std::string& prefix) {
  for (const auto& [name, tensor] : other) set(prefix + name, tensor);
  for (const auto& [name, text] : other.texts_) texts_[prefix + name] = text;
}

StateDict StateDict::part(const std::string& prefix) const {
  StateDict found;
  for (const auto& [name, tensor] : entries_)
    if (name.starts_with(prefix) && name.size() > prefix.size()) found.set(name.substr(prefix.size()), tensor);
  for (const auto& [name, text] : texts_)
    if (name.starts_with(prefix)) found.texts_[name.substr(prefix.size())] = text;
  return found;
}

void StateDict::copy_to(const Tensor& to, const std::string& name, const std::string& what) const {
  const Tensor& stored = at(name);
  require<DataError>(stored.dtype() == to.dtype() && stored.shape() == to.shape(), "resume: ", what, " is ",
                     stored.shape(), " of ", stored.dtype(), ", this model has ", to.shape(), " of ", to.dtype(),
                     ". Give the same options.");
  to.copy_from(stored);
}

std::vector<std::int64_t> StateDict::numbers(const std::string& name, std::size_t count,
                                             const std::string& what) const {
  const Tensor& stored = at(name);
  require<DataError>(stored.dtype() == DType::i64 && stored.elements() == static_cast<std::int64_t>(count),
                     "resume: ", what, " is damaged. Use an older checkpoint.");
  return {stored.data<std::int64_t>(), stored.data<std::int64_t>() + count};
}

const std::string& StateDict::text(const std::string& name) const {
  const auto place = texts_.find(name);
  require<DataError>(place != texts_.end(), "state: there is no text '", name,
                     "'. Was this saved by another model or version?");
  return place->second;
}

void require_match(std::span<const ExpectedTensor> expected, const StateDict& found, const std::string& where,
                   const std::string& what) {
  std::set<std::string> names;
  for (const auto& e : expected) {
    names.insert(e.name);
    const Tensor* tensor = found.find(e.name);
    if (!tensor)
      throw DataError(concat(where, ": '", e.name, "' ", e.shape, " of ", what, " is not in the file.",
                             did_you_mean(e.name, found), " Was it saved from another model?"));
    require<DataError>(tensor->shape() == e.shape, where, ": '", e.name, "' is ", tensor->shape(), " in the file but ",
                       what, " expects ", e.shape, ". Was it saved from another model?");
    require<DataError>(tensor->dtype() == e.dtype, where, ": '", e.name, "' is ", tensor->dtype(), " in the file but ",
                       what, " expects ", e.dtype, ". Convert it, or save it from the same model.");
  }
  for (const auto& [name, tensor] : found)
    require<DataError>(names.contains(name) || name.ends_with(".num_batches_tracked"), where, ": '", name, "' ",
                       tensor.shape(), " is in the file but ", what,
                       " has nothing of that name. Was it saved from another model?");
}

}  // namespace laconic
