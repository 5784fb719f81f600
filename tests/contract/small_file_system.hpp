// A file system of a few bytes, to be filled: for tests that must not need root.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace tanada::contract {

/// A tmpfs that a child process mounts in a user namespace of its own and keeps until the
/// destructor. Others reach it through that process's root folder. Construct it before there are
/// threads: the child is forked.
class small_file_system {
 public:
  /// \param mount_point an empty folder; \param size as tmpfs takes it, for example "64k".
  small_file_system(const std::string &mount_point, const std::string &size) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
      return;
    std::string const option = "size=" + size;
    std::string const users = "0 " + std::to_string(geteuid()) + " 1";
    std::string const groups = "0 " + std::to_string(getegid()) + " 1";
    keeper_ = fork();
    if (keeper_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      bool const mounted =
          unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_line("/proc/self/setgroups", "deny") &&
          write_line("/proc/self/uid_map", users) && write_line("/proc/self/gid_map", groups) &&
          mount("tanada", mount_point.c_str(), "tmpfs", 0, option.c_str()) == 0;
      if (!mounted || write(ready[1], "", 1) != 1)
        _exit(1);
      for (;;)
        pause();
    }
    close(ready[1]);
    char byte = 0;
    if (keeper_ > 0 && read(ready[0], &byte, 1) == 1)
      folder_ = "/proc/" + std::to_string(keeper_) + "/root" + mount_point;
    close(ready[0]);
  }
  ~small_file_system() {
    if (keeper_ <= 0)
      return;
    kill(keeper_, SIGKILL);
    waitpid(keeper_, nullptr, 0);
  }
  small_file_system(const small_file_system &) = delete;
  small_file_system &operator=(const small_file_system &) = delete;

  /// Empty where this user may not have such a file system.
  const std::string &folder() const {
    return folder_;
  }

 private:
  static bool write_line(const char *path, const std::string &line) {
    int const file = open(path, O_WRONLY | O_CLOEXEC);
    bool const written = file >= 0 && write(file, line.data(), line.size()) == ssize_t(line.size());
    if (file >= 0)
      close(file);
    return written;
  }

  pid_t keeper_ = -1;
  std::string folder_;
};

}  // namespace tanada::contract
