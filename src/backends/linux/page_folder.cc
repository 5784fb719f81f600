// backends/linux/page_folder.cc: a folder of pages through which processes publish their state.
#include "seams/os/page_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tanada/status.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

constexpr time_t dead_page_age_s =
    2;  // a page is locked only after its creation: a new one without a lock is not dead
constexpr int create_tries = 1000;
constexpr int folder_tries = 10;
constexpr int read_tries = 100;  // at intervals of 1 ms; writing a page takes less than one
constexpr uint64_t page_magic = 0x454741505f444e54;  // "TND_PAGE"

// Precedes the content of a page. The writer makes `sequence` odd, writes, and makes it even again.
// Content that a reader copies during a write fails the checksum.
struct page_header {
  uint64_t magic;
  uint64_t sequence;  // odd: the page is being written
  uint64_t checksum;  // of `size` and the content
  uint64_t size;      // bytes of content
};
static_assert(sizeof(page_header) == 32 && offsetof(page_header, sequence) == 8);

// FNV-1a over 8-byte words, the last one padded with zeros.
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325 ^ bytes.size();
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + offset, std::min(sizeof word, bytes.size() - offset));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}

struct descriptor {
  int number;
  explicit descriptor(int fd) : number{fd} {}
  ~descriptor() {
    if (number >= 0)
      ::close(number);
  }
  descriptor(const descriptor &) = delete;
  int release() {
    TND_ASSERT(number >= 0);
    return std::exchange(number, -1);
  }
};

status system_status(const char *action, const std::string &path) {
  status const code = status(-errno);
  set_last_message(std::string(action) + " " + path + ": " + std::strerror(errno));
  return code;
}

// Opens the folder without following a link, and checks that only this user can change it. Names in
// it can then be trusted.
result<int> open_folder(const std::string &folder) {
  descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (opened.number < 0)
    return system_status("cannot open the folder", folder);
  struct stat file_stat{};
  if (fstat(opened.number, &file_stat) != 0)
    return system_status("cannot get the attributes of", folder);
  if (file_stat.st_uid != geteuid() || (file_stat.st_mode & 077) != 0) {
    set_last_message(folder + " is accessible to other users: remove it, or set its mode to 0700");
    return status::access;
  }
  return opened.release();
}

// Parses PID-NUMBER.KIND; returns 0 for any other name. An empty `kind` matches all kinds.
pid_t process_of(std::string_view name, std::string_view kind) {
  uint32_t process = 0, number = 0;
  auto const after_process = std::from_chars(name.data(), name.data() + name.size(), process);
  if (after_process.ec != std::errc{} || process == 0 || process > 0x7fffffff)
    return 0;
  name.remove_prefix(size_t(after_process.ptr - name.data()));
  if (!name.starts_with('-'))
    return 0;
  auto const after_number = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (after_number.ec != std::errc{})
    return 0;
  name.remove_prefix(size_t(after_number.ptr - name.data()));
  bool const ends =
      name.starts_with('.') && name.size() > 1 && (kind.empty() || name.substr(1) == kind);
  return ends ? pid_t(process) : 0;
}

struct flock whole_file_lock(short kind) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Opens a file of this user that can be read without blocking.
int open_page(int folder, const char *name) {
  descriptor opened{openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat file_stat{};
  if (opened.number < 0)
    return -1;
  if (fstat(opened.number, &file_stat) != 0)
    return -1;
  if (!S_ISREG(file_stat.st_mode) || file_stat.st_uid != geteuid()) {
    errno = EACCES;
    return -1;
  }
  return opened.release();
}

// A process does not see its own lock, and opening and closing the file would drop it.
bool is_locked(int folder, const char *name) {
  descriptor const opened{open_page(folder, name)};
  if (opened.number < 0)
    return false;
  struct flock lock = whole_file_lock(F_WRLCK);
  return fcntl(opened.number, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

template <class Function>
void for_each_page(int folder, std::string_view kind, Function function) {
  int const folder_copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *const listing = folder_copy < 0 ? nullptr : fdopendir(folder_copy);
  if (listing == nullptr) {
    if (folder_copy >= 0)
      ::close(folder_copy);
    return;
  }
  while (const dirent *const entry = readdir(listing))
    if (pid_t const process = process_of(entry->d_name, kind); process != 0)
      function(entry->d_name, process);
  closedir(listing);
}

void remove_dead_pages(int folder) {
  for_each_page(folder, {}, [&](const char *name, pid_t process) {
    struct stat file_stat{};
    if (process == getpid() || fstatat(folder, name, &file_stat, AT_SYMLINK_NOFOLLOW) != 0)
      return;
    if (time(nullptr) - file_stat.st_mtime < dead_page_age_s || is_locked(folder, name))
      return;
    (void)unlinkat(folder, name, 0);
  });
}

// Creates a page with a new name. PIDs are reused, so a dead process may have used a name.
int create_page(int folder, std::string_view kind, std::string &name) {
  static std::atomic<uint32_t> next{0};
  int created = -1;
  for (int tries = 0; created < 0 && tries < create_tries; tries++) {
    name = std::to_string(getpid()) + "-" + std::to_string(next++) + "." + std::string{kind};
    created =
        openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (created < 0 && errno != EEXIST)
      break;
  }
  return created;
}

}  // namespace

std::string page_folder_path() {
  struct stat file_stat{};
  const char *const runtime = std::getenv("XDG_RUNTIME_DIR");
  bool const usable = runtime != nullptr && runtime[0] == '/' && stat(runtime, &file_stat) == 0 &&
                      S_ISDIR(file_stat.st_mode) && file_stat.st_uid == geteuid();
  return usable ? std::string(runtime) + "/tanada" : "/dev/shm/tanada-" + std::to_string(geteuid());
}

page_file::page_file(std::string path, int folder, int descriptor)
    : path_{std::move(path)}, folder_{folder}, descriptor_{descriptor}, owner_{getpid()} {}

result<std::unique_ptr<page_file>> page_file::create(const std::string &folder,
                                                     std::string_view kind) {
  // The last process of the folder may remove it at the same time.
  for (int i = 0; i + 1 < folder_tries; i++) {
    auto created = try_create(folder, kind);
    if (created.ok() || created.error() != status::no_entry)
      return created;
  }
  return try_create(folder, kind);
}

result<std::unique_ptr<page_file>> page_file::try_create(const std::string &folder,
                                                         std::string_view kind) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_status("cannot create the folder", folder);
  auto opened_folder = open_folder(folder);
  if (!opened_folder.ok())
    return opened_folder.error();
  descriptor folder_fd{opened_folder.value()};
  remove_dead_pages(folder_fd.number);
  std::string name;
  descriptor page{create_page(folder_fd.number, kind, name)};
  if (page.number < 0)
    return system_status("cannot create a page in", folder);
  struct flock lock = whole_file_lock(F_WRLCK);
  if (fcntl(page.number, F_SETLK, &lock) != 0) {
    status const code = system_status("cannot lock a page in", folder);
    (void)unlinkat(folder_fd.number, name.c_str(), 0);
    return code;
  }
  return std::unique_ptr<page_file>{
      new page_file{folder + "/" + name, folder_fd.release(), page.release()}};
}

page_file::~page_file() {
  if (owner_ == getpid()) {
    size_t const end = path_.rfind('/');
    (void)unlinkat(folder_, path_.substr(end + 1).c_str(), 0);
    (void)rmdir(path_.substr(0, end).c_str());  // only if no other process has a page
  }
  ::close(descriptor_);
  ::close(folder_);
}

status page_file::reserve(size_t size) {
  TND_ASSERT(descriptor_ >= 0);
  if (size <= reserved_)
    return status::ok;
  if (int const error = posix_fallocate(descriptor_, 0, off_t(size)); error != 0)
    return status(-error);
  reserved_ = size;
  return status::ok;
}

status page_file::write(size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t const done = pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return done == 0 ? status::no_space : status(-errno);
    offset += size_t(done);
    bytes = bytes.subspan(size_t(done));
  }
  return status::ok;
}

