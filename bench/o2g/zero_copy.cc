// bench/o2g/zero_copy: large sends that the kernel copies, against sends without a copy:
// MSG_ZEROCOPY and io_uring's IORING_OP_SEND_ZC. Two processes. A message is complete when the
// receiver has it and the kernel has released its memory. Rounds of the methods alternate, and
// medians are reported.
//
// bench_o2g_zero_copy [--at ADDRESS] [--receiver-in NAMESPACE] [--rounds N] [--json FILE]
//
// --at: the receiver's address, by default 127.0.0.1. --receiver-in: the receiver runs in this
// network namespace (of `ip netns`). zero_copy.py creates two with a link between them.
#include <fcntl.h>
#include <liburing.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../common/report.hpp"
#include "backends/sockets/socket_options.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr size_t total_size = 256 << 20;  // bytes of one measurement
constexpr size_t sizes[]{64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20};
constexpr int patience_ms = 20'000;

// From <linux/io_uring.h>, since Linux 6.2; liburing 2.3 includes an older copy.
constexpr unsigned send_zc_report_usage = 1u << 3, usage_zc_copied = 1u << 31;

struct place {
  std::string address = "127.0.0.1", name_space;
};

void must(bool is_so, const char *what) {
  if (!is_so)
    throw std::runtime_error(std::string{what} + ": " + std::strerror(errno));
}

void be_blocking(int socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
}

// A method to send: sends everything and returns when the memory may be written again.
class way {
 public:
  virtual ~way() = default;
  virtual void send(std::span<const std::byte> bytes) = 0;
  uint64_t sent_count = 0,
           copied_count = 0;  // calls; and calls whose bytes the kernel copied anyway
};

class copied final : public way {
 public:
  explicit copied(int socket) : socket_{socket} {}
  void send(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      ssize_t const taken = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      must(taken > 0, "send");
      bytes = bytes.subspan(size_t(taken));
    }
  }

 private:
  int const socket_;
};

class by_message_flag final : public way {
 public:
  explicit by_message_flag(int socket) : socket_{socket} {
    int const on = 1;
    must(setsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0, "SO_ZEROCOPY");
  }
  void send(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      ssize_t const taken =
          ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_ZEROCOPY);
      if (taken < 0 && errno == ENOBUFS && released_count_ < sent_count) {
        read_releases();
        continue;
      }
      must(taken > 0, "send with MSG_ZEROCOPY");
      sent_count++;
      bytes = bytes.subspan(size_t(taken));
    }
    while (released_count_ < sent_count)
      read_releases();
  }

 private:
  void read_releases() {
    pollfd look{.fd = socket_, .events = 0, .revents = 0};
    must(poll(&look, 1, patience_ms) == 1, "no release");
    char room[128];
    msghdr message{};
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    must(recvmsg(socket_, &message, MSG_ERRQUEUE) >= 0, "recvmsg with MSG_ERRQUEUE");
    for (cmsghdr *each = CMSG_FIRSTHDR(&message); each != nullptr;
         each = CMSG_NXTHDR(&message, each)) {
      sock_extended_err told{};
      std::memcpy(&told, CMSG_DATA(each), sizeof told);
      if (told.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
        continue;
      uint64_t const count = told.ee_data - told.ee_info + 1;
      released_count_ += count;
      if ((told.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0)
        copied_count += count;
    }
  }

  int const socket_;
  uint64_t released_count_ = 0;
};

class by_ring final : public way {
 public:
  explicit by_ring(int socket) : socket_{socket} {
    must(io_uring_queue_init(8, &ring_, 0) == 0, "no io_uring");
  }
  ~by_ring() override {
    io_uring_queue_exit(&ring_);
  }
  void send(std::span<const std::byte> bytes) override {
    io_uring_sqe *const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_send_zc(entry,
                          socket_,
                          bytes.data(),
                          bytes.size(),
                          MSG_NOSIGNAL | MSG_WAITALL,
                          send_zc_report_usage);
    io_uring_submit(&ring_);
    sent_count++;
    for (bool is_over = false; !is_over;) {
      io_uring_cqe *told = nullptr;
      __kernel_timespec limit{.tv_sec = patience_ms / 1000, .tv_nsec = 0};
      must(io_uring_wait_cqe_timeout(&ring_, &told, &limit) == 0, "no release");
      is_over = (told->flags & IORING_CQE_F_MORE) == 0;
      if ((told->flags & IORING_CQE_F_NOTIF) == 0)
        must(told->res == int(bytes.size()), "IORING_OP_SEND_ZC");
      else if ((uint32_t(told->res) & usage_zc_copied) != 0)
        copied_count++;
      io_uring_cqe_seen(&ring_, told);
    }
  }

 private:
  int const socket_;
  io_uring ring_{};
};

enum class kind { copied, message_flag, ring };

std::unique_ptr<way> make_way(kind which, int socket) {
  if (which == kind::message_flag)
    return std::make_unique<by_message_flag>(socket);
  if (which == kind::ring)
    return std::make_unique<by_ring>(socket);
  return std::make_unique<copied>(socket);
}

// The child: answers each message with a byte, until the sender ends.
[[noreturn]] void receive(const place &where, size_t size, int tell) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!where.name_space.empty()) {
    int const own = open(("/run/netns/" + where.name_space).c_str(), O_RDONLY | O_CLOEXEC);
    if (own < 0 || setns(own, CLONE_NEWNET) != 0)
      _exit(1);
  }
  status why = status::ok;
  auto at = seams::socket_address_parse(where.address, 0);
  if (!at.ok())
    _exit(1);
  seams::socket_address bound = std::move(at).value();
  int const listener = backends::socket_listen(bound, why);
  if (listener < 0 || write(tell, &bound.port, sizeof bound.port) != sizeof bound.port)
    _exit(1);
  be_blocking(listener);
  int const socket = accept(listener, nullptr, nullptr);
  backends::socket_prepare(socket, {});
  be_blocking(socket);
  std::vector<std::byte> target(size);
  for (;;) {
    for (size_t done = 0; done < size;) {
      ssize_t const got = recv(socket, target.data() + done, size - done, 0);
      if (got <= 0)
        _exit(0);
      done += size_t(got);
    }
    if (send(socket, target.data(), 1, MSG_NOSIGNAL) != 1)
      _exit(0);
  }
}

