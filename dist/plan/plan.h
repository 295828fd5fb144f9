#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/parameter.h"
#include "dist/plan/choice.h"
#include "dist/collective/allreduce.h"

namespace laconic::dist {

/// How a model is to be cut into messages; make_plan goes by it.
struct PlanOptions {
  /// How neighbours become one message: adjacent memory as it lies (the padding between travels too), or copied into a
  /// buffer and back; or what belongs to one module of the model, whatever its size, and nothing else.
  enum class Fusion : std::uint8_t { lazy, copy, module };

  /// As allreduces() names it ("tree:2"), for every bucket; or "hybrid", as the HybridAR paper does it: butterfly for
  /// convolutions and what is small, ring for fully connected layers and what is large; or "hybrid-printed", the other
  /// way round, as its Table 4 has it by a misprint.
  std::string allreduce = "ring";
  Fusion fusion = Fusion::lazy;
  std::size_t bucket_bytes = 1 << 20;  ///< neighbours join while their bucket is not larger; 0: every parameter alone
  bool fusion_asked = false;           ///< by set_fusion
  /// Whether no fusion was asked for: then a method may take one of its own.
  bool fusion_is_default() const { return !fusion_asked && bucket_bytes == PlanOptions().bucket_bytes; }
  std::size_t chunk_bytes = 4 << 20;   ///< larger matrices travel in chunks of rows of about this size; 0: whole
  /// Cuts matrices that send a choice, too. Each still sends one message, and an uncut one has a faster forward.
  bool chunk_sparse = false;
  /// Cuts convolutions, too, although their gradients come at once and their values are awaited at once.
  bool chunk_convolutions = false;
  /// Whether no size of chunks was asked for: then a method may take one of its own.
  bool chunk_is_default() const { return !chunk_sparse && chunk_bytes == PlanOptions().chunk_bytes; }
  Dispatch sparse{};                   ///< which parameters send but a choice of their elements
  std::string codec = "none";          ///< what blocks pass through on every hop, as in --codec
};

/// One of allreduces(), "hybrid" or "hybrid-printed", as in --allreduce.   throws UsageError (suggests the nearest)
void set_allreduce(PlanOptions& options, const std::string& text);
/// "none", "copy:SIZE", "lazy:SIZE", as in --fusion.   throws UsageError
void set_fusion(PlanOptions& options, const std::string& text);
/// "none" or SIZE, as in --chunk: a size holds for all matrices, also for those that send a choice.
/// throws UsageError
void set_chunk(PlanOptions& options, const std::string& text);
/// As in --codec; see compress/codecs.h.   throws UsageError
void set_codec(PlanOptions& options, const std::string& text);
/// All of them: "ring, lazy:1MiB, chunks of 4MiB".
std::string to_string(const PlanOptions& options);

/// One message: neighbours in the arena, or some rows of one large parameter. Elements
/// [offset, offset + elements) of the arena; of neighbours with the padding between them, unless they are copied.
struct Bucket {
  int first = 0, count = 0;  ///< parameters, by their place in the arena
  Rows rows{};               ///< of the only one, if it travels in several buckets; else count 0: all rows
  std::int64_t offset = 0, elements = 0;
  std::string allreduce = "ring";  ///< as allreduces() names it
  int pieces = 1;       ///< of about 256 KiB each, so that what is more urgent can overtake. Moves no block boundary
  bool copied = false;  ///< through a buffer of its own, without padding
  /// Says what is sent of the only parameter. Unless that is all, the bucket's other fields say how all of it travels
  /// in a phase that is dense, and its chunks the rows in which its gradient comes; their messages are one.
  Choice choice{};
  int priority = 0;    ///< larger goes first: what the next forward needs first
  std::string name{};  ///< "conv1.weight", "bn2.weight..conv1.weight" or "fc2.weight[256:512]"

