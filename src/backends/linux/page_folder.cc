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

#include "core/base/log.hpp"

namespace tanada::port {
namespace {

constexpr time_t rest_of_the_dead_s =
    2;  // a page is made and then locked: a young one without a lock is not dead
constexpr int read_tries =
    100;  // a millisecond apart; a page is in writing for less than one of them
constexpr uint64_t page_magic = 0x454741505f444e54;  // "TND_PAGE"

// Before what a page tells. The writer makes `sequence` odd, writes, and makes it even again; what
// a reader copies meanwhile fails the checksum.
struct page_head {
  uint64_t magic;
  uint64_t sequence;  // odd: it is being written
  uint64_t checksum;  // of `size` and of what follows
  uint64_t size;      // bytes that follow
};
static_assert(sizeof(page_head) == 32 && offsetof(page_head, sequence) == 8);

// FNV-1a over words of 8 bytes, the last one filled with zeros.
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325 ^ bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}

struct descriptor {
  int number;
  explicit descriptor(int from) : number{from} {}
  ~descriptor() {
    if (number >= 0)
      ::close(number);
  }
  descriptor(const descriptor &) = delete;
  int release() {
    return std::exchange(number, -1);
  }
};

status system_status(const char *what, const std::string &path) {
  status const code = status(-errno);
  set_last_message(std::string(what) + " " + path + ": " + std::strerror(errno));
  return code;
}

// Entered without following a link, and nobody else's: names in it can be trusted then.
result<int> enter(const std::string &folder) {
  descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (opened.number < 0)
    return system_status("cannot open the folder", folder);
  struct stat seen{};
  if (fstat(opened.number, &seen) != 0)
    return system_status("cannot look at", folder);
  if (seen.st_uid != geteuid() || (seen.st_mode & 077) != 0) {
    set_last_message(folder + " is not this user's alone: remove it, or make it mode 0700");
    return status::access;
  }
  return opened.release();
}

// PID-NUMBER.KIND; 0 for any other name. Of any kind where none is named.
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

struct flock whole_file(short kind) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

// A file of this user that can be read without waiting.
int open_page(int folder, const char *name) {
  descriptor opened{openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat seen{};
  if (opened.number < 0)
    return -1;
  if (fstat(opened.number, &seen) != 0)
    return -1;
  if (!S_ISREG(seen.st_mode) || seen.st_uid != geteuid()) {
    errno = EACCES;
    return -1;
  }
  return opened.release();
}

// The lock of one's own process does not show, and to open and close the file would drop it.
bool is_locked(int folder, const char *name) {
  descriptor const opened{open_page(folder, name)};
  if (opened.number < 0)
    return false;
  struct flock asked = whole_file(F_WRLCK);
  return fcntl(opened.number, F_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
}

template <class Function>
void each_page(int folder, std::string_view kind, Function function) {
  int const own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *const listing = own < 0 ? nullptr : fdopendir(own);
  if (listing == nullptr) {
    if (own >= 0)
      ::close(own);
    return;
  }
  while (const dirent *const entry = readdir(listing))
    if (pid_t const process = process_of(entry->d_name, kind); process != 0)
      function(entry->d_name, process);
  closedir(listing);
}

void remove_dead_pages(int folder) {
  each_page(folder, {}, [&](const char *name, pid_t process) {
    struct stat seen{};
    if (process == getpid() || fstatat(folder, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
      return;
    if (time(nullptr) - seen.st_mtime < rest_of_the_dead_s || is_locked(folder, name))
      return;
    (void)unlinkat(folder, name, 0);
  });
}

}  // namespace

std::string page_folder_path() {
  struct stat seen{};
  const char *const runtime = std::getenv("XDG_RUNTIME_DIR");
  bool const usable = runtime != nullptr && runtime[0] == '/' && stat(runtime, &seen) == 0 &&
                      S_ISDIR(seen.st_mode) && seen.st_uid == geteuid();
  return usable ? std::string(runtime) + "/tanada" : "/dev/shm/tanada-" + std::to_string(geteuid());
}

page_file::page_file(std::string path, int folder, int descriptor)
    : path_{std::move(path)}, folder_{folder}, descriptor_{descriptor}, owner_{getpid()} {}

result<std::unique_ptr<page_file>> page_file::create(const std::string &folder,
                                                     std::string_view kind) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_status("cannot make the folder", folder);
  auto entered = enter(folder);
  if (!entered.ok())
    return entered.error();
  descriptor inside{entered.value()};
  remove_dead_pages(inside.number);
  static std::atomic<uint32_t> next{0};
  std::string name;
  int made = -1;
  for (int tries = 0; made < 0 && tries < 1000;
       tries++) {  // a PID comes again, and with it names of the dead
    name = std::to_string(getpid()) + "-" + std::to_string(next++) + "." + std::string{kind};
    made = openat(inside.number, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0600);
    if (made < 0 && errno != EEXIST)
      break;
  }
  if (made < 0)
    return system_status("cannot make a page in", folder);
  descriptor page{made};
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(page.number, F_SETLK, &lock) != 0) {
    status const code = system_status("cannot lock a page in", folder);
    (void)unlinkat(inside.number, name.c_str(), 0);
    return code;
  }
  return std::unique_ptr<page_file>{
      new page_file{folder + "/" + name, inside.release(), page.release()}};
}

page_file::~page_file() {
  if (owner_ == getpid())
    (void)unlinkat(folder_, path_.substr(path_.rfind('/') + 1).c_str(), 0);
  ::close(descriptor_);
  ::close(folder_);
}

status page_file::reserve(size_t size) {
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

// Readers look at the first words alone while the sequence is odd.
status page_file::publish(std::span<const std::byte> bytes) {
  page_head head{.magic = page_magic,
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

result<std::vector<found_page>> list_pages(const std::string &folder, std::string_view kind) {
  std::vector<found_page> found;
  auto entered = enter(folder);
  if (!entered.ok()) {
    if (entered.error() == status::no_entry)
      return found;
    return entered.error();
  }
  descriptor const inside{entered.value()};
  each_page(inside.number, kind, [&](const char *name, pid_t process) {
    if (process == getpid() || is_locked(inside.number, name))
      found.push_back({process, name});
  });
  return found;
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

// The bytes of a file become what the page tells.
status take_head_off(size_t size_max, std::vector<std::byte> &bytes) {
  page_head head{};
  if (bytes.empty())
    return status::again;  // it has been made, and nothing is written yet
  if (bytes.size() < sizeof head)
    return status::corrupt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic == 0)
    return status::again;  // there is room for it
  if (head.magic != page_magic || head.size > size_max)
    return status::corrupt;
  if ((head.sequence & 1) != 0)
    return status::again;
  if (bytes.size() - sizeof head < head.size)
    return status::corrupt;
  auto const told = std::span{bytes}.subspan(sizeof head, head.size);
  if (checksum_of(told) != head.checksum)
    return status::again;
  bytes.assign(told.begin(), told.end());
  return status::ok;
}

}  // namespace

status read_page(const std::string &folder, const std::string &name, size_t size_max,
                 std::vector<std::byte> &bytes) {
  auto entered = enter(folder);
  if (!entered.ok())
    return entered.error();
  descriptor const inside{entered.value()};
  descriptor const page{open_page(inside.number, name.c_str())};
  if (page.number < 0)
    return system_status("cannot read", folder + "/" + name);
  status code = status::again;
  for (int i = 0; i < read_tries && code == status::again; i++) {
    if (i > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (read_whole(page.number, sizeof(page_head) + size_max, bytes) != status::ok)
      return system_status("cannot read", folder + "/" + name);
    code = take_head_off(size_max, bytes);
  }
  return code;
}

}  // namespace tanada::port
