#include "apps/photo_options.h"

namespace laconic {

void add_photo_options(Settings& s, TrainOptions& o) {
  s.value("image-size", "S", "pixels of a side that the model sees [its own]",
          [&o](const std::string& text, const std::string& where) { o.image_size = whole<int>(text, where, 1); });
  s.value("color-jitter", "B[,C[,S]]", "brightness, contrast and saturation vary by so much,\nas 0.4,0.4,0.4",
          [&o](const std::string& text, const std::string& where) {
            float* const all[] = {&o.brightness, &o.contrast, &o.saturation};
            std::size_t begin = 0, i = 0;
            for (; i < 3 && begin <= text.size(); ++i) {
              const std::size_t end = std::min(text.find(',', begin), text.size());
              *all[i] = static_cast<float>(real(text.substr(begin, end - begin), where, 0, 1, "0.4,0.4,0.4"));
              begin = end + 1;
            }
            if (begin <= text.size()) refuse("'" + text + "' has more than three numbers", where, "give 0.4,0.4,0.4");
          });
  s.whole_number<int>("max-bad", "K", o.max_bad, 0, "damaged files that are passed over");
  s.text("labels", "FILE", o.labels, "names of the classes, one a line\n[synsets.txt or labels.txt beside the data]");
  s.value("predict", "IMAGE ...", "say what these are, by --init or --resume, and leave",
          [&o](const std::string& text, const std::string&) { o.predict.push_back(text); })
      .takes = Setting::Takes::words;
}

void settle_photo_options(const Settings&, const TrainOptions& o) {
  if (!o.predict.empty() && o.init.empty() && !o.resume)
    refuse("there are no weights to predict by", "--predict", "add --init FILE or --resume PATH");
}

}  // namespace laconic
