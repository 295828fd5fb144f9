#include "layers/foreign_weights.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json.h"
#include "core/raw.h"
#include "core/stored_elements.h"

namespace laconic {
namespace {

/// A name's first part without digits: what parts of a kind have alike.
std::string kind_of_part(const std::string& name) {
  std::string part = name.substr(0, name.find('.'));
  std::erase_if(part, [](unsigned char c) { return std::isdigit(c); });
  return part;
}

class Chooser {
 public:
  Chooser(const Module& model, const WeightsFile& file, const std::string& what)
      : model_(model), file_(file), what_(what), own_(model.state_dict()) {
    for (const auto& [name, parameter] : model.named_parameters()) names_[parameter.get()].push_back(name);
    for (const auto& [name, tensor] : own_) parts_.insert(kind_of_part(name));
    for (const auto& [parameter, names] : names_)
      for (const std::string& name : names) parts_.insert(kind_of_part(name)), known_.insert(name);
    for (const auto& [name, tensor] : own_) known_.insert(name);
  }

  TakenWeights taken() {
    take_off_prefixes();
    for (const auto& [name, entry] : file_.entries()) place(name, entry);
    for (const auto& [parameter, names] : names_)
      if (names.size() > 1) join_tied(names);
    for (const auto& [name, from] : chosen_) {
      const Tensor* const its = own_.find(name);
      taken_.weights.set(name, file_.read_as(from, its ? its->dtype() : DType::f32));
    }
    cut_vocabulary();
    for (const auto& [name, text] : file_.texts()) taken_.weights.set_text(name, text);
    tell_of_others();
    tell_of_settings();
    return std::move(taken_);
  }

 private:
  void note(const std::string& sentence) { taken_.notes.push_back(file_.path() + ": " + sentence); }

  static bool is_floats(const WeightsFile::Entry& entry) {
    const ElementType* const type = element_type(entry.tensor->type);
    return !entry.again && type && type->to_f32;
  }
  std::string own_name(const std::string& name) const {
    return model_.own_name(name.starts_with(prefix_) ? name.substr(prefix_.size()) : name);
  }

  void take_off_prefixes() {
    const auto all = [&](const auto& is) {  // that may be parameters
      return std::ranges::all_of(file_.entries(), [&](const auto& e) { return !is_floats(e.second) || is(e.first); });
    };
    const auto is_strange = [&](const std::string& name) { return !known_.contains(own_name(name)); };
    for (bool more = std::ranges::any_of(file_.entries(), [](const auto& e) { return is_floats(e.second); });
         more && all(is_strange);) {
      more = false;
      for (const char* const prefix : {"module.", "_orig_mod.", "model.", "backbone."})
        if (!more && all([&](const std::string& name) { return name.starts_with(prefix_ + prefix); }))
          prefix_ += prefix, more = true;
    }
    if (!prefix_.empty()) note(concat("all names begin with '", prefix_, "', which is taken off"));
  }

  void place(const std::string& name, const WeightsFile::Entry& entry) {
    const std::string own = own_name(name);
    if (own.empty()) return;
    const ElementType* const type = element_type(entry.tensor->type);
    const bool counts = own.ends_with("num_batches_tracked");
    if (counts && !(type && type->to_i64)) return;  // nothing is computed with it
    for (std::size_t at = own.find('_', own.rfind('.') + 1); at != std::string::npos; at = own.find('_', at + 1))
      require<DataError>(known_.contains(own) || !known_.contains(own.substr(0, at)), file_.path(), ": '", name,
                         "' belongs to a tensor that ", what_,
                         " has, as scales do where weights are quantised, and would be passed over. Save the weights "
                         "as floats.");
    if (!known_.contains(own) && (!is_floats(entry) || !parts_.contains(kind_of_part(own)))) {
      if (!entry.again && !counts) others_.push_back(name);
      return;
    }
    const auto [other, is_new] = chosen_.emplace(own, name);
    require<DataError>(is_new, file_.path(), ": '", name, "' and '", other->second, "' are both ", what_, "'s '", own,
                       "'. Leave one of them out.");
  }

