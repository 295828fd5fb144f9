// By libarchive. A file is read by what reads a whole archive, begun at that file's header.
#include "data/archive_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <unordered_map>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "data/image_codec.h"
#include "data/input_file.h"
#include "data/zip_directory.h"

namespace laconic {

/// The bytes of an archive: of its file, or in memory where gzip packed them.
class ArchiveBytes {
 public:
  ArchiveBytes(const std::string& path, bool stays_open, std::uint64_t most_unpacked) : path_(path) {
    auto file = std::make_unique<RandomAccessFile>(path);
    size_ = file->size();
    std::uint8_t magic[2] = {};
    if (size_ >= sizeof magic) file->read(0, sizeof magic, magic);
    if (magic[0] == 0x1F && magic[1] == 0x8B) {  // zlib compares gzip's checksum, libarchive does not
      unpacked_ = InputFile(path).read(most_unpacked + 1);
      size_ = unpacked_.size(), in_memory_ = true;
      require<DataError>(size_ <= most_unpacked, path, ", unpacked, would lie in memory, where archives may take ",
                         grouped(Archive::kMostUnpacked), " bytes together. Unpack it first: gunzip ", path, ".");
    } else if (stays_open) {
      file_ = std::move(file);
    }
  }

  std::uint64_t size() const { return size_; }
  bool in_memory() const { return in_memory_; }
  /// Bytes from a place on, at most `most`, in memory of ours or in `buffer`.
  std::span<const std::uint8_t> read(std::uint64_t at, std::uint64_t most, std::vector<std::uint8_t>& buffer) const {
    const std::uint64_t bytes = std::min(most, size_ - std::min(at, size_));
    if (in_memory_) return std::span(unpacked_).subspan(std::min(at, size_), bytes);
    buffer.resize(bytes);
    if (file_)
      file_->read(at, bytes, buffer.data());
    else
      RandomAccessFile(path_).read(at, bytes, buffer.data());
    return buffer;
  }

 private:
  std::string path_;
  std::unique_ptr<const RandomAccessFile> file_;
  bool in_memory_ = false;
  std::vector<std::uint8_t> unpacked_;
  std::uint64_t size_ = 0;
};

namespace {

/// libarchive at a place of an archive.
class ArchiveStream {
 public:
  /// block : bytes that are read at a time
  ArchiveStream(const ArchiveBytes& from, const std::string& name, std::uint64_t at, std::uint64_t block)
      : from_(from), name_(name), at_(at), block_(block), stream_(archive_read_new(), archive_read_free) {
    if (!stream_) throw std::bad_alloc();
    archive_read_support_format_tar(get());
    archive_read_support_format_zip_streamable(get());  // headers as they stand: each file can be begun with
    archive_read_set_format_option(get(), "tar", "read_concatenated_archives", "1");
    archive_read_set_callback_data(get(), this);
    archive_read_set_read_callback(get(), next_block);
    archive_read_set_skip_callback(get(), skip);
    check(archive_read_open1(get()), ARCHIVE_OK);
  }

  archive* get() const { return stream_.get(); }
  archive_entry* entry() const { return entry_; }
  /// The place of that header, or of what was none, counted from `at` on.
  std::uint64_t position() const { return static_cast<std::uint64_t>(archive_read_header_position(get())); }

  /// Goes to the next file's header. False: there is none.
  bool next() {
    const int code = archive_read_next_header(get(), &entry_);
    check(code == ARCHIVE_RETRY ? ARCHIVE_FAILED : code, ARCHIVE_WARN);  // RETRY: a header that is none
    return code != ARCHIVE_EOF;
  }
  /// The next bytes of the file, 0 at its end, where a zip's checksum is compared.
  std::size_t read(std::uint8_t* to, std::size_t most) {
    const la_ssize_t bytes = archive_read_data(get(), to, most);
    check(static_cast<int>(std::min<la_ssize_t>(bytes, ARCHIVE_OK)), ARCHIVE_OK);
    return static_cast<std::size_t>(bytes);
  }

