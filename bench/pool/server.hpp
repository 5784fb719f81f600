// bench/pool/server.hpp: programs that the benchmark starts, and what they need.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

// A folder that goes with its object.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder &) = delete;
  scratch_folder &operator=(const scratch_folder &) = delete;
  const std::string &path() const {
    return path_;
  }

 private:
  std::string path_;
};

// A program in a process group of its own. It is killed with this process, and stopped by its
// object's end: SIGTERM, and SIGKILL after 3 s.
class server {
 public:
  // `arguments` begins with the program's path. What it says goes to the file `log`.
  server(const std::vector<std::string> &arguments, const std::string &log);
  // The same for a function of this program; it must not return to its caller.
  explicit server(const std::function<void()> &body);
  ~server();
  server(const server &) = delete;
  server &operator=(const server &) = delete;

  // Ask `is_ready` every 10 ms for up to `limit_s`. Throws with the log's last line when time is up
  // or the program has ended.
  void wait_until(const std::function<bool()> &is_ready, double limit_s);

  // A line to its standard input, and one of its standard output, without the end; throws after
  // `limit_s`.
  void say(const std::string &line);
  std::string hear(double limit_s);

 private:
  bool has_ended();
  [[noreturn]] void fail(const std::string &what) const;

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;  // of the program, our ends
  std::string name_, log_, heard_;
};

// The path of a program in PATH or the folders of system programs; throws not_here.
std::string find_program(const std::string &name);

// A TCP port of 127.0.0.1 that nobody listens on now.
uint16_t free_port();

// Run `body` in a process whose network (loopback only), mounts and processes are its own, so that
// servers with fixed ports and folders meet nobody else's, and all of them end with it, whatever
// they did to leave. SIGINT and SIGTERM end it at once; what lies in the temporary folder goes.
// Where the system does not allow that, `body` hears false and has the machine's own. Returns what
// `body` returned, or 1. Before any thread starts.
int in_isolation(const std::function<int(bool is_isolated)> &body);

}  // namespace bench