  /// The first of these names is that of state_dict().
  void join_tied(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto found = chosen_.find(name);
      if (found == chosen_.end() || name == names[0]) continue;
      const std::string stored = found->second;
      chosen_.erase(found);
      const auto [first, is_new] = chosen_.emplace(names[0], stored);
      require<DataError>(is_new || same(first->second, stored), file_.path(), ": '", stored, "' differs from '",
                         first->second, "', and ", what_,
                         " has one tensor for both (tied weights), so that it would compute something else. Take "
                         "weights that were trained with both as one.");
    }
  }

  bool same(const std::string& a, const std::string& b) const {
    const WeightsFile::Entry &x = file_.entries().at(a), &y = file_.entries().at(b);
    if (x.tensor == y.tensor || SafetensorsFile::equal(*x.file, *x.tensor, *y.file, *y.tensor)) return true;
    if (x.tensor->type == y.tensor->type || x.tensor->extents != y.tensor->extents) return false;
    const Tensor of_a = file_.read_as(a, DType::f32), of_b = file_.read_as(b, DType::f32);
    return std::ranges::equal(of_a.slice(), of_b.slice());
  }

  /// Rows of the embedding and of the output that stand for no token.
  void cut_vocabulary() {
    std::set<std::int64_t> foretold, embedded;  // rows; positions are embedded too, and never foretold
    for (const auto& [parameter, names] : names_)
      if (parameter->info.output || names.size() > 1) foretold.insert(parameter->value().dim(0));
    for (const auto& [parameter, names] : names_)
      if (parameter->info.role == Role::embedding && foretold.contains(parameter->value().dim(0)))
        embedded.insert(parameter->value().dim(0));
    std::int64_t rows = 0, of = 0;
    for (const auto& [parameter, names] : names_) {
      if (!parameter->info.output && parameter->info.role != Role::embedding) continue;
      const Tensor own = parameter->value();
      const Tensor* const found = taken_.weights.find(names[0]);
      if (!found || found->rank() != own.rank() || !embedded.contains(own.dim(0))) continue;
      if (found->dim(0) <= own.dim(0) || found->dim(0) != (own.dim(0) + 63) / 64 * 64) continue;
      if (found->shape().with(0, own.dim(0)) != own.shape()) continue;
      rows = own.dim(0), of = found->dim(0);
      taken_.weights.set(names[0], found->rows(0, rows));
    }
    if (rows > 0) note(concat("the vocabulary is padded, and its first ", rows, " of ", of, " rows are taken"));
  }

  void tell_of_others() {
    if (others_.empty()) return;
    std::string text = concat("'", others_[0], "'");
    if (others_.size() > 1) text += concat(" and ", others_.size() - 1, " more");
    note(concat(text, others_.size() > 1 ? " are" : " is", " passed over, for which ", what_, " has no place"));
  }

  /// A config.json beside the weights says them too, and what nobody switches on needs no word.
  void tell_of_settings() {
    const auto text = text_of_file(folder_of_weights(file_.path()) + "/config.json", 1 << 20);
    const auto config = json_or_discarded(text.value_or(""));
    const bool described = config.is_object() && config.contains("model_type") && config["model_type"] == "gpt2";
    for (const auto& [name, own] : model_.settings())
      if (!described && own != "no" && !file_.texts().contains(name))
        note(concat("does not say with which `", name, "` it was trained; ", own, " is taken"));
  }

  const Module& model_;
  const WeightsFile& file_;
  const std::string& what_;
  const StateDict own_;
  std::map<const Parameter*, std::vector<std::string>> names_;
  std::set<std::string> parts_, known_;
  std::string prefix_;
  std::map<std::string, std::string> chosen_;  // own name, name in the file
  std::vector<std::string> others_;
  TakenWeights taken_;
};

}  // namespace

TakenWeights weights_for(const Module& model, const WeightsFile& file, const std::string& what) {
  return Chooser(model, file, what).taken();
}

}  // namespace laconic