 private:
  void check(int code, int least) {
    if (failed_) std::rethrow_exception(failed_);
    const char* why = archive_error_string(get());
    require<DataError>(code >= least, name_, " cannot be read: ", why ? why : "it ends too early",
                       ". Give a tar, tar.gz or zip that is not encrypted, or fetch it again: it is cut or damaged.");
  }
  static la_ssize_t next_block(archive*, void* self, const void** block) {
    auto& s = *static_cast<ArchiveStream*>(self);
    try {
      const std::span<const std::uint8_t> bytes = s.from_.read(s.at_, s.block_, s.buffer_);
      *block = bytes.data();
      s.at_ += bytes.size();
      return static_cast<la_ssize_t>(bytes.size());
    } catch (...) {  // not through a library of C
      s.failed_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }
  static la_int64_t skip(archive*, void* self, la_int64_t bytes) {
    auto& s = *static_cast<ArchiveStream*>(self);
    const std::uint64_t left = s.from_.size() - std::min(s.at_, s.from_.size());
    const std::uint64_t skipped = std::min(static_cast<std::uint64_t>(std::max<la_int64_t>(bytes, 0)), left);
    s.at_ += skipped;
    return static_cast<la_int64_t>(skipped);
  }

  const ArchiveBytes& from_;
  const std::string& name_;
  std::uint64_t at_, block_;
  std::vector<std::uint8_t> buffer_;
  std::exception_ptr failed_;
  std::unique_ptr<archive, int (*)(archive*)> stream_;
  archive_entry* entry_ = nullptr;
};

/// Has libarchive give names in UTF-8, which it otherwise converts to the locale of the thread, or refuses to.
class Utf8Names {
 public:
  Utf8Names() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_) before_ = ::uselocale(utf8_);
  }
  ~Utf8Names() {
    if (!utf8_) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  locale_t utf8_, before_{};
};

/// A name without detours. throws DataError: it leads out of the archive
std::string name_inside(const char* name, const std::string& archive) {
  require<DataError>(name != nullptr, archive, " has a name that is not in UTF-8. Write the archive again.");
  const std::filesystem::path path = name;
  require<DataError>(!path.is_absolute() && std::ranges::find(path, "..") == path.end(), archive, " has a file ", name,
                     ", whose name leads out of it. Write it with names from its folder on: tar -C FOLDER -cf OUT .");
  return path.lexically_normal().string();
}

/// What is left of a file whose header does not say how long it is, up to one more than kMostFileBytes.
std::uint64_t bytes_left(ArchiveStream& stream) {
  std::vector<std::uint8_t> piece(1 << 16);
  std::uint64_t bytes = 0;
  while (bytes <= kMostFileBytes) {
    const std::size_t more = stream.read(piece.data(), piece.size());
    if (more == 0) break;
    bytes += more;
  }
  return bytes;
}

}  // namespace

bool has_libarchive() { return true; }

Archive::~Archive() = default;

void Archive::add(std::string_view name, std::uint64_t position, std::uint64_t bytes) {
  names_ += name;
  entries_.push_back({names_.size(), position, bytes});
}

std::uint64_t Archive::bytes_in_memory() const { return contents_->in_memory() ? contents_->size() : 0; }

Archive::Archive(const std::string& path, bool stays_open, std::uint64_t most_unpacked)
    : path_(path), contents_(std::make_unique<ArchiveBytes>(path, stays_open, most_unpacked)) {
  constexpr std::uint64_t kBlock = 4096;  // headers are far apart
  const Utf8Names in_utf8;
  ArchiveStream stream(*contents_, path_, 0, kBlock);
  std::vector<std::pair<std::size_t, std::string>> links;  // of tar: files that are others under a second name
  std::uint64_t headers = 0;
  for (; stream.next(); ++headers) {
    archive_entry* const e = stream.entry();
    require<DataError>(!archive_entry_is_encrypted(e), path, " is encrypted. Give one that is not.");
    const std::string name = name_inside(archive_entry_pathname(e), path);
    if (const char* const same = archive_entry_hardlink(e)) {
      links.emplace_back(size(), name_inside(same, path));
      add(name, 0, 0);
      continue;
    }
    require<DataError>(archive_entry_filetype(e) != AE_IFLNK, path, " has a link, ", name,
                       ". Write it with the files that links lead to: tar --dereference.");
    if (archive_entry_filetype(e) != AE_IFREG) continue;
    const std::uint64_t position = stream.position();
    add(name, position,
        archive_entry_size_is_set(e) ? static_cast<std::uint64_t>(archive_entry_size(e)) : bytes_left(stream));
  }
  const int format = archive_format(stream.get()) & ARCHIVE_FORMAT_BASE_MASK;
  // Where a header is damaged, libarchive looks for the next one and says nothing.
  if (format == ARCHIVE_FORMAT_ZIP && !contents_->in_memory()) {
    const std::uint64_t told =
        zip_directory_of(RandomAccessFile(path), " has no directory at its end. The download was cut; fetch it again.")
            .entries;
    require<DataError>(headers == told, path, " has ", grouped(headers),
                       " files and folders where its directory tells of ", grouped(told),
                       ". It is damaged; fetch or write it again.");
  }
  // An archive that was cut between two files lacks the zeros at its end.
  constexpr std::uint64_t kZeros = 512;
  require<DataError>(format != ARCHIVE_FORMAT_TAR || stream.position() + kZeros <= contents_->size(), path,
                     " has no end of a tar behind its ", size(), " files. The download was cut; fetch it again.");
  if (links.empty()) return;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0, link = 0; i < size(); ++i) {
    if (link < links.size() && links[link].first == i) {
      const auto place = places.find(links[link].second);
      require<DataError>(place != places.end(), path, " has a link, ", name(i), ", to ", links[link].second,
                         ", which is not there before it. Write the archive again.");
      entries_[i].position = entries_[place->second].position, entries_[i].bytes = entries_[place->second].bytes;
      ++link;
    }
    places.insert_or_assign(name(i), i);
  }
}

void Archive::read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
  const Entry& e = entries_[i];
  const std::string name = full_name(i);
  require<DataError>(e.bytes <= kMostFileBytes, name, " has more than ", grouped(kMostFileBytes),
                     " bytes. Take it out of the data.");
  constexpr std::uint64_t kHeaders = 4096;
  ArchiveStream stream(*contents_, name, e.position, e.bytes + kHeaders);
  bool same = stream.next();
  bytes.resize(e.bytes);
  for (std::uint64_t have = 0; same && have < e.bytes;) {
    const std::size_t more = stream.read(bytes.data() + have, e.bytes - have);
    same = more > 0;
    have += more;
  }
  std::uint8_t rest;
  require<DataError>(same && stream.read(&rest, 1) == 0, name,
                     " is not as long as its header said. The archive is damaged, or something else writes it.");
}

}  // namespace laconic
