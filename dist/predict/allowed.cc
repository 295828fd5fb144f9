#include "dist/predict/allowed.h"

#include <algorithm>

#include "compress/codecs.h"
#include "core/base/parse.h"

namespace laconic::dist {

PlanOptions MethodChoice::options(int workers) const {
  PlanOptions options;
  method->shape(options, {.workers = workers});
  return options;
}

Allowed Allowed::parse(const std::string& text, const std::string& where) {
  Allowed a;
  const auto add = [&](MethodChoice choice) {
    require<UsageError>(a.find(choice.method->name()) == nullptr, "'", text, "' names ", choice.method->name(),
                        " twice (", where, "): leave one of them out");
    a.methods.push_back(std::move(choice));
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word == "16bit") {
      a.sixteen_bits = true;
    } else if (word.starts_with("bounded:")) {
      a.bounded = word.substr(8), compress::make_codec("inceptionn:" + *a.bounded, where);
    } else if (word == "sparse") {
      add({"redsync", {}});
    } else if (word.starts_with("sparse:")) {
      const double density = real(word.substr(7), where, 0, 1, "sparse:0.001");
      require<UsageError>(density > 0, "no elements are nothing to send (", where, "): give a share, as sparse:0.001");
      add({"redsync", {{"density", number_text(density)}}});
    } else if (word == "rounds") {
      add({"rounds", {}});
    } else if (word.starts_with("rounds:")) {
      const auto steps = whole<std::int64_t>(word.substr(7), where, 1);
      add({"rounds", {{"every", std::to_string(steps)}}});
    } else {
      require<UsageError>(word == "exact", "'", word, "' is nothing that a plan may do (", where,
                          "): give exact, or 16bit, bounded:2^-E, sparse and rounds with commas");
    }
  }
  return a;
}

void Allowed::check(const TrainingFacts& facts) const {
  for (const MethodChoice& choice : methods) {
    try {
      choice.method->check(facts);
    } catch (const UsageError& e) {
      throw UsageError(concat("`allow` may take `sync` ", choice.method->name(), ", and ", e.what()));
    }
  }
}

std::vector<std::string> Allowed::codecs() const {
  std::vector<std::string> names{"none"};
  if (sixteen_bits) names.emplace_back("bf16");
  if (bounded) names.push_back("inceptionn:" + *bounded);
  return names;
}

const MethodChoice* Allowed::find(const std::string& name) const {
  const auto found = std::ranges::find(methods, name, [](const MethodChoice& choice) { return choice.method->name(); });
  return found != methods.end() ? &*found : nullptr;
}

}  // namespace laconic::dist
