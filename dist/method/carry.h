#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compress/sparse_message.h"
#include "core/base/steps.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "dist/collective/allgatherv.h"

namespace laconic::dist {

class Nccl;

/// How chosen elements of one tensor become what one rank sends: a sparse message; or, where all have one magnitude and
/// either sign (Strom), two of them, each with one value:
///
///     little-endian   bytes : u32 | message of the values above 0, of that length | message of the others
struct SparseWire {
  compress::SparseFormat format{};
  bool both_signs = false;  ///< two messages; their format has one value

  /// No payload of at most `count` elements of n is longer; a multiple of 4.
  std::size_t max_bytes(std::size_t count, std::size_t n) const;
  /// Appends. values : one for each index; with format.one_value alone the one that stands for all
  void encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
              compress::Bytes& payload) const;
  /// Reads a payload of a tensor of n elements into views[next] and on; what is next then.
  /// throws DataError if it is none; nothing is read outside of it
  std::size_t read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                   std::size_t next) const;
};

/// What one rank has chosen of a tensor, in memory that stays as it is until the next choice.
struct Chosen {
  Slice<const std::uint32_t> indices{};  ///< ascending
  Slice<const float> values{};           ///< that are sent: one for each index, or one for all
  Slice<float> shared{};                 ///< the values, where all ranks choose the same places: to be summed in place
  std::size_t count = 0;                 ///< elements that were to be chosen
  std::size_t most = 0;                  ///< elements that a rank may choose, the same on all
};

/// Brings what each rank has chosen of one tensor to all of them.
///
///     allgather   every rank's message goes to all, and all add them up in rank order: all hold the same bits
///     ring        where all choose the same places, their values are summed, and no index travels
///     NCCL        does either on the device, where the message is made and stays
///
/// source  RedSync 2.2 (sparse synchronisation, one message of indices and values)
class Carry {
 public:
  struct Form {
    std::string method{}, parameter{};            ///< for errors
    std::size_t elements = 0;                     ///< of the tensor
    SparseWire wire{};
    bool same_places = false;  ///< all ranks choose the same
    Device device{};           ///< of the tensor
    int workers = 1;
    std::shared_ptr<Nccl> nccl{};  ///< null: messages pass the host
  };
  explicit Carry(Form form);

  bool by_nccl() const { return form_.nccl != nullptr; }

  /// Makes this rank's message. Touches nothing but this.
  Steps pack(Chosen chosen);
  /// On the communication thread. throws CommError if a rank is lost
  Task<> run(Communicator& comm);
  /// dense += factor times everything that was sent, in rank order.
  /// throws CommError naming the rank whose message is none
  void add_to(Slice<float> dense, float factor);

  // For the ledger: what was chosen, how many bytes of it this rank sends, and elements that some rank has sent.
  Slice<const std::uint32_t> chosen() const { return chosen_.indices; }
  double sent_bytes() const;
  std::size_t united() const { return form_.same_places ? chosen_.count : compress::united(views_); }
  std::size_t buffer_bytes() const { return packet_.size() + gathered_.capacity(); }
  /// Bytes of memory for messages, if no rank chooses more elements; a packet grows while it is written.
  double most_bytes(std::size_t most) const;

 private:
  const Form form_;
  Chosen chosen_;
  Pinned brought_;  // what was chosen on a CUDA device, for a message that is made on the host
  compress::Bytes packet_;
  Gathered gathered_;
  std::vector<compress::SparseView> views_;
};

}  // namespace laconic::dist
