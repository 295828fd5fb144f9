#pragma once
#include <string>

namespace laconic::compress {

/// Tries whether a codec, as `codec` names it, keeps the promises of compress/codec.h: what it says of its lengths, the
/// same bytes for the same values, what encoding tells of decoding and leaves for feedback, sums as by
/// decode and an addition, what its traits say, and a clear error for payloads that are cut short or damaged. For tests
/// of codecs of your own, and of ours. Takes milliseconds. throws Error, or what the codec throws, naming the promise
/// that is broken and the values
void check_codec(const std::string& codec);

/// Tries the same of a selector, as `selector` names it, and compress/select/selector.h: indices that ascend with the
/// values that stand there, no more than most() says, one sign where one is asked for, the same choice on any number of
/// threads, with candidates and without, and after its state was saved and loaded; and NaNs refused. In host memory.
/// Takes a tenth of a second.
/// throws Error, or what the selector throws, naming the promise that is broken
void check_selector(const std::string& selector);

}  // namespace laconic::compress
