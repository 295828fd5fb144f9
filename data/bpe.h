#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace laconic {

/// The bytes of the word that begins at text[at], by GPT-2's pattern: the first of these that fits there,
///   's 't 're 've 'm 'll 'd           an English ending
///   " "? letters                      as many as there are; the same for numbers, and for what is neither, nor white
///                                     space
///   white space                       up to the end of the text, or without its last character, which then begins the
///                                     next word; alone, that character
/// Text is UTF-8. Letters and numbers are all of Unicode 16's categories L and N, white space its property White_Space.
/// A byte that is not UTF-8 is a character that is none of these, so any bytes may be cut.   at < text.size()
/// source: Radford et al. 2019, the pattern of their encoder.py
std::size_t word_bytes(std::string_view text, std::size_t at);

/// Byte-level byte pair encoding as GPT-2 has it: a text is cut into words (word_bytes), a word into its bytes, and
/// then pairs of neighbours become one token, by a list of merges. Any bytes can be encoded, and come back unchanged.
/// source: Sennrich et al. 2016, algorithm 1, on bytes: Radford et al. 2019, section 2.2
class BytePairs {
 public:
  /// Learns a vocabulary from a text: first the 256 bytes, in GPT-2's order, then one token for each merge. The pair
  /// that is merged next is the one that stands most often side by side inside words; of equally frequent ones that
  /// with the smaller number of its left token, then of its right. Ends early when no pair comes twice.
  ///   size : tokens, at least 256; else throws UsageError
  /// Cost: memory and time grow with the bytes of the text's different words; some seconds for 10 MB and 32,000 tokens.
  /// throws DataError: the different words have 2 GiB or more
  static BytePairs train(std::string_view text, std::int32_t size);

  /// Reads a vocabulary that others have written. Of a folder's files the first of these is taken:
  ///   tokenizer.json           Hugging Face's `tokenizers`: BPE behind ByteLevel with GPT-2's pattern. Its added
  ///   tokens
  ///                            are looked for before a text is cut; what truncates, pads or goes round a text is not
  ///                            followed
  ///   vocab.json, merges.txt   {"token": number}, and a merge a line, the most urgent first; bytes are spelled in
  ///   encoder.json, vocab.bpe  GPT-2's alphabet (data/bpe_alphabet.h). Tokens that no merge makes, as <|endoftext|>,
  ///                            have numbers, and encode() never gives them
  ///   NAME.tiktoken            tiktoken's: a token's bytes in base 64 and its number a line. <|endoftext|> has the
  ///                            number that is left out, or the one behind the last, and encode() never gives it
  ///   path : such a folder, a tokenizer.json or a .tiktoken
  /// throws DataError, naming the file and, where it has lines, the line: missing, damaged, a number twice or left out,
  ///        a byte that has no token, a merge of tokens that there are not, or that comes twice; or texts are cut
  ///        otherwise: by what tokenizer.json says, or as a merge shows whose token is not within one word_bytes()
  static BytePairs load(const std::string& path);
  /// Writes vocab.json, merges.txt and a tokenizer.json that says the same and which tokens are found whole. Each
  /// appears complete or not at all. Makes the folder if need be.   throws DataError
  void save(const std::string& folder) const;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  const std::string& token(std::int32_t number) const { return tokens_[static_cast<std::size_t>(number)]; }
  std::size_t merges() const { return merges_.size(); }

  /// Merges in each word the pair that is first in the list, of several such the leftmost, as long as there is one.
  /// Cost: a look-up for each word that came before, O(n log n) for another one of n bytes.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Their bytes, one behind the other.   throws DataError: a number is not in the vocabulary
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  BytePairs() = default;
  struct Merged {
    std::int32_t rank, token;
  };
  std::int32_t add(std::string token);  // its number, a new one if it is new
  // false: there is such a merge
  bool merge(std::int32_t left, std::int32_t right, std::int32_t token);
  void index_bytes();
  struct Part {
    std::size_t begin, end;
  };
  using Seen = std::unordered_map<std::string_view, Part>;  // where among the tokens a word was first encoded
  // Looks for the tokens whole_[pass] and those of later passes, then encodes words.
  void encode_around(std::size_t pass, std::string_view text, std::vector<std::int32_t>& tokens, Seen& seen) const;
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens, Seen& seen) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const;
  friend class PairsReader;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> numbers_;  // the places in tokens_
  std::vector<std::pair<std::int32_t, std::int32_t>> merges_;
  std::unordered_map<std::uint64_t, Merged> merged_;  // merges by both tokens of the pair
  std::vector<std::int32_t> byte_;                    // the token of each byte
  // Tokens that are found in a text before it is cut into words, as `tokenizers` does it: in two passes.
  std::array<std::vector<std::int32_t>, 2> whole_;
};

}  // namespace laconic
