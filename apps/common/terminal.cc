#include "apps/common/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apps/common/text.h"

namespace laconic {
namespace {

constexpr double kSecondsBetweenLines = 20;

/// Returns the width that the terminal tells; `otherwise` if it tells none.
int columns_of(int terminal, int otherwise) {
  winsize size{};
  return ::ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

/// Columns of the terminal that started this process, whatever its standard output is; `otherwise` if there is none.
int columns_of_session(int otherwise) {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return otherwise;
  const int columns = columns_of(terminal, otherwise);
  ::close(terminal);
  return columns;
}

}  // namespace

int terminal_columns(int stream) {
  if (std::getenv("OMPI_COMM_WORLD_RANK")) {
    const char* const said = std::getenv("LACONIC_COLUMNS");
    const int columns = said ? std::atoi(said) : 0;
    return columns > 0 ? columns_of_session(columns) : 0;
  }
  const char* const term = std::getenv("TERM");
  if (::isatty(stream) != 1 || (term && std::strcmp(term, "dumb") == 0)) return 0;
  return columns_of(stream, 80);
}

std::size_t help_columns() {
  const int columns = terminal_columns();
  return static_cast<std::size_t>(columns > 0 ? std::clamp(columns, 60, 100) : 100);
}

std::string help_line(const std::string& head, const std::string& text, std::size_t column) {
  std::string lines = broken(text, help_columns() - column);
  for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos;) lines.insert(++at, column, ' ');
  return fmt::format("  {:<{}} {}\n", head, column - 3, lines);
}

std::string for_terminal(const std::string& text) {
  const int columns = terminal_columns();
  return columns > 0 ? broken(text, static_cast<std::size_t>(columns)) : text;
}

void StatusLine::show(const std::string& text) {
  if (quiet_) return;
  if (columns_ > 0) {
    // One column stays free: a full line would wrap on some terminals.
    if (text != shown_) fmt::print(stderr, "\r{}\033[K", first_letters(text, static_cast<std::size_t>(columns_ - 1)));
    shown_ = text;
  } else if (seconds_since(said_) >= kSecondsBetweenLines) {
    line(text);
  }
}

void StatusLine::line(const std::string& text) {
  if (quiet_) return;
  clear();
  fmt::print(stderr, "{}\n", text);
  said_ = Clock::now();
}

void StatusLine::clear() {
  if (!shown_.empty()) fmt::print(stderr, "\r\033[K");
  shown_.clear();
}

}  // namespace laconic
