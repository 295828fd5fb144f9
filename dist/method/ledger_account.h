#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/slice.h"
#include "core/state.h"
#include "dist/method/ledger.h"

namespace laconic::dist {

/// Keeps the ledger of one parameter of which an approximation travels: how often, and, every so many steps, the share
/// of squares that stays at home. With `every` 0 there is no ledger, and the calls cost nothing.
class EnergyAccount {
 public:
  EnergyAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every);

  /// The parameter, or some rows of it.
  const std::string& name() const { return row_.parameter; }
  /// How such an account is shown.   note : what its heads mean
  static LedgerForm form(const char* note);

  /// all : what an approximation is about to be made of in this step, and what stayed at home before
  void before(std::int64_t step, const Tensor& all);
  /// left : what stays at home now
  void after(const Tensor& left);

  /// sent, bytes : elements and bytes that this rank sends in a step. Appends a row, unless there is no ledger.
  void add_row(std::vector<LedgerRow>& rows, double sent, double bytes) const;

  /// "ledger"; nothing without a ledger. load() of a state that has none begins anew.
  void save(StateDict& state) const;
  /// throws DataError naming the parameter if what is there is no ledger of it
  void load(const StateDict& state);

 private:
  LedgerRow row_;  // sums
  std::int64_t every_ = 0;
  bool measuring_ = false;  // this step's
  double before_ = 0;
};

/// Keeps the ledger of one parameter that sends a choice: two calls before and after choosing, one when the exchange
/// has ended. Every so many steps it measures energy, union and age: three passes over the residual then, and
/// 4 bytes an element for the ages. With `every` 0 there is no ledger, and the calls cost nothing.
class LedgerAccount {
 public:
  LedgerAccount() = default;
  LedgerAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every);

  /// How such an account is shown.
  static LedgerForm form();

  bool kept() const { return every_ > 0; }
  bool measuring() const { return measuring_; }  ///< this step's exchange

  /// residual : V, from which elements are about to be chosen in this step
  void before_choice(std::int64_t step, const Tensor& residual);
  /// chosen : what was; ascending. residual : V without what was sent
  void after_choice(Slice<const std::uint32_t> chosen, const Tensor& residual);
  /// bytes : this rank's message times how often it travels
  void sent(double bytes) { row_.bytes += kept() ? bytes : 0; }
  /// united : elements that some rank has sent. While measuring(), once the exchange has ended.
  void received(std::size_t united);

  /// Sums divided by what they are sums of.
  LedgerRow row() const;

  /// "ledger" and "last_chosen"; nothing without a ledger. load() of a state that has none begins anew.
  void save(StateDict& state) const;
  /// throws DataError naming the parameter if what is there is no ledger of it
  void load(const StateDict& state);

 private:
  LedgerRow row_;  // sums
  std::int64_t every_ = 0;
  std::int64_t step_ = 0;
  bool measuring_ = false;
  double energy_before_ = 0;
  Tensor last_chosen_;  // i32, [elements]: step; undefined before the first choice
};

}  // namespace laconic::dist
