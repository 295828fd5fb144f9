#pragma once
#include <string>

namespace laconic::compress {

/// What a codec, as --codec names it, may be asked to carry.
struct CodecTraits {
  bool loses = true;  ///< decoding may give other values
  /// Parameters bear it: its error is small beside the larger ones. Else it is made for gradients, of which most are
  /// small, and whose errors average out over steps (INCEPTIONN's section III; TernGrad too keeps parameters as they
  /// are).
  bool bears_weights = true;
  bool remembers = false;  ///< makes no sense without error feedback
};
CodecTraits traits_of(const std::string& codec);

}  // namespace laconic::compress
