// seams/os/page_folder.hpp: pages that processes of one user publish for one another: a file each,
// in a folder that no other user can enter. A page has a kind, with which its name ends. Writers
// and readers of a kind agree on its content.
//
// Pages are not mapped, but written and read by system calls: a truncated file kills no process,
// and a full file system is a status. A page's process holds a lock (fcntl) on its file. The kernel
// drops it with the process, however that ends, and a child does not inherit it. The lock
// distinguishes live pages from those of dead processes, in any PID namespace.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::seams {

// $XDG_RUNTIME_DIR/tanada, or /dev/shm/tanada-UID where that variable names no folder of this user.
std::string page_folder_path();

class page_file {
 public:
  // Creates the folder (mode 0700) and in it a file (mode 0600) named after this process, and
  // removes files of dead processes. access: the folder belongs to another user, is a link, or is
  // open to others. Otherwise the system's error, with a message. `kind`: letters.
  static result<std::unique_ptr<page_file>> create(const std::string &folder,
                                                   std::string_view kind);
  // Removes the file, but not in a child of its process, and the folder if it is empty then.
  ~page_file();
  page_file(const page_file &) = delete;

  // Replaces the content of the page. no_space: the previous content stays.
  status publish(std::span<const std::byte> bytes);
  const std::string &path() const {
    return path_;
  }

 private:
  page_file(std::string path, int folder, int descriptor);
  static result<std::unique_ptr<page_file>> try_create(const std::string &folder,
                                                       std::string_view kind);
  status reserve(size_t size);
  status write(size_t offset, std::span<const std::byte> bytes);

  std::string const path_;
  int const folder_, descriptor_;
  pid_t const owner_;
  size_t reserved_ = 0;
  uint64_t sequence_ = 0;
};

struct page_entry {
  pid_t process;
  std::string name;  // in the folder
};

// The pages of a kind, of live processes; empty if there is no folder. Errors as for
// page_file::create().
result<std::vector<page_entry>> list_pages(const std::string &folder, std::string_view kind);

// Reads a whole page, of at most `size_max` bytes. Waits some milliseconds while it is being
// written. no_entry: it no longer exists. access: it is not a file of this user. again: it was
// never whole. corrupt: it is not a page, is damaged, or has more bytes.
status read_page(const std::string &folder,
                 const std::string &name,
                 size_t size_max,
                 std::vector<std::byte> &bytes);

}  // namespace tanada::seams
