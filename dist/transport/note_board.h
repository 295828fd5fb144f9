#pragma once
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dist/transport/transport.h"

namespace laconic::dist {

/// Notes between ranks that are threads of one process. Any thread.
class NoteBoard {
 public:
  explicit NoteBoard(int size) : notes_(static_cast<std::size_t>(size)) {}

  void put(int to, Note note) {
    std::lock_guard lock(mutex_);
    notes_[static_cast<std::size_t>(to)].push_back(std::move(note));
  }
  std::optional<Note> take(int rank) {
    std::lock_guard lock(mutex_);
    std::deque<Note>& notes = notes_[static_cast<std::size_t>(rank)];
    if (notes.empty()) return {};
    Note note = std::move(notes.front());
    notes.pop_front();
    return note;
  }

 private:
  std::mutex mutex_;
  std::vector<std::deque<Note>> notes_;  // by receiver
};

}  // namespace laconic::dist
