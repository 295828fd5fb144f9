#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/tensor.h"

namespace laconic {

/// Named tensors in the order they were set, and a few strings about them: weights, optimiser state, whatever a part of
/// a training run needs to go on later. A lookup costs O(log n).
class StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  /// Adds a tensor, or replaces the one of that name (which keeps its place). The memory is shared, not copied.
  /// Throws DataError if the name is empty or "__metadata__", which the file format keeps for itself.
  void set(const std::string& name, Tensor tensor);
  /// Throws DataError naming what is missing, and the nearest name there is.
  const Tensor& at(const std::string& name) const;
  const Tensor* find(const std::string& name) const;  ///< nullptr if there is none
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  /// Every entry and string of `other`, with `prefix` in front of its name.
  void merge(const StateDict& other, const std::string& prefix = "");
  /// The entries and strings whose name starts with `prefix`, without it. Tensors share memory.
  StateDict part(const std::string& prefix) const;

  void set_text(const std::string& name, std::string value) { texts_[name] = std::move(value); }
  const std::string& text(const std::string& name) const;  ///< throws DataError if there is none
  const std::map<std::string, std::string>& texts() const { return texts_; }

  /// Whole numbers, as a tensor of int64.
  void set_numbers(const std::string& name, std::span<const std::int64_t> numbers) {
    set(name, Tensor::of({static_cast<std::int64_t>(numbers.size())}, numbers));
  }
  /// Copies a tensor into `to`. throws DataError if there is none, or of another shape or type, naming `what` it is
  void copy_to(const Tensor& to, const std::string& name, const std::string& what) const;
  /// throws DataError unless there are `count` of them, naming `what` they are
  std::vector<std::int64_t> numbers(const std::string& name, std::size_t count, const std::string& what) const;
  /// All that `part` saves, with `prefix` in front of its name.
  template <class Part>
  void save(const std::string& prefix, const Part& part) {
    StateDict own;
    part.save(own);
    merge(own, prefix);
  }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, std::string> texts_;
};

/// Writes a safetensors file, as PyTorch's ecosystem reads it; complete under its name or not at all (AtomicFile).
/// Tensors of any device and layout are written in plain order.
///
///   offset 0   n : u64, little-endian     bytes of the header; 8 + n is a multiple of 8
///          8   JSON, n bytes, padded with spaces:
///              {"__metadata__": {"key": "text"}, "fc1.weight": {"dtype": "F32", "shape": [120, 400],
///               "data_offsets": [begin, end]}, ...}     offsets count from the end of the header
///      8 + n   the tensors, row-major, little-endian, one after another without gaps
///
/// dtypes  F32, BF16, I32, I64, U8
/// source  https://github.com/huggingface/safetensors, "Format"
/// throws  DataError with the path: the disk is full, the directory is missing, a name is not UTF-8
/// returns the file's length and checksum
FileSum save_safetensors(const StateDict& state, const std::string& path);

/// Reads such a file into host memory. Every number in the header is checked before it is used.
/// throws  DataError naming the file and the field: truncated, header too long, bad JSON, duplicate names, unknown
///         dtype, a shape that does not match its offsets, offsets that overlap, leave gaps or lie outside
StateDict load_safetensors(const std::string& path);

/// What a reader of a StateDict expects to find.
struct ExpectedTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
};

/// Throws DataError with the first mismatch (a tensor that is missing, of another shape or dtype, or not expected),
/// with expected and found shapes. `where` is the file's path, `what` names the reader, for example "lenet". PyTorch's
/// `*.num_batches_tracked` may be there without being expected.
void require_match(std::span<const ExpectedTensor> expected, const StateDict& found, const std::string& where,
                   const std::string& what);

}  // namespace laconic
