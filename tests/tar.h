#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

/// A tar in memory, file by file, in the format of POSIX.1-1988: the smallest that there is.
class Tar {
 public:
  /// kind : '0' a file, '1' a second name of the file `link`, '2' a link to it, '5' a folder
  Tar& add(const std::string& name, const std::vector<std::uint8_t>& content, char kind = '0',
           const std::string& link = "") {
    std::string header(kBlock, '\0');
    const auto put = [&](std::size_t at, std::string_view text) { header.replace(at, text.size(), text); };
    char size[13];
    std::snprintf(size, sizeof size, "%011zo", content.size());
    put(0, name), put(100, "0000644"), put(108, "0000000"), put(116, "0000000"), put(124, size);
    put(136, "00000000000"), put(148, "        "), put(156, {&kind, 1}), put(157, link), put(257, "ustar"),
        put(263, "00");
    put(148, sum_of(header));
    bytes_.insert(bytes_.end(), header.begin(), header.end());
    bytes_.insert(bytes_.end(), content.begin(), content.end());
    bytes_.resize((bytes_.size() + kBlock - 1) / kBlock * kBlock);
    return *this;
  }
  Tar& add(const std::string& name, std::string_view content) {
    return add(name, std::vector<std::uint8_t>(content.begin(), content.end()));
  }
  /// Its bytes, with the end that a whole one has.
  std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> all = bytes_;
    all.resize(all.size() + 2 * kBlock);
    return all;
  }

  static constexpr std::size_t kBlock = 512;
  /// The checksum of a header, as it stands there: that of a header with blanks in its place.
  static std::string sum_of(std::string header) {
    header.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char text[9];
    std::snprintf(text, sizeof text, "%06o", sum);
    return std::string(text) + std::string("\0 ", 2);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace laconic
