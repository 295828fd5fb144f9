// The settings that trainings and simulations share.
#include "apps/training/exchange_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "apps/common/text.h"
#include "compress/codecs.h"

namespace laconic {
namespace {

/// Adds the settings of all methods, for the one that `sync` will name. Methods share a setting of one name.
void add_method_settings(Settings& s, MethodSettings& given) {
  std::set<std::string> known;
  for (const std::string& name : dist::methods().names()) {
    const std::unique_ptr<dist::Method> method = dist::methods().make(name);
    Settings own;
    method->settings(own);
    for (const Setting& setting : own.all()) {
      if (!known.insert(setting.name).second) continue;
      s.group(setting.group.empty() ? name : setting.group, Scope::exchange);
      Setting& option = s.value(setting.name, setting.type, setting.help,
                                [&given, name = setting.name](const std::string& text, const std::string&) {
                                  given.emplace_back(name, text);
                                });
      option.takes = setting.takes, option.hidden = setting.hidden;
    }
  }
}

/// "[4MiB; 64KiB with ps, 1MiB with slimdp]": what plans have unless it is given, and what they have with the methods
/// that ask for something else.
std::string plan_defaults(std::string (*what)(const dist::PlanOptions&)) {
  const std::string usual = what({});
  std::vector<std::pair<std::string, std::string>> others;  // what, with which methods
  for (const std::string& name : dist::methods().names()) {
    dist::PlanOptions plan;
    dist::methods().make(name)->shape(plan, {});
    const std::string asked = what(plan);
    if (asked == usual) continue;
    const auto known = std::ranges::find(others, asked, &std::pair<std::string, std::string>::first);
    if (known == others.end())
      others.emplace_back(asked, asked + " with " + name);
    else
      known->second += ", " + name;
  }
  std::string text = "[" + usual;
  for (const auto& [asked, with] : others) text += "; " + with;
  return wrapped(split(text + "]", ' '), " ");
}

/// The first method that has such a setting; "" if none has.
std::string method_with(const std::string& setting) {
  for (const std::string& name : dist::methods().names()) {
    Settings own;
    const std::unique_ptr<dist::Method> method = dist::methods().make(name);
    method->settings(own);
    if (own.find(setting) != nullptr) return name;
  }
  return "";
}

}  // namespace

void add_exchange_settings(Settings& s, ExchangeOptions& o, dist::PlanOptions& plan, dist::Overlap& overlap,
                           bool& codec_feedback) {
  s.group(kNetGroup, Scope::exchange);
  const std::vector<std::string> syncs = dist::methods().names();
  const auto named = [](const std::string& name, const std::string& summary) {
    return fmt::format("\n{:<19}{}", name, summary);
  };
  std::string ways = "how gradients are joined [" + o.sync + "]";
  for (const std::string& name : syncs) ways += named(name, dist::methods().make(name)->summary());
  s.value("sync", "NAME", ways,
          [&o, syncs](const std::string& text, const std::string& where) { o.sync = one_of(text, where, syncs); });
  std::string sums = "how sums travel [ring]";
  for (const dist::AllreduceKind& kind : dist::allreduces()) sums += named(kind.form(), kind.summary);
  sums += named("hybrid", "butterfly for convolutions and small ones");
  sums += named("hybrid-printed", "the other way round, as its paper prints it");
  s.value("allreduce", "NAME", sums,
          [&plan](const std::string& text, const std::string&) { dist::set_allreduce(plan, text); });
  s.value("overlap", "none|backward|forward",
          "sums travel after backward, during it, or also\nduring the next forward [forward]",
          [&overlap](const std::string& text, const std::string&) { overlap = dist::overlap_named(text); });
  s.value("fusion", "none|copy:SIZE|lazy:SIZE",
          "small neighbours travel together, copied or not\n" + plan_defaults([](const dist::PlanOptions& p) {
            return p.bucket_bytes == 0 ? "none" : "lazy:" + size_text(p.bucket_bytes);
          }),
          [&plan](const std::string& text, const std::string&) { dist::set_fusion(plan, text); });
  s.value("chunk", "none|SIZE",
          "larger weights travel in chunks of rows\n" + plan_defaults([](const dist::PlanOptions& p) {
            const bool chosen_whole = p.sparse.kind != dist::Dispatch::Kind::dense && !p.chunk_sparse;
            return p.chunk_bytes == 0 || chosen_whole ? "none" : size_text(p.chunk_bytes);
          }),
          [&plan](const std::string& text, const std::string&) { dist::set_chunk(plan, text); });
  s.value("link", "RATE,LATENCY[,JITTER]|none", "emulate a network between the workers, as 100mbit,1ms",
          [&o](const std::string& text, const std::string& where) {
            o.link.reset();
            if (text != "none") o.link = dist::LinkSpec::parse(text, where);
          });
  s.value("link-of", "RANK=RATE,LATENCY", "another link for this worker; may be given again",
          [&o](const std::string& text, const std::string& where) {
            const auto equals = text.find('=');
            const auto rank = number_from<int>(text.substr(0, equals));
            if (equals == std::string::npos || !rank || *rank < 0)
              refuse("'" + text + "' names no worker", where, "give RANK=RATE,LATENCY, as 2=10mbit,5ms");
            o.link_of[*rank] = dist::LinkSpec::parse(text.substr(equals + 1), where);
          })
      .takes = Setting::Takes::repeated;
  s.value("ranks-per-host", "G", "so many ranks share a host: --link is inside it, and\n--link-between joins hosts",
          [&o](const std::string& text, const std::string& where) { o.per_host = whole<int>(text, where, 1); });
  s.value("link-between", "RATE,LATENCY[,JITTER]", "the port that all ranks of a host share, to other hosts",
          Settings::into(o.link_between, dist::LinkSpec::parse));
  s.group(kCodecGroup, Scope::exchange);
  std::vector<std::string> codecs{"none"};
  for (const compress::CodecKind& kind : compress::codecs()) codecs.push_back(kind.form);
  s.value(
      "codec", "NAME",
      "what sums pass through on every hop, or what goes up to\nservers and comes down: " + wrapped(codecs) +
          "\n(BITS of trunc are cut off, 2^E of inceptionn is the error\nbound, onebit and signs have feedback) [none]",
      [&plan](const std::string& text, const std::string&) { dist::set_codec(plan, text); });
  s.flag("codec-feedback", codec_feedback, "what encoding loses is added when it encodes again");
  s.group("Parameter servers (--sync ps, layerdrop, slimdp)", Scope::exchange);
  s.value("servers", "K|colocated", "further ranks that serve and train nothing, or every\nworker serves a part [1]",
          [&o](const std::string& text, const std::string& where) {
            const auto count = number_from<int>(text);
            if (text != "colocated" && (!count || *count < 1))
              refuse("'" + text + "' is no number of servers", where, "give one, as " + where + " 1, or colocated");
            o.servers = count.value_or(0);
          });
  add_method_settings(s, o.method_settings);
}

dist::LinkOptions ExchangeOptions::network() const {
  if (per_host > 0 && !link_between)
    refuse("nothing joins the hosts", "`ranks-per-host`", "add `link-between` RATE,LATENCY, as 1gbit,50us");
  if (link_between && per_host == 0)
    refuse("there are no hosts to join", "`link-between`", "add `ranks-per-host` G, as 4");
  return {.all = *link, .of = link_of, .per_host = per_host, .between = link_between.value_or(dist::LinkSpec{})};
}

void ExchangeOptions::make_method(const Settings& given) {
  const std::shared_ptr<dist::Method> made = dist::methods().make(sync);
  Settings own;
  made->settings(own);
  for (const auto& [name, text] : method_settings)
    if (Setting* const setting = own.find(name)) setting->set(text);
  for (const Setting& setting : given.all()) {
    if (!setting.given || own.find(setting.name) != nullptr) continue;
    if (const std::string other = method_with(setting.name); !other.empty())
      refuse("`sync` " + sync + " has no use for it", setting.quoted(), "leave it out, or take `sync` " + other);
    if (setting.name == "codec") continue;  // "none" is no codec
    if (const auto refusal = made->refuses(setting.name)) refuse(refusal->what, setting.quoted(), refusal->advice);
  }
  method = made;
  if (made->traits().servers && !servers) servers = 1;
}

}  // namespace laconic
