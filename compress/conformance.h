#pragma once
#include <string>

namespace laconic::compress {

/// Tries whether a codec, as `codec` names it, keeps the promises of compress/codec.h: what it says of its lengths, the
/// same bytes for the same values, sums that are those of decode and an addition, what its traits say, and a clear
/// error for payloads that are cut short or damaged. For tests of codecs of your own, and of ours. Takes milliseconds.
/// throws Error, or what the codec throws, naming the promise that is broken and the values
void check_codec(const std::string& codec);

}  // namespace laconic::compress
