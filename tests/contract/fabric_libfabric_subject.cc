#include "contract/fabric_libfabric_subject.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace tanada::contract {
namespace {

constexpr size_t victim_size = 1 << 20;
constexpr int start_ms_max =
    120'000;  // some of libfabric's providers read all of /proc/kallsyms when they start

// The card as a fixed layout through a pipe between two processes of one program.
static_assert(std::is_trivially_copyable_v<fabric_peer_card>);

// A port that is free now, so that a victim can come back under it.
std::string free_port() {
  int const probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t size = sizeof at;
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr *>(&at), size), 0);
  EXPECT_EQ(getsockname(probe, reinterpret_cast<sockaddr *>(&at), &size), 0);
  close(probe);
  return std::to_string(ntohs(at.sin_port));
}

class process_victim final : public fabric_victim {
 public:
  explicit process_victim(libfabric_place place) : place_{std::move(place)} {
    if (keeps_address())
      service_ = free_port();
    start();
  }
  ~process_victim() override {
    kill();
  }

  fabric_peer_card card() override {
    return card_;
  }
  void kill() override {
    if (pid_ == -1)
      return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(control_);
    remove_shared_memory();
    pid_ = -1;
  }
  void stop() override {
    ::kill(pid_, SIGSTOP);
    int state = 0;
    waitpid(pid_, &state, WUNTRACED);
  }
  void resume() override {
    ::kill(pid_, SIGCONT);
  }
  void restart() override {
    kill();
    start();
  }
  bool keeps_address() const override {
    return place_.provider != "shm";
  }

 private:
  void start() {
    int told[2], control[2];
    ASSERT_EQ(pipe2(told, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(control, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(control[0], 0);
      dup2(told[1], 1);
      execl("/proc/self/exe",
            "victim",
            "--victim",
            place_.provider.c_str(),
            place_.node.c_str(),
            service_.c_str(),
            nullptr);
      _exit(127);
    }
    close(told[1]);
    close(control[0]);
    control_ = control[1];
    auto *at = reinterpret_cast<char *>(&card_);
    for (size_t got = 0; got < sizeof card_;) {
      pollfd ready{told[0], POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, start_ms_max), 1) << "the second process does not start";
      ssize_t const count = read(told[0], at + got, sizeof card_ - got);
      ASSERT_GT(count, 0) << "the second process has ended";
      got += size_t(count);
    }
    close(told[0]);
  }

  // What a process that is killed leaves. Others sweep it up ten minutes later.
  void remove_shared_memory() const {
    std::string const prefix = "tanada_" + std::to_string(pid_) + "_";
    std::error_code failed;
    for (const auto &entry : std::filesystem::directory_iterator{"/dev/shm", failed}) {
      if (entry.path().filename().string().starts_with(prefix))
        std::filesystem::remove(entry.path(), failed);
    }
  }

  libfabric_place place_;
  std::string service_;
  fabric_peer_card card_{};
  pid_t pid_ = -1;
  int control_ = -1;
};

}  // namespace

std::unique_ptr<fabric_victim> libfabric_subject::victim() {
  return std::make_unique<process_victim>(place_);
}

int libfabric_victim_main(const std::string &provider,
                          const std::string &node,
                          const std::string &service) {
  backends::libfabric_options options;
  options.provider = provider;
  options.node = node;
  options.service = service;
  // The port may still be held by the life before.
  std::unique_ptr<seams::fabric_endpoint> endpoint;
  for (int attempt = 0; attempt < 50 && !endpoint; attempt++) {
    if (attempt != 0)
      usleep(100'000);
    auto opened = backends::libfabric_endpoint_open(options);
    if (opened.ok())
      endpoint = std::move(opened).value();
  }
  if (!endpoint)
    return 1;
  std::vector<std::byte> memory(victim_size, std::byte{0x5a});
  auto region =
      endpoint->region_register({.addr = memory.data(), .size = memory.size()}, {true, true});
  if (!region.ok())
    return 1;
  fabric_peer_card const card{endpoint->address(), region.value().remote};
  if (write(1, &card, sizeof card) != ssize_t(sizeof card))
    return 1;
  for (;;) {
    (void)endpoint->wait(seams::deadline_after(seams::monotonic_clock().now_ns(), 50'000'000));
    seams::fabric_completion done[4];
    (void)endpoint->poll(done);
    pollfd ended{0, POLLIN, 0};
    if (::poll(&ended, 1, 0) == 1)
      return 0;  // whoever started us is gone
  }
}

}  // namespace tanada::contract
