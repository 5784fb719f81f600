// tests/pool/daemon_process.hpp: tanada-poold in a process of its own, to be killed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tanada::test {

// Ends with the test. After the first start it keeps its port.
class daemon_process {
 public:
  daemon_process(std::string folder, std::vector<std::string> arguments)
      : folder_{std::move(folder)}, arguments_{std::move(arguments)} {}
  ~daemon_process() { end(SIGKILL); }

  void start() {
    std::string const port_file = folder_ + "/port", log = folder_ + "/log";
    std::remove(port_file.c_str());
    std::vector<std::string> words{TND_TEST_POOLD, "--port", std::to_string(port_), "--port-file", port_file};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    std::vector<char *> given;
    for (std::string &one : words) given.push_back(one.data());
    given.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen(log.c_str(), "a", stderr) == nullptr || std::freopen(log.c_str(), "a", stdout) == nullptr) _exit(126);
      execv(given[0], given.data());
      _exit(127);
    }
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (!std::filesystem::exists(port_file)) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << said();
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << said();
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    std::ifstream{port_file} >> port_;
  }
  void end(int number) {
    if (pid_ <= 0) return;
    kill(pid_, number);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url() const { return "pool://127.0.0.1:" + std::to_string(port_) + "/test"; }
  std::string said() const {
    std::ifstream in{folder_ + "/log"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

 private:
  std::string const folder_;
  std::vector<std::string> const arguments_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace tanada::test
