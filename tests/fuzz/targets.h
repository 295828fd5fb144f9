#pragma once
#include <cstddef>
#include <span>
#include <vector>

/// All that reads files, messages and words from outside, each as one function of bytes that may be anything: for
/// libFuzzer (main.cc), and for the test of inputs that were kept (tests/corpus_test.cc).
namespace laconic {

using FuzzInput = std::span<const std::byte>;

struct FuzzTarget {
  const char* name;  ///< that of its folder in tests/corpus, too
  /// Whether it was read. A DataError or a CommError, by which it is refused, is in order. All else that is thrown
  /// passes on, and what GoogleTest expects is to hold.
  bool (*read)(FuzzInput input);
};

/// The table of all of them.
const std::vector<FuzzTarget>& fuzz_targets();

// Those that tests of their own damage in a way that suits them: tests/codec_fuzz_test.cc, and so on.
bool read_codec_message(FuzzInput input);
bool read_image(FuzzInput input);
bool read_sparse_message(FuzzInput input);

}  // namespace laconic
