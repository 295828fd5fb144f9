#include "apps/text_options.h"

#include <limits>

namespace laconic {

void add_text_options(OptionAdder& add, TrainOptions& o) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  add.whole_number<std::int64_t>("--bptt", "T", o.bptt, 1, "words of each stream in one step");
  add.flag("--tied", "the decoder's weight is the embedding's", [&o] { o.tied = true; });
  add.flag("--untied", "it is one of its own", [&o] { o.tied = false; });
  add.value("--dropout", "P", "chance of dropping an activation [the model's own]",
            [&o](const std::string& text, const std::string& option) {
              o.dropout = static_cast<float>(real(text, option, 0, 0.99, "0.5"));
            });
  add.whole_number<std::int64_t>("--generate", "N", o.generate, 0, "write so many words at the end", false);
  add.real_number("--temperature", "X", o.temperature, 0, inf, "0.8", "of that; 0 writes the likeliest words");
  add.text("--prompt", "TEXT", o.prompt, "it goes on from these words");
}

void settle_text_options(const CLI::App& app, const TrainOptions& o) {
  if (app.count("--tied") > 0 && app.count("--untied") > 0)
    refuse("the two contradict each other", "--tied and --untied", "leave one of them out");
  if (o.checkpoint_activations)
    refuse("a language model has no segments to compute again: its step is one LSTM's and the logits, which are kept",
           "--checkpoint-activations", "less --bptt or --batch takes less memory");
  for (const char* name : {"--temperature", "--prompt"})
    if (app.count(name) > 0 && o.generate == 0) refuse("nothing is to be written", name, "add --generate 200");
}

}  // namespace laconic