int connect_to(const std::string &address, uint16_t number) {
  status why = status::ok;
  int const socket =
      backends::socket_connect(seams::socket_address_parse(address, number).value(), {}, {}, why);
  pollfd look{.fd = socket, .events = POLLOUT, .revents = 0};
  must(socket >= 0 && poll(&look, 1, patience_ms) == 1, "no connection");
  backends::socket_suit_node(socket);
  be_blocking(socket);
  return socket;
}

struct figures {
  double rate = 0, processor_s = 0, copied_part = 0;  // bytes/s; the sender's seconds for each GB
};

double processor_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](const timeval &of) {
    return double(of.tv_sec) + double(of.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

figures measure(const place &where, kind which, size_t size) {
  int tell[2];
  must(pipe(tell) == 0, "pipe");
  pid_t const child = fork();
  if (child == 0)
    receive(where, size, tell[1]);
  close(tell[1]);
  uint16_t number = 0;
  must(read(tell[0], &number, sizeof number) == sizeof number, "the receiver did not start");
  int const socket = connect_to(where.address, number);
  figures got;
  {
    auto const sender = make_way(which, socket);
    std::vector<std::byte> const bytes(size);
    size_t const count = total_size / size, warm_count = count / 4;
    double begin_s = 0, begin_processor_s = 0;
    for (size_t i = 0; i < warm_count + count; i++) {
      if (i == warm_count) {
        begin_s = now_s();
        begin_processor_s = processor_s();
      }
      sender->send(bytes);
      char answer = 0;
      must(recv(socket, &answer, 1, 0) == 1, "no answer");
    }
    got.rate = double(total_size) / (now_s() - begin_s);
    got.processor_s = (processor_s() - begin_processor_s) / double(total_size) * 1e9;
    got.copied_part =
        sender->sent_count == 0 ? 1 : double(sender->copied_count) / double(sender->sent_count);
  }
  close(socket);
  close(tell[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return got;
}

// Also the smallest fraction of sends that were copied.
struct medians {
  explicit medians(const std::vector<figures> &all) {
    std::vector<double> rates, times;
    for (figures const &each : all) {
      rates.push_back(each.rate / 1e9);
      times.push_back(each.processor_s);
      copied_part = std::min(copied_part, each.copied_part);
    }
    rate = median(rates);
    processor_s = median(times);
  }
  double rate = 0, processor_s = 0, copied_part = 1;
};

std::string size_text(size_t size) {
  return size < 1 << 20 ? std::to_string(size >> 10) + " KiB" : std::to_string(size >> 20) + " MiB";
}

int run(int argc, char **argv) {
  place where;
  int round_count = 5;
  read_options(
      argc, argv, "bench/o2g/zero_copy.cc", [&](const std::string &word, const char *value) {
        if (value == nullptr)
          return false;
        if (word == "--at")
          where.address = value;
        else if (word == "--receiver-in")
          where.name_space = value;
        else if (word == "--rounds")
          round_count = std::stoi(value);
        else
          return false;
        return true;
      });
  report out{"o2g_zero_copy", "no GPU"};
  constexpr std::pair<kind, const char *> ways[]{{kind::message_flag, "MSG_ZEROCOPY"},
                                                 {kind::ring, "IORING_OP_SEND_ZC"}};
  for (size_t const size : sizes) {
    std::vector<figures> plain, by_flag, by_sends;
    for (int i = 0; i < round_count; i++) {
      plain.push_back(measure(where, kind::copied, size));
      by_flag.push_back(measure(where, kind::message_flag, size));
      by_sends.push_back(measure(where, kind::ring, size));
    }
    medians const rival{plain};
    for (auto const &[which, name] : ways) {
      medians const own{which == kind::ring ? by_sends : by_flag};
      std::string const what = std::string{name} + ", " + size_text(size);
      out.add({.what = what,
               .value = own.rate,
               .unit = "GB/s",
               .rival = "copied",
               .rival_value = rival.rate,
               .bar = {}});
      out.add({.what = what + ": the sender's processor",
               .value = own.processor_s,
               .unit = "s/GB",
               .rival = "copied",
               .rival_value = rival.processor_s,
               .bar = {},
               .direction = better::lower});
      out.add({.what = what + ": copied all the same",
               .value = own.copied_part,
               .unit = "part",
               .rival = {},
               .rival_value = {},
               .bar = {},
               .direction = better::lower});
    }
  }
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_o2g_zero_copy", [=] { return bench::run(argc, argv); });
}
