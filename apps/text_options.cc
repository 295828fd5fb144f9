#include "apps/text_options.h"

#include <limits>
#include <tuple>

namespace laconic {

void add_text_options(Settings& s, TrainOptions& o) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  s.whole_number<std::int64_t>("bptt", "T", o.bptt, 1, "words of each stream in one step");
  for (const auto& [name, help, tied] :
       {std::tuple{"tied", "the decoder's weight is the embedding's", true}, {"untied", "it is one of its own", false}})
    s.value(name, "", help, [&o, tied = tied](const std::string&, const std::string&) { o.tied = tied; }).takes =
        Setting::Takes::nothing;
  s.value("dropout", "P", "chance of dropping an activation [the model's own]",
          [&o](const std::string& text, const std::string& where) {
            o.dropout = static_cast<float>(real(text, where, 0, 0.99, "0.5"));
          });
  s.whole_number<std::int64_t>("generate", "N", o.generate, 0, "write so many words at the end", false);
  s.real_number("temperature", "X", o.temperature, 0, inf, "0.8", "of that; 0 writes the likeliest words");
  s.text("prompt", "TEXT", o.prompt, "it goes on from these words");
}

void settle_text_options(const Settings& settings, const TrainOptions& o) {
  if (settings.given("tied") && settings.given("untied"))
    refuse("the two contradict each other", "--tied and --untied", "leave one of them out");
  if (o.checkpoint_activations)
    refuse("a language model has no segments to compute again: its step is one LSTM's and the logits, which are kept",
           "--checkpoint-activations", "less --bptt or --batch takes less memory");
  for (const char* name : {"temperature", "prompt"})
    if (settings.given(name) && o.generate == 0)
      refuse("nothing is to be written", std::string("--") + name, "add --generate 200");
}

}  // namespace laconic
