#include "apps/photo_options.h"

namespace laconic {

void add_photo_options(OptionAdder& add, TrainOptions& o) {
  add.value("--image-size", "S", "pixels of a side that the model sees [its own]",
            [&o](const std::string& text, const std::string& option) { o.image_size = whole<int>(text, option, 1); });
  add.value("--color-jitter", "B[,C[,S]]", "brightness, contrast and saturation vary by so much,\nas 0.4,0.4,0.4",
            [&o](const std::string& text, const std::string& option) {
              float* const all[] = {&o.brightness, &o.contrast, &o.saturation};
              std::size_t begin = 0, i = 0;
              for (; i < 3 && begin <= text.size(); ++i) {
                const std::size_t end = std::min(text.find(',', begin), text.size());
                *all[i] = static_cast<float>(real(text.substr(begin, end - begin), option, 0, 1, "0.4,0.4,0.4"));
                begin = end + 1;
              }
              if (begin <= text.size())
                refuse("'" + text + "' has more than three numbers", option, "give 0.4,0.4,0.4");
            });
  add.whole_number<int>("--max-bad", "K", o.max_bad, 0, "damaged files that are passed over");
  add.text("--labels", "FILE", o.labels,
           "names of the classes, one a line\n[synsets.txt or labels.txt beside the data]");
  add.words("--predict", "IMAGE ...", o.predict, "say what these are, by --init or --resume, and leave");
}

void settle_photo_options(const CLI::App&, const TrainOptions& o) {
  if (!o.predict.empty() && o.init.empty() && !o.resume)
    refuse("there are no weights to predict by", "--predict", "add --init FILE or --resume PATH");
}

}  // namespace laconic
