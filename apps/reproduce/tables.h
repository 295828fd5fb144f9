#pragma once
#include <string>
#include <vector>

namespace laconic {

/// A row of a paper's table, and what stands for it here.
struct PaperRow {
  std::string label;
  std::vector<std::string> printed;  ///< under PaperTable::columns; as the paper has them
  std::string options;               ///< of the program: a set of `laconic compare`
};

/// A table that a paper prints, and how to make ours.
struct PaperTable {
  std::string paper;                 ///< "redsync", as its page in docs/papers is called
  std::string name;                  ///< "accuracy"
  std::string title;                 ///< what the paper measured, and where it is printed
  std::vector<std::string> columns;  ///< of the paper's figures
  std::vector<PaperRow> rows;
  std::string small, full;  ///< programs and options of both scales, without sets: what follows `laconic compare`
  std::string differs;      ///< what is not as in the paper, one thought a line
};

/// In the order of --help.
const std::vector<PaperTable>& paper_tables();

}  // namespace laconic
