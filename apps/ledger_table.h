#pragma once
#include <string>
#include <vector>

#include "dist/method/ledger.h"

namespace laconic {

/// One line a parameter: what is chosen, bytes, shares of the energy, union density, age. For --ledger.
std::string ledger_table(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows);

}  // namespace laconic
