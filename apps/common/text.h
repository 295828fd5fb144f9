#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace laconic {

std::string human_bytes(double bytes);   ///< "1.5 MB": three figures, steps of 1000
std::string human_count(double count);   ///< "61.3 k"
std::string human_seconds(double time);  ///< "8.2 s", "3 min 05 s", "2 h 10 min"

/// "1 thread", "2 threads"
std::string plural(std::int64_t n, const std::string& what);

/// "a, b, c"
std::string join(const std::vector<std::string>& words, const char* separator);
/// The words between separators, empty ones too; at least one.
std::vector<std::string> split(const std::string& text, char separator);
/// "a, b, c", broken into lines that fit beside the names of options in --help.
std::string wrapped(const std::vector<std::string>& words, const std::string& separator = ", ");

/// A width in letters, not bytes: "…" counts one.
std::size_t letters(const std::string& text);
/// As much of a text as has at most so many letters.
std::string first_letters(const std::string& text, std::size_t most);

/// Breaks lines at blanks, where they have more letters.
std::string broken(const std::string& text, std::size_t width);

/// Breaks longer lines likewise. What goes on stands under the line's last column, if blanks set it off, else behind
/// `indent` blanks.
std::string fitted(const std::string& text, std::size_t width, std::size_t indent);

/// "A:B" or "A": the first and the last step, from 1. Throws UsageError in the name of `where`.
std::pair<std::int64_t, std::int64_t> step_range(const std::string& text, const std::string& where);

/// "log.jsonl" -> "log-seed7.jsonl", "run/" -> "run-seed7", where one name serves several runs.
/// A path below /dev stays as it is.
std::string with_seed(const std::string& name, std::uint64_t seed);

/// "TITLE=FILE" in two, or no title and the file. Either may have a '=' where the file is there.
std::pair<std::string, std::string> title_and_file(const std::string& argument);

/// "label: --options" in two: the label, and the rest; without a label the text is both. A label does not begin with a
/// dash, and a blank or a dash follows its colon.
std::pair<std::string, std::string> labelled(const std::string& text);

/// The words as one types them in a shell: each by shell_word (core/base/error.h).
std::string shell_line(const std::vector<std::string>& words);
/// The words of a text as a shell would split it: at blanks, with '...', "..." and \ keeping them together.
/// Throws UsageError in the name of `where` if a quote is not closed.
std::vector<std::string> shell_words(const std::string& text, const std::string& where);

}  // namespace laconic
