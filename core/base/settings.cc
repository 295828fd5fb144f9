#include "core/base/settings.h"

#include <algorithm>

namespace laconic {

Setting& Settings::value(std::string name, std::string type, std::string help, Read read,
                         std::function<std::string()> text) {
  require<Error>(find(name) == nullptr, "settings: there are two of the name ", name, ".");
  Setting setting;
  setting.name = std::move(name), setting.type = std::move(type), setting.help = std::move(help);
  setting.group = group_, setting.scope = scope_;
  setting.read = std::move(read), setting.text = std::move(text);
  all_.push_back(std::move(setting));
  return all_.back();
}

Setting& Settings::choice(std::string name, std::string& target, const std::vector<std::string>& choices,
                          const std::string& help) {
  return value(
      std::move(name), alternatives(choices), with_default(help, target),
      [&target, choices](const std::string& text, const std::string& where) { target = one_of(text, where, choices); },
      [&target] { return target; });
}

Setting& Settings::text(std::string name, std::string type, std::string& target, std::string help) {
  return value(std::move(name), std::move(type), std::move(help),
               [&target](const std::string& text, const std::string& where) {
                 if (text.empty()) refuse("the value is empty", where, "give one, or leave it out");
                 target = text;
               });
}

Setting& Settings::flag(std::string name, bool& target, std::string help, bool to) {
  Setting& setting = value(
      std::move(name), "", std::move(help), [&target, to](const std::string&, const std::string&) { target = to; },
      [&target, to] { return target == to ? "1" : "0"; });
  setting.takes = Setting::Takes::nothing;
  return setting;
}

Setting* Settings::find(std::string_view name) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Setting& s) { return s.name == name; });
  return found == all_.end() ? nullptr : &*found;
}

void Settings::set(const std::string& name, const std::string& text) {
  if (Setting* const setting = find(name)) return setting->set(text);
  std::vector<std::string> names;
  for (const Setting& setting : all_) names.push_back(setting.name);
  require<UsageError>(!names.empty(), "there is nothing to set, and no setting '", name, "'");
  refuse_unknown("setting", name, "settings", names);
}

std::string Settings::fingerprint() const {
  std::string all;
  for (const Setting& setting : all_)
    if (setting.text) all += (all.empty() ? "" : " ") + setting.name + "=" + setting.text();
  return all;
}

std::string Settings::as_options(const std::string& message) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::string text;
  for (std::size_t at = 0; at < message.size(); ++at) {
    const std::size_t end = message[at] == '`' ? message.find_first_not_of(kLetters, at + 1) : at;
    if (end != message.npos && end > at + 1 && message[end] == '`') {
      text += "--" + message.substr(at + 1, end - at - 1);
      at = end;
    } else {
      text += message[at];
    }
  }
  return text;
}

}  // namespace laconic