  bool chunk() const { return rows.count > 0; }
  bool sparse() const { return !choice.all(); }
  Carrier carrier() const { return allreduce_named(allreduce).kind.carrier; }
  bool operator==(const Bucket&) const = default;
};

/// A bucket holds all of a parameter, or some rows of it. This describes them as if they were a parameter.
struct Held {
  std::string name;
  Shape shape;                            ///< of rows: rows by elements of a row
  std::int64_t offset = 0, elements = 0;  ///< in the arena
};
/// info : of one of its parameters
Held held_by(const Bucket& bucket, const ParameterInfo& info);

/// Whether operations finish this weight's gradient, and await its value, by rows.
bool comes_in_rows(const ParameterInfo& info);

/// How every parameter of a model travels. Fixed before step 1, by sizes and never by timing, and equal on all ranks:
/// block boundaries decide the order of additions, so an equal plan means equal bits.
struct Plan {
  std::vector<Bucket> buckets;  ///< in arena order, every row of every parameter in exactly one; rows ascending
  std::vector<int> bucket_of;   ///< the first bucket of a parameter, by its place in the arena

  std::string codec = "none";  ///< of what is summed, on every hop, as in --codec
  std::string sync{};          ///< the only method that it is for, if a planner chose that too; else empty

  /// Fills in what follows from the parameters and rows of all buckets: places, names, and what goes first.
  void complete(const std::vector<std::shared_ptr<Parameter>>& parameters);
  /// Rows of a parameter in its first chunk; 0 if it travels whole.
  std::int64_t chunk_rows(int place) const;
  /// Whether some parameter sends but a choice of its elements, and whether this one does.
  bool sparse() const;
  bool sparse(int place) const {
    return buckets[static_cast<std::size_t>(bucket_of[static_cast<std::size_t>(place)])].sparse();
  }
  /// Whether it moves some bucket. What MPI and NCCL sum themselves is in no count of bytes.
  bool has(Carrier carrier) const;
  /// Bytes of the buffers that buckets are copied into, if all are under way at once.
  std::int64_t copied_bytes(const std::vector<std::shared_ptr<Parameter>>& parameters) const;

  /// One line a bucket, or for all equal chunks of a parameter: name, parameters, bytes, algorithm or choice, pieces.
  std::string table() const;
  /// For checkpoints, --plan FILE, and the other ranks, with `codec`, `sync`, `rows`, `copied`, `choice`, `quantised`
  /// and `rank` only where there is one:
  ///   {"format": 1, "codec": "fp16", "buckets": [{"parameters": ["fc.weight"], "rows": [first, count],
  ///    "algorithm": "ring", "pieces": 1, "copied": true, "choice": "trimmed", "quantised": true}, ...]}
  std::string json() const;
  /// throws DataError naming `where` if the text is no plan, or not one for these parameters
  static Plan from_json(const std::string& text, const std::vector<std::shared_ptr<Parameter>>& parameters,
                        const std::string& where);

  std::vector<std::string> parameter_names{};  ///< by place in the arena

  bool operator==(const Plan&) const = default;
};

/// The largest bucket that sends a choice, of equal ones the first; null if none does.
const Bucket* largest_sparse(const Plan& plan);

/// Buckets of arena neighbours. A parameter above bucket_bytes travels alone, or with little that comes before it (its
/// bias); a weight above chunk_bytes that comes in rows, or a convolution's if asked, in chunks of rows: a multiple of
/// 16, so that vectors stay aligned. A parameter that sends a choice travels alone. The number of workers decides only
/// how large pieces are (pieces_of), and what an automatic dispatch finds cheaper.
Plan make_plan(const std::vector<std::shared_ptr<Parameter>>& parameters, const PlanOptions& options, int workers = 1);

/// Zeros between parameters that are neighbours in an arena, for what does not keep zeros zero (a codec).
/// state : laid out like the arena
void clear_padding(const Tensor& state, std::span<const std::shared_ptr<Parameter>> neighbours);

}  // namespace laconic::dist
