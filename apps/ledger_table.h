#pragma once
#include <string>
#include <vector>

#include "dist/method/ledger.h"

namespace laconic {

/// One line a parameter, with the columns that the method has. For --ledger.
std::string ledger_table(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows);

}  // namespace laconic
