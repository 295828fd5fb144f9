#pragma once
#include <cstdint>
#include <string>

#include "core/slice.h"
#include "dist/method/ledger.h"
#include "dist/method/state_table.h"

namespace laconic::dist {

/// Keeps the ledger of one parameter of which an approximation travels, or a choice of elements: how often, and, every
/// so many steps, the share of squares that stays at home. Of a choice also how many elements and bytes travel, how
/// many elements some rank has sent, and how long the others have waited. It takes up to three passes over what is
/// chosen from then, and 4 bytes an element. With `every` 0 there is no ledger, and the calls cost nothing.
class LedgerAccount {
 public:
  enum class Of : std::uint8_t { squares, choices };
  LedgerAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every, Of of);

  /// The parameter, or some rows of it.
  const std::string& name() const { return row_.parameter; }
  /// How an account of squares is shown.   note : what its heads mean
  static LedgerForm of_squares(const char* note);
  static LedgerForm of_choices();
  bool measuring() const { return measuring_; }  ///< received() is due

  /// all : what an approximation or a choice is about to be made of in this step, and what stayed at home before
  void before(std::int64_t step, const Tensor& all);
  /// left : what stays at home now.   chosen : the elements of a choice, ascending
  void after(const Tensor& left, Slice<const std::uint32_t> chosen = {});
  /// Of choices. bytes : this rank's message times how often it travels
  void sent(double bytes) { row_.bytes += every_ > 0 ? bytes : 0; }
  /// united : elements that some rank has sent. While measuring(), once the exchange has ended.
  void received(std::size_t united);

  /// Sums divided by what they are sums of.
  LedgerRow row() const;
  /// Of squares. sent, bytes : elements and bytes that this rank sends in a step
  LedgerRow row(double sent, double bytes) const;

  /// "ledger" and "last_chosen"; nothing without a ledger. A state that has none begins anew. Errors name the
  /// parameter.
  void keep_in(StateTable& table, const std::string& prefix);

 private:
  LedgerRow row_;  // sums
  std::int64_t every_ = 0;
  Of of_ = Of::squares;
  std::int64_t step_ = 0;
  bool measuring_ = false;  // this step's exchange
  double before_ = 0;       // sum of squares
  Tensor last_chosen_;      // i32, [elements]: step; undefined before the first choice
};

}  // namespace laconic::dist
