#pragma once
#include "data/text.h"

namespace laconic {

/// A generated language that a network can learn: of each word four others may follow, with chances 1/2, 1/4, 1/8 and
/// 1/8, in sentences of 3 to 15 words. A pure function of the two sizes, the same on every machine.
///   train : tokens, 100 to 10,000,000; valid and test have a tenth of it each
///   words : 4 to 10,000, besides <eos> and <unk>
/// throws UsageError if a size is out of range
TextDataset synthetic_text(std::int64_t train = 100000, std::int64_t words = 200);

/// The same as --data names it: "synthetic" or "synthetic:TRAIN,WORDS".   throws UsageError
TextDataset synthetic_text_named(const std::string& data);

}  // namespace laconic
