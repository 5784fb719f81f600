// tests/e2e/pool/daemon_process.hpp: a daemon that a test may kill, and a folder for its files.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tanada::test {

// tanada-poold as a separate process, which ends with the test's.
class daemon_process {
 public:
  daemon_process(std::string folder,
                 const std::string &backing,
                 const std::string &log_size = "1GiB")
      : daemon_process{std::move(folder),
                       std::vector<std::string>{"--size",
                                                "48MiB",
                                                "--segment-size",
                                                "2MiB",
                                                "--backing",
                                                backing,
                                                "--log-size",
                                                log_size}} {}
  daemon_process(std::string folder, std::vector<std::string> options)
      : folder_{std::move(folder)}, options_{std::move(options)} {}
  ~daemon_process() {
    end(SIGKILL);
  }

  // For the next start: more arguments, and environment variables.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;

  void start() {
    std::string const port_file = folder_ + "/port", log = folder_ + "/log",
                      port = std::to_string(port_);
    std::remove(port_file.c_str());
    std::vector<std::string> words{TND_TEST_POOLD, "--port", port, "--port-file", port_file};
    words.insert(words.end(), options_.begin(), options_.end());
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char *> pointers;
    for (std::string &one : words)
      pointers.push_back(one.data());
    pointers.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen(log.c_str(), "a", stderr) == nullptr ||
          std::freopen(log.c_str(), "a", stdout) == nullptr)
        _exit(126);
      for (auto const &[name, value] : environment)
        setenv(name.c_str(), value.c_str(), 1);
      execv(TND_TEST_POOLD, pointers.data());
      _exit(127);
    }
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (!std::filesystem::exists(port_file)) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << said();
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << said();
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    std::ifstream{port_file} >> port_ >> web_port_;
  }
  bool is_alive() const {
    return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0;
  }
  pid_t pid() const {
    return pid_;
  }
  uint16_t port() const {
    return port_;
  }
  uint16_t web_port() const {
    return web_port_;
  }
  void end(int number) {
    if (pid_ <= 0)
      return;
    kill(pid_, number);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url() const {
    return "pool://127.0.0.1:" + std::to_string(port_) + "/test";
  }
  std::string said() const {
    std::ifstream in{folder_ + "/log"};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

 private:
  std::string const folder_;
  std::vector<std::string> const options_;
  uint16_t port_ = 0, web_port_ = 0;
  pid_t pid_ = -1;
};

class folder_of_its_own {
 protected:
  folder_of_its_own() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~folder_of_its_own() {
    std::filesystem::remove_all(folder_);
  }

  std::string const folder_ = testing::TempDir() + "tanada_pool_" + std::to_string(getpid());
};

}  // namespace tanada::test
