#include "server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "rival.hpp"

namespace bench {
namespace {

[[noreturn]] void fail(const char *call) {
  throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Runs in the child: a process group of its own that is killed with the benchmark, whose process is
// `parent`.
void leave(pid_t parent) {
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
}

std::string last_line(const std::string &path) {
  std::ifstream in{path};
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      last = line;
  return last;
}

}  // namespace

scratch_folder::scratch_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "bench_pool_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    fail("mkdtemp");
  path_ = name;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

server::server(const std::vector<std::string> &arguments, const std::string &log)
    : name_{arguments.front()}, log_{log} {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    bench::fail("pipe2");
  std::vector<char *> words;
  for (const std::string &each : arguments)
    words.push_back(const_cast<char *>(each.c_str()));
  words.push_back(nullptr);
  pid_t const parent = getpid();
  pid_ = fork();
  if (pid_ < 0)
    bench::fail("fork");
  if (pid_ == 0) {
    leave(parent);
    int const said = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)dup2(in[0], 0);
    (void)dup2(out[1], 1);
    (void)dup2(said, 2);
    (void)execv(words[0], words.data());
    _exit(127);
  }
  (void)close(in[0]);
  (void)close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

server::server(const std::function<void()> &body) : name_{"server"} {
  pid_t const parent = getpid();
  pid_ = fork();
  if (pid_ < 0)
    bench::fail("fork");
  if (pid_ != 0)
    return;
  leave(parent);
  body();
  _exit(0);
}

server::~server() {
  if (input_ >= 0)
    (void)close(input_);
  if (output_ >= 0)
    (void)close(output_);
  if (has_ended())
    return;
  pid_t const group = pid_;
  (void)kill(-group, SIGTERM);
  for (int i = 0; i < 300 && !has_ended(); i++)
    nap();
  (void)kill(-group, SIGKILL);  // processes that it started and left
  if (pid_ >= 0)
    (void)waitpid(pid_, nullptr, 0);
}

void server::kill_now() {
  if (has_ended())
    return;
  (void)kill(-pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool server::has_ended() {
  if (pid_ >= 0 && waitpid(pid_, nullptr, WNOHANG) == pid_)
    pid_ = -1;
  return pid_ < 0;
}

void server::fail(const std::string &what) const {
  std::string const line = last_line(log_);
  throw std::runtime_error(name_ + ": " + what + (line.empty() ? "" : "; it said last: " + line));
}

void server::wait_until(const std::function<bool()> &is_ready, double limit_s) {
  double const end = now_s() + limit_s;
  while (!is_ready()) {
    if (has_ended())
      fail("it ended at its start");
    if (now_s() > end)
      fail("it is not ready after " + std::to_string(int(limit_s)) + " s");
    nap();
  }
}

void server::say(const std::string &line) {
  std::string const all = line + "\n";
  if (write(input_, all.data(), all.size()) != ssize_t(all.size()))
    fail("it takes no orders");
}

std::string server::hear(double limit_s) {
  double const end = now_s() + limit_s;
  for (;;) {
    size_t const at = heard_.find('\n');
    if (at != std::string::npos) {
      std::string line = heard_.substr(0, at);
      heard_.erase(0, at + 1);
      return line;
    }
    pollfd waited{output_, POLLIN, 0};
    int const left_ms = int((end - now_s()) * 1000);
    if (left_ms <= 0 || poll(&waited, 1, left_ms) == 0)
      fail("no answer in " + std::to_string(int(limit_s)) + " s");
    char text[65536];
    ssize_t const got = read(output_, text, sizeof text);
    if (got <= 0)
      fail("it has ended");
    heard_.append(text, size_t(got));
  }
}

std::string find_program(const std::string &name) {
  const char *const path = getenv("PATH");
  std::istringstream folders{std::string(path == nullptr ? "" : path) +
                             ":/usr/sbin:/sbin:/usr/bin"};
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string const full = folder + "/" + name;
    if (access(full.c_str(), X_OK) == 0)
      return full;
  }
  throw not_here(name + " is not installed");
}

uint16_t free_port() {
  int const file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof addr;
  if (file < 0 || bind(file, reinterpret_cast<sockaddr *>(&addr), size) != 0 ||
      getsockname(file, reinterpret_cast<sockaddr *>(&addr), &size) != 0)
    fail("a free port");
  (void)close(file);
  return ntohs(addr.sin_port);
}

namespace {

bool loopback_up() {
  int const file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loop{};
  std::strcpy(loop.ifr_name, "lo");
  loop.ifr_flags = IFF_UP | IFF_RUNNING;
  bool const is_up = ioctl(file, SIOCSIFFLAGS, &loop) == 0;
  (void)close(file);
  return is_up;
}

}  // namespace

int in_isolation(const std::function<int(bool is_isolated)> &body) {
  scratch_folder const scratch;
  (void)setenv("TMPDIR", scratch.path().c_str(), 1);
  bool const has_processes = unshare(CLONE_NEWPID) == 0;  // of the next child
  sigset_t waited, before;
  (void)sigemptyset(&waited);
  for (int const each : {SIGINT, SIGTERM, SIGCHLD})
    (void)sigaddset(&waited, each);
  (void)sigprocmask(SIG_BLOCK, &waited, &before);
  pid_t const parent = getpid(), inner = fork();
  if (inner < 0)
    fail("fork");
  if (inner == 0) {
    (void)sigprocmask(SIG_SETMASK, &before, nullptr);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    // From a new PID namespace the parent is not visible: 0.
    if (pid_t const seen = getppid(); seen != 0 && seen != parent)
      _exit(1);
    bool const is_isolated = has_processes && unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                             loopback_up() &&
                             mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    // Some servers inspect the system themselves. If that is not allowed they may fail, and report
    // it.
    if (is_isolated)
      (void)mount("proc", "/proc", "proc", 0, nullptr);
    int const status = body(is_isolated);
    (void)std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  while (waitpid(inner, &status, WNOHANG) == 0) {
    int signal = 0;
    (void)sigwait(&waited, &signal);
    if (signal != SIGCHLD)
      (void)kill(inner, SIGKILL);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace bench
