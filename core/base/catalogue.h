#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace laconic {

/// The row called `name` in a table of rows with names. kind, where: as refuse_unknown takes them
/// throws UsageError naming the nearest, and all
template <class Row>
const Row& row_named(const std::vector<Row>& table, const std::string& name, const std::string& kind,
                     const std::string& where) {
  std::vector<std::string> names;
  for (const Row& row : table) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  refuse_unknown(kind, name, where, names);
}

/// A table of all things of one kind, by name. Programs may add to it before they begin to train. Tests go through it,
/// so everything in it is tested.
template <class T>
class Catalogue {
 public:
  using Make = std::function<std::unique_ptr<T>()>;

  /// kind, where : for messages: "method", "`sync`"
  Catalogue(std::string kind, std::string where, std::vector<std::pair<std::string, Make>> entries)
      : kind_(std::move(kind)), where_(std::move(where)), entries_(std::move(entries)) {}

  /// throws UsageError if the name is taken
  void add(std::string name, Make make) {
    require<UsageError>(find(name) == nullptr, "there are two ", kind_, "s called ", name);
    entries_.emplace_back(std::move(name), std::move(make));
  }
  template <class Own>
  void add(std::string name) {
    add(std::move(name), [] { return std::make_unique<Own>(); });
  }

  /// Makes a new one. throws UsageError naming the nearest, and all
  std::unique_ptr<T> make(const std::string& name) const {
    if (const Make* const known = find(name)) return (*known)();
    refuse_unknown(kind_, name, where_, names());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, make] : entries_) all.push_back(name);
    return all;
  }

 private:
  const Make* find(const std::string& name) const {
    for (const auto& [known, make] : entries_)
      if (known == name) return &make;
    return nullptr;
  }
  std::string kind_, where_;
  std::vector<std::pair<std::string, Make>> entries_;
};

}  // namespace laconic
