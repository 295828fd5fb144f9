#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parse.h"

namespace laconic {

/// What a setting is about: what each worker computes, how workers join it, or what is written where.
enum class Scope : std::uint8_t { model, exchange, output };

/// One thing that can be set, by a text. A command line, a file and a program set it alike.
struct Setting {
  /// How many texts it takes: none (a switch), one, one or none, one each time that it is given, or several words.
  enum class Takes : std::uint8_t { nothing, one, maybe, repeated, words };

  std::string name;   ///< "density"
  std::string type;   ///< the word for its value in --help: "D", "raw|delta"
  std::string help;   ///< lines of --help; the default in brackets
  std::string group;  ///< the heading of --help
  Scope scope = Scope::model;
  Takes takes = Takes::one;
  bool hidden = false;     ///< true: --help leaves it out
  bool given = false;      ///< whether it was set
  std::string given_as{};  ///< the text that set it; several behind one another
  /// Takes over a text. throws UsageError in the name of `where`
  std::function<void(const std::string& text, const std::string& where)> read;
  /// Returns its value now. Null: it stands in no fingerprint.
  std::function<std::string()> text;

  std::string quoted() const { return "`" + name + "`"; }
  void set(const std::string& text) {
    read(text, quoted());
    given_as = takes == Takes::repeated || takes == Takes::words ? given_as + text + "\n" : text;
    given = true;
  }
};

/// One table of everything that can be set of a thing. Command lines, files of options, --help, fingerprints and
/// programs read it. The variables that it sets must outlive it. They hold the defaults when it is made.
class Settings {
 public:
  /// What is added from now on belongs to this heading of --help.
  void group(std::string name, Scope scope) { group_ = std::move(name), scope_ = scope; }

  using Read = std::function<void(const std::string& text, const std::string& where)>;
  /// Stores what `parse` makes of the text and the setting's name.
  template <class T, class Parse>
  static Read into(T& target, Parse parse) {
    return [&target, parse](const std::string& text, const std::string& where) { target = parse(text, where); };
  }
  /// `read` stores a value of its own kind, `text` gives it back.
  Setting& value(std::string name, std::string type, std::string help, Read read,
                 std::function<std::string()> text = nullptr);
  /// One of these words.
  Setting& choice(std::string name, std::string& target, const std::vector<std::string>& choices,
                  const std::string& help);
  /// Takes any text but an empty one. It stands in no fingerprint.
  Setting& text(std::string name, std::string type, std::string& target, std::string help);
  /// One of two words; `yes` sets `target`.
  Setting& either(std::string name, bool& target, const std::string& no, const std::string& yes, std::string help) {
    return value(
        std::move(name), no + "|" + yes, std::move(help),
        [&target, no, yes](const std::string& text, const std::string& where) {
          target = one_of(text, where, {no, yes}) == yes;
        },
        [&target, no, yes] { return target ? yes : no; });
  }
  /// A switch; it sets `target` to `value`.
  Setting& flag(std::string name, bool& target, std::string help, bool value = true);
  template <class T>
  Setting& whole_number(std::string name, std::string type, T& target, T least, const std::string& help,
                        bool show_default = true) {
    return value(
        std::move(name), std::move(type), show_default ? with_default(help, number_text(target)) : help,
        [&target, least](const std::string& text, const std::string& where) { target = whole<T>(text, where, least); },
        [&target] { return number_text(target); });
  }
  /// A number that need not be given.
  template <class T>
  Setting& whole_number(std::string name, std::string type, std::optional<T>& target, T least, std::string help) {
    return value(std::move(name), std::move(type), std::move(help),
                 [&target, least](const std::string& text, const std::string& where) {
                   target = whole<T>(text, where, least);
                 });
  }
  template <class T>
  Setting& real_number(std::string name, std::string type, T& target, double low, double high, std::string example,
                       const std::string& help) {
    return value(
        std::move(name), std::move(type), with_default(help, number_text(target)),
        [&target, low, high, example = std::move(example)](const std::string& text, const std::string& where) {
          target = static_cast<T>(real(text, where, low, high, example));
        },
        [&target] { return number_text(target); });
  }

  /// A number that need not be given.   now : what it is then; null: it stands in no fingerprint
  template <class T>
  Setting& real_number(std::string name, std::string type, std::optional<T>& target, double low, double high,
                       std::string example, std::string help, std::function<std::type_identity_t<T>()> now = nullptr) {
    std::function<std::string()> shown;
    if (now) shown = [now = std::move(now)] { return number_text(now()); };
    return value(
        std::move(name), std::move(type), std::move(help),
        [&target, low, high, example = std::move(example)](const std::string& text, const std::string& where) {
          target = static_cast<T>(real(text, where, low, high, example));
        },
        std::move(shown));
  }

  const std::vector<Setting>& all() const { return all_; }
  std::vector<Setting>& all() { return all_; }
  /// Null if there is none of that name.
  Setting* find(std::string_view name);
  const Setting* find(std::string_view name) const { return const_cast<Settings*>(this)->find(name); }
  bool given(std::string_view name) const {
    const Setting* const setting = find(name);
    return setting != nullptr && setting->given;
  }
  /// throws UsageError if there is none of that name, or the value makes no sense
  void set(const std::string& name, const std::string& text);

  /// Lists all that decides bits: "density=0.001 selector=paper …".
  std::string fingerprint() const;

  /// Rewrites a message that names settings as `density` for somebody who typed --density.
  static std::string as_options(const std::string& message);

 private:
  static std::string with_default(const std::string& help, const std::string& value) {
    return (help.empty() ? "" : help + " ") + "[" + value + "]";
  }
  std::vector<Setting> all_;
  std::string group_;
  Scope scope_ = Scope::model;
};

}  // namespace laconic