// Readers read only the first words while the sequence is odd.
status page_file::publish(std::span<const std::byte> bytes) {
  TND_ASSERT(sequence_ % 2 == 0);
  page_header head{.magic = page_magic,
                   .sequence = sequence_ + 1,
                   .checksum = checksum_of(bytes),
                   .size = bytes.size()};
  TND_TRY(reserve(sizeof head + bytes.size()));
  TND_TRY(write(0, std::as_bytes(std::span{&head, 1})));
  TND_TRY(write(sizeof head, bytes));
  head.sequence++;
  TND_TRY(write(0, std::as_bytes(std::span{&head, 1})));
  sequence_ += 2;
  return status::ok;
}

result<std::vector<page_entry>> list_pages(const std::string &folder, std::string_view kind) {
  std::vector<page_entry> pages;
  auto opened_folder = open_folder(folder);
  if (!opened_folder.ok()) {
    if (opened_folder.error() == status::no_entry)
      return pages;
    return opened_folder.error();
  }
  descriptor const folder_fd{opened_folder.value()};
  for_each_page(folder_fd.number, kind, [&](const char *name, pid_t process) {
    if (process == getpid() || is_locked(folder_fd.number, name))
      pages.push_back({process, name});
  });
  return pages;
}

namespace {

status read_whole(int page, size_t size_max, std::vector<std::byte> &bytes) {
  bytes.resize(size_max);
  size_t got = 0;
  while (got < size_max) {
    ssize_t const done = pread(page, bytes.data() + got, size_max - got, off_t(got));
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return status(-errno);
    if (done == 0)
      break;
    got += size_t(done);
  }
  bytes.resize(got);
  return status::ok;
}

// Checks the header and removes it, so that `bytes` becomes the content.
status strip_header(size_t size_max, std::vector<std::byte> &bytes) {
  page_header head{};
  if (bytes.empty())
    return status::again;  // created, not written yet
  if (bytes.size() < sizeof head)
    return status::corrupt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic == 0)
    return status::again;  // space reserved, not written yet
  if (head.magic != page_magic || head.size > size_max)
    return status::corrupt;
  if ((head.sequence & 1) != 0)
    return status::again;
  if (bytes.size() - sizeof head < head.size)
    return status::corrupt;
  auto const payload = std::span{bytes}.subspan(sizeof head, head.size);
  if (checksum_of(payload) != head.checksum)
    return status::again;
  bytes.assign(payload.begin(), payload.end());
  return status::ok;
}

}  // namespace

status read_page(const std::string &folder,
                 const std::string &name,
                 size_t size_max,
                 std::vector<std::byte> &bytes) {
  auto opened_folder = open_folder(folder);
  if (!opened_folder.ok())
    return opened_folder.error();
  descriptor const folder_fd{opened_folder.value()};
  descriptor const page{open_page(folder_fd.number, name.c_str())};
  if (page.number < 0)
    return system_status("cannot read", folder + "/" + name);
  status code = status::again;
  for (int i = 0; i < read_tries && code == status::again; i++) {
    if (i > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (read_whole(page.number, sizeof(page_header) + size_max, bytes) != status::ok)
      return system_status("cannot read", folder + "/" + name);
    code = strip_header(size_max, bytes);
  }
  return code;
}

}  // namespace tanada::seams
