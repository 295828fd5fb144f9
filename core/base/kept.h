#pragma once
#include <cstddef>
#include <map>

namespace laconic {

/// What belongs to a key, made of `arguments` at its first use: for what is dear to prepare and is asked for by shape.
/// A network has dozens of shapes; images of ever other sizes would fill the memory, so that a new one finds all others
/// forgotten where there are 512.
template <class Key, class T, class... Arguments>
T& kept(std::map<Key, T>& made, const Key& key, const Arguments&... arguments) {
  constexpr std::size_t kMost = 512;
  if (made.size() >= kMost && !made.contains(key)) made.clear();
  return made.try_emplace(key, arguments...).first->second;
}

}  // namespace laconic
