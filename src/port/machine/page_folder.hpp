// port/machine/page_folder.hpp: pages that processes of one user leave for one another: a file each, in a folder that
// nobody else can enter.
//
// Not mapped, but written and read by system calls: whoever cuts a file short kills nobody, and a full file system is a
// status. A page's process holds a lock (fcntl) on its file, which the kernel drops with the process however it ends, and
// which a child does not inherit: that tells live pages from what the dead have left, in any PID namespace.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace tanada::port {

// $XDG_RUNTIME_DIR/tanada, or /dev/shm/tanada-UID where that variable names no folder of this user.
std::string page_folder_path();

class page_file {
 public:
  // Makes the folder (mode 0700) and in it a file (mode 0600) named after this process, and removes files of the dead.
  // access: the folder is somebody's else, a link, or open to others; otherwise what the system says, with a message.
  static result<std::unique_ptr<page_file>> create(const std::string &folder);
  // Removes the file, but not in a child of its process.
  ~page_file();
  page_file(const page_file &) = delete;

  // Make room for `size` bytes. no_space: nothing has changed.
  status reserve(size_t size);
  status write(size_t offset, std::span<const std::byte> bytes);
  const std::string &path() const { return path_; }

 private:
  page_file(std::string path, int folder, int descriptor);
  std::string const path_;
  int const folder_, descriptor_;
  pid_t const owner_;
  size_t reserved_ = 0;
};

struct found_page {
  pid_t process;
  std::string name;  // in the folder
};

// The pages of live processes; empty where there is no folder. Errors as page_file::create().
result<std::vector<found_page>> list_pages(const std::string &folder);

// The bytes of a page, `size_max` at most. no_entry: it is gone; access: it is no file of this user.
status read_page(const std::string &folder, const std::string &name, size_t size_max, std::vector<std::byte> &bytes);

}  // namespace tanada::port
