#pragma once
#include <array>
#include <string>

namespace laconic {

/// What the files of a folder hold: text, or numbers of tokens (data/token_file.h).
enum class PartsHold { text, numbers };

/// The names of a folder's parts in messages: train, valid, test.
inline constexpr std::array<const char*, 3> kPartNames = {"train", "valid", "test"};

/// The files of a folder for train, valid and test. The name of one has the part's among its pieces:
///   text      cut at dots, without ".gz", and ends in txt or tokens, else in raw: ptb.train.txt, wiki.train.tokens
///   numbers   cut at dots, hyphens and underscores, and ends in bin or npy: train.bin, shakespeare_train.bin. There
///             may be none for test: ""
/// What is named val or validation is valid, where nothing is so named.
/// throws DataError: the folder cannot be read, has no file for a part, or two
std::array<std::string, 3> part_files(const std::string& folder, PartsHold hold);

/// Whether a file of the folder is named as its train part.
bool has_train_part(const std::string& folder, PartsHold hold);

}  // namespace laconic
