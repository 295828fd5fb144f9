#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compress/codec.h"

namespace laconic::compress {

/// The codec that a text names, as in --codec; null for "none":
///     none, identity, fp16, bf16, trunc:BITS, inceptionn:2^E, inceptionn-published:2^E, qsgd:BITS:BUCKET, terngrad,
///     onebit, snappy, lz4
/// throws UsageError naming `where`: unknown (suggests the nearest, lists all), without or with wrong numbers, or not
///        in this build
std::unique_ptr<const Codec> make_codec(const std::string& text, const std::string& where = "--codec");

/// As they are listed to users.
const std::vector<std::string>& codec_names();

}  // namespace laconic::compress
