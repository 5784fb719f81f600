// seams/os/page_folder.hpp: pages that processes of one user leave for one another: a file
// each, in a folder that nobody else can enter. A page is of a kind, which its name ends with: what
// it holds is between who writes and who reads that kind.
//
// Not mapped, but written and read by system calls: whoever cuts a file short kills nobody, and a
// full file system is a status. A page's process holds a lock (fcntl) on its file, which the kernel
// drops with the process however it ends, and which a child does not inherit: that tells live pages
// from what the dead have left, in any PID namespace.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::port {

// $XDG_RUNTIME_DIR/tanada, or /dev/shm/tanada-UID where that variable names no folder of this user.
std::string page_folder_path();

class page_file {
 public:
  // Makes the folder (mode 0700) and in it a file (mode 0600) named after this process, and removes
  // files of the dead. access: the folder is somebody's else, a link, or open to others; otherwise
  // what the system says, with a message. `kind`: letters.
  static result<std::unique_ptr<page_file>> create(const std::string &folder,
                                                   std::string_view kind);
  // Removes the file, but not in a child of its process.
  ~page_file();
  page_file(const page_file &) = delete;

  // All that the page tells from now on. no_space: there was no room, and it tells what it told
  // before.
  status publish(std::span<const std::byte> bytes);
  const std::string &path() const {
    return path_;
  }

 private:
  page_file(std::string path, int folder, int descriptor);
  status reserve(size_t size);
  status write(size_t offset, std::span<const std::byte> bytes);

  std::string const path_;
  int const folder_, descriptor_;
  pid_t const owner_;
  size_t reserved_ = 0;
  uint64_t sequence_ = 0;
};

struct found_page {
  pid_t process;
  std::string name;  // in the folder
};

// The pages of a kind, of live processes; empty where there is no folder. Errors as
// page_file::create().
result<std::vector<found_page>> list_pages(const std::string &folder, std::string_view kind);

// What a page tells, as a whole, `size_max` bytes at most; waits some milliseconds while it is
// being written. no_entry: it is gone; access: it is no file of this user; again: it was never
// whole; corrupt: it is no page, or a damaged one, or has more bytes.
status read_page(const std::string &folder, const std::string &name, size_t size_max,
                 std::vector<std::byte> &bytes);

}  // namespace tanada::port
