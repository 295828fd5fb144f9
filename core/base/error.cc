#include "core/base/error.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace laconic {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

void TextPart::write(std::ostream& out) const {
  if (write_)
    write_(out, x_);
  else
    out << words_;
}

std::string text_of(std::initializer_list<TextPart> parts) {
  std::ostringstream out;
  for (const TextPart& part : parts) part.write(out);
  return std::move(out).str();
}

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error)) return 2;
  return dynamic_cast<const LostRank*>(&error) ? 3 : 1;
}

std::string nearest(const std::string& word, const char* const* candidates, std::size_t count) {
  std::string best;
  double least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string candidate = candidates[i];
    const std::size_t edits = edit_distance(word, candidate);
    if (edits > word.size() / 2) continue;
    const auto start = std::mismatch(word.begin(), word.end(), candidate.begin(), candidate.end()).first - word.begin();
    const double distance = static_cast<double>(edits) * (1 - 0.1 * std::min<double>(4, static_cast<double>(start)));
    if (best.empty() || distance < least) best = candidate, least = distance;
  }
  return best;
}

std::string shell_word(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%") ==
          std::string::npos)
    return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void refuse_unknown(const std::string& kind, const std::string& word, const std::string& where,
                    const std::vector<std::string>& choices) {
  std::string all;
  for (const std::string& choice : choices) all += (all.empty() ? "" : ", ") + choice;
  throw UsageError(
      concat("unknown ", kind, " '", word, "' (", where, "): ", did_you_mean(word, choices), "There are ", all, "."));
}

}  // namespace laconic
