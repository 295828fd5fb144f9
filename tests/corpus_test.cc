// Files and messages that come from anywhere: all that tests/corpus keeps goes to its reader (tests/fuzz/targets.h),
// and so does a sample of what damage makes of it. What fuzzing once found (tests/fuzz/run.sh) is there, and stays
// mended. `LACONIC_FUZZ_SECONDS=300 fuzz_test --gtest_filter='*Corpus*/plan'` goes on for so long.
#include <algorithm>
#include <filesystem>

#include "core/base/parallel.h"
#include "tests/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using Message = std::vector<std::byte>;

std::vector<std::pair<std::string, Message>> kept(const std::string& target) {
  std::vector<std::pair<std::string, Message>> all;
  for (const auto& entry : std::filesystem::directory_iterator(LACONIC_CORPUS "/" + target)) {
    const std::string bytes = file_text(entry.path());
    const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
    all.emplace_back(entry.path().filename().string(), Message(data, data + bytes.size()));
  }
  std::sort(all.begin(), all.end());
  return all;
}

class Corpus : public testing::TestWithParam<FuzzTarget> {
 protected:
  void SetUp() override { testing::internal::CaptureStdout(); }  // some readers print what they find
  void TearDown() override { testing::internal::GetCapturedStdout(); }
};

TEST_P(Corpus, IsReadOrRefused) {
  set_kernel_threads(1);
  const FuzzTarget& target = GetParam();
  const auto inputs = kept(target.name);
  ASSERT_FALSE(inputs.empty());
  int read = 0;
  for (const auto& [name, bytes] : inputs) {
    SCOPED_TRACE(name);
    read += target.read(bytes);
  }
  EXPECT_GT(read, 0) << "nothing of it is what it should be";
  fuzz(100, [&](Random& random) {
    target.read(damaged(inputs[random.below(static_cast<std::uint32_t>(inputs.size()))].second, random));
  });
}

/// What copies or prints a value of JSON goes as deep on the stack.
TEST_P(Corpus, MayNestDeeply) {
  constexpr std::size_t kDepth = 100'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto inputs = kept(GetParam().name);
  for (const auto& [name, bytes] : inputs) {
    if (bytes.size() > 8000) continue;
    SCOPED_TRACE(name);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    int places = 0;
    for (std::size_t at = text.find("\":"); at != std::string::npos && places < 6; at = text.find("\":", at + 1)) {
      // In the place of a value, which may be a list or an object.
      const std::size_t end = text.find_first_of(",}]", at);
      if (end == std::string::npos || text.find_first_of("[{", at) < end) continue;
      const std::string nested = text.substr(0, at + 2) + deep + text.substr(end);
      GetParam().read(std::as_bytes(std::span(nested)));
      ++places;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Corpus, testing::ValuesIn(fuzz_targets()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace laconic
