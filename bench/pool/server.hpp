// bench/pool/server.hpp: starts programs for the benchmark, and what they need.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

// A folder that is removed with its object.
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

// A program in its own process group. It is killed with this process, and stopped by its object's
// destructor: SIGTERM, and SIGKILL after 3 s.
class server {
 public:
  // `arguments` begins with the program's path. Its output goes to the file `log`.
  server(const std::vector<std::string> &arguments, const std::string &log);
  // The same for a function of this program, which must not return to its caller.
  explicit server(const std::function<void()> &body);
  ~server();
  server(const server &) = delete;
  server &operator=(const server &) = delete;

  // Calls `is_ready` every 10 ms for up to `limit_s`. Throws with the log's last line when the time
  // is over or the program has ended.
  void wait_until(const std::function<bool()> &is_ready, double limit_s);

  pid_t process_id() const {
    return pid_;
  }

  // Ends it as a crash would, and waits for its end.
  void kill_now();

  // Writes a line to its standard input, or reads one from its standard output without the line
  // end; throws after `limit_s`.
  void say(const std::string &line);
  std::string hear(double limit_s);

 private:
  bool has_ended();
  [[noreturn]] void fail(const std::string &what) const;

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;  // our ends of the program's pipes
  std::string name_, log_, heard_;
};

// The path of a program in PATH or the folders of system programs; throws not_here.
std::string find_program(const std::string &name);

// A TCP port of 127.0.0.1 that is free now.
uint16_t free_port();

// Runs `body` in a process with its own network (only loopback), mounts and processes. Servers with
// fixed ports and folders then do not conflict with others, and all of them end with it, even if
// they detach. SIGINT and SIGTERM end it immediately and remove its temporary folder. If the system
// does not allow that, `body` gets false and uses the machine's own. Returns the result of `body`,
// or 1. Call it before any thread starts.
int in_isolation(const std::function<int(bool is_isolated)> &body);

}  // namespace bench
