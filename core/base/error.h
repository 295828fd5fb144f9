#pragma once
#include <exception>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace laconic {

/// Base of everything laconic throws. The text is one sentence: where, what with the actual numbers, and what to do.
/// An app prints it as `laconic: error: TEXT` and leaves with exit_code_of().
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, types or calls that do not fit together: fix the program.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A file, a message or a value from outside is wrong: fix the file or the flag.
class DataError : public Error {
 public:
  using Error::Error;
};

/// An option is unknown or out of range: fix the command line.
class UsageError : public DataError {
 public:
  using DataError::DataError;
};

/// A rank or the network failed, or what a rank sent does not fit. The text names rank and peer.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A rank gives no sign of life, or MPI cannot reach it: restart from the checkpoint.
class LostRank : public CommError {
 public:
  using CommError::CommError;
};

/// What a program leaves with after this error: 2 for UsageError, 3 for LostRank, 1 for anything else.
int exit_code_of(const std::exception& error);

/// A part of a text: words, a number, or anything with operator<<, which this refers to and does not own. Made for
/// concat() and require(): their hundreds of calls would each compile a stream's operators anew.
class TextPart {
 public:
  explicit TextPart(const char* words) : words_(words) {}
  explicit TextPart(std::string_view words) : words_(words) {}
  explicit TextPart(const std::string& words) : words_(words) {}
  template <class T>
  explicit TextPart(const T& x)
      : x_(&x), write_([](std::ostream& out, const void* it) { out << *static_cast<const T*>(it); }) {}

  void write(std::ostream& out) const;

 private:
  std::string_view words_;
  const void* x_ = nullptr;
  void (*write_)(std::ostream&, const void*) = nullptr;
};

/// Parts written one after another with operator<<.
std::string text_of(std::initializer_list<TextPart> parts);
template <class... Parts>
std::string concat(const Parts&... parts) {
  return text_of({TextPart(parts)...});
}

template <class E>
[[noreturn]] void throw_text(std::initializer_list<TextPart> parts) {
  throw E(text_of(parts));
}

/// Throws E with the concatenated parts unless ok. The parts are only formatted on failure.
template <class E, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw_text<E>({TextPart(parts)...});
}

/// A word as one types it in a shell: in quotes if it needs them.
std::string shell_word(const std::string& word);

/// The candidate that is nearest to `word` by edit distance, or "" if none is near (more than half of the word
/// differs). Each of the first four letters that are the same takes off a tenth (as Winkler 1990 weighs a common
/// beginning).
std::string nearest(const std::string& word, const char* const* candidates, std::size_t count);
template <class Container>
std::string nearest(const std::string& word, const Container& candidates) {
  std::vector<const char*> names;
  for (const auto& c : candidates) names.push_back(std::string_view(c).data());
  return nearest(word, names.data(), names.size());
}

/// "did you mean NEAREST? ", or "" if none of the candidates is near.
template <class Container>
std::string did_you_mean(const std::string& word, const Container& candidates) {
  const std::string close = nearest(word, candidates);
  return close.empty() ? "" : "did you mean " + close + "? ";
}

/// Throws UsageError "unknown KIND 'WORD' (WHERE): did you mean NEAREST? There are A, B, C."; the question only if one
/// of the choices is near.
[[noreturn]] void refuse_unknown(const std::string& kind, const std::string& word, const std::string& where,
                                 const std::vector<std::string>& choices);

}  // namespace laconic
