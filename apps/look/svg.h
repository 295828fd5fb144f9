#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace laconic {

/// A picture that a browser shows, drawn from above downwards. Coordinates are pixels.
class Svg {
 public:
  explicit Svg(double width) : width_(width) {}
  double y = 8;  ///< where the next thing goes

  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    lines_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }
  void text(double x, double at, const std::string& words, int size = 11, const char* anchor = "start",
            const char* colour = "#222", const char* weight = "normal") {
    add(R"(<text x="{:.1f}" y="{:.1f}" font-size="{}" text-anchor="{}" fill="{}" font-weight="{}">{}</text>)", x, at,
        size, anchor, colour, weight, escaped(words));
  }
  void bar(double x, double top, double width, double height, const char* colour, const std::string& title) {
    add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="{}"><title>{}</title></rect>)", x, top,
        std::max(width, 0.6), height, colour, escaped(title));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour, const char* dashes = "none") {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-dasharray="{}"/>)", x1, y1, x2, y2,
        colour, dashes);
  }
  /// Text as it may stand in a picture.
  static std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text)
      result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return result;
  }
  std::string whole() const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1:.0f}" viewBox="0 0 {0} {1:.0f}" font-family="Helvetica, Arial, sans-serif"><rect width="100%" height="100%" fill="#fff"/>
{2}</svg>
)",
        width_, y + 8, lines_);
  }

 private:
  const double width_;
  std::string lines_;
};

}  // namespace laconic
