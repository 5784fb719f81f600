// Verifies that no call which libfabric defines as non-blocking sleeps, whatever its caller did
// before.
//
// Each call is made by callers with different polling habits, and the calling thread's voluntary
// context switches are counted. A thread that sleeps adds one. A preempted thread adds none, so a
// loaded machine does not fail the test.

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "products/o2g/provider/provider_fixture.hpp"

namespace tanada::o2g::provider {
namespace {

constexpr uint64_t us = 1'000, ms = 1'000 * us;
constexpr uint64_t region_key = 9;

uint64_t now_ns() {
  return seams::monotonic_clock().now_ns();
}

long switch_count() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// The application's own computation: it uses the processor and makes no call.
void work(uint64_t duration_ns) {
  uint64_t const end_ns = now_ns() + duration_ns;
  while (now_ns() < end_ns)
    continue;
}

// Number of sleeps of the calling thread within `count` calls. Stops once it exceeds `limit`.
long sleeps_in(int count, long limit, const std::function<void()> &call) {
  long const count_before = switch_count();
  for (int i = 0; i < count && switch_count() - count_before <= limit; i++)
    call();
  return switch_count() - count_before;
}

// A named call. It may leave completions in the queues.
struct named_call {
  const char *name;
  std::function<void()> make;
};

// Two endpoints with all objects that can be called, and one request of each kind.
struct callers : testing::Test {
  callers() : b_of_a{a.number_of(b)} {
    EXPECT_EQ(fi_mr_reg(b.domain,
                        memory.data(),
                        sizeof memory,
                        FI_REMOTE_READ | FI_REMOTE_WRITE,
                        0,
                        region_key,
                        0,
                        &region,
                        nullptr),
              0);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_FD;
    EXPECT_EQ(fi_eq_open(a.fabric, &eq_attr, &events, nullptr), 0);
  }
  ~callers() override {
    EXPECT_EQ(fi_close(&events->fid), 0);
    EXPECT_EQ(fi_close(&region->fid), 0);
  }

  // The caller has polled without success for longer than a library could reasonably spin.
  void poll_fruitlessly(uint64_t duration_ns) {
    for (uint64_t const end_ns = now_ns() + duration_ns; now_ns() < end_ns;)
      (void)fi_cq_read(a.queue, &entry, 1);
  }

  // Both endpoints are connected, and nothing is in flight.
  void connect_endpoints() {
    ASSERT_EQ(fi_recv(b.ep, receive_buffer.data(), 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    ASSERT_EQ(fi_inject(a.ep, send_buffer.data(), 8, b_of_a), 0);
    ASSERT_EQ(read_entry(b, entry, {&a}), 1);
  }

  iovec part() {
    return {send_buffer.data(), 8};
  }
  fi_rma_iov remote() {
    return {0, 8, region_key};
  }

  std::vector<named_call> reading_calls();
  std::vector<named_call> posting_calls();
  std::vector<named_call> address_and_memory_calls();

  test_endpoint a{{.wait = FI_WAIT_FD}}, b;
  fi_addr_t b_of_a;
  std::array<uint64_t, 64> memory{}, send_buffer{}, receive_buffer{}, compared{};
  fid_mr *region = nullptr;
  fid_eq *events = nullptr;
  fi_cq_tagged_entry entry{};
  fi_context contexts[4]{};
};

std::vector<named_call> callers::reading_calls() {
  return {{"fi_cq_read",
           [this] {
             (void)fi_cq_read(a.queue, &entry, 1);
           }},
          {"fi_cq_read of none",
           [this] {
             (void)fi_cq_read(a.queue, nullptr, 0);
           }},
          {"fi_cq_readfrom",
           [this] {
             fi_addr_t source = 0;
             (void)fi_cq_readfrom(a.queue, &entry, 1, &source);
           }},
          {"fi_cq_readerr",
           [this] {
             fi_cq_err_entry error{};
             (void)fi_cq_readerr(a.queue, &error, 0);
           }},
          {"fi_cq_sread without a time-out",
           [this] {
             (void)fi_cq_sread(a.queue, &entry, 1, nullptr, 0);
           }},
          {"fi_cq_signal",
           [this] {
             (void)fi_cq_signal(a.queue);
             (void)fi_cq_sread(a.queue, &entry, 1, nullptr, 0);
           }},
          {"fi_cntr_read",
           [this] {
             (void)fi_cntr_read(a.receives);
           }},
          {"fi_cntr_readerr",
           [this] {
             (void)fi_cntr_readerr(a.receives);
           }},
          {"fi_cntr_add",
           [this] {
             (void)fi_cntr_add(a.receives, 1);
           }},
          {"fi_cntr_set",
           [this] {
             (void)fi_cntr_set(a.receives, 0);
           }},
          {"fi_cntr_wait without a time-out",
           [this] {
             (void)fi_cntr_wait(a.receives, 1'000'000, 0);
           }},
          {"fi_trywait",
           [this] {
             std::array<fid *, 2> waited{&a.queue->fid, &a.receives->fid};
             (void)fi_trywait(a.fabric, waited.data(), 2);
           }},
          {"fi_eq_read",
           [this] {
             uint32_t event = 0;
             (void)fi_eq_read(events, &event, receive_buffer.data(), sizeof receive_buffer, 0);
           }},
          {"fi_eq_sread without a time-out",
           [this] {
             uint32_t event = 0;
             (void)fi_eq_sread(events, &event, receive_buffer.data(), sizeof receive_buffer, 0, 0);
           }},
          {"fi_eq_readerr", [this] {
             fi_eq_err_entry error{};
             (void)fi_eq_readerr(events, &error, 0);
           }}};
}

std::vector<named_call> callers::posting_calls() {
  auto const is_accepted = [](ssize_t code) {
    EXPECT_TRUE(code == 0 || code == -FI_EAGAIN) << code;
  };
  auto const make_message = [this] {
    fi_msg_tagged message{};
    message.addr = b_of_a;
    message.tag = 1;
    return message;
  };
  return {{"fi_send",
           [=, this] {
             is_accepted(fi_send(a.ep, send_buffer.data(), 8, nullptr, b_of_a, &contexts[0]));
           }},
          {"fi_sendv",
           [=, this] {
             iovec const iov = part();
             is_accepted(fi_sendv(a.ep, &iov, nullptr, 1, b_of_a, &contexts[0]));
           }},
          {"fi_inject",
           [=, this] {
             is_accepted(fi_inject(a.ep, send_buffer.data(), 8, b_of_a));
           }},
          {"fi_injectdata",
           [=, this] {
             is_accepted(fi_injectdata(a.ep, send_buffer.data(), 8, 7, b_of_a));
           }},
          {"fi_tsend",
           [=, this] {
             is_accepted(fi_tsend(a.ep, send_buffer.data(), 8, nullptr, b_of_a, 1, &contexts[0]));
           }},
          {"fi_tsenddata",
           [=, this] {
             is_accepted(
                 fi_tsenddata(a.ep, send_buffer.data(), 8, nullptr, 7, b_of_a, 1, &contexts[0]));
           }},
          {"fi_tinject",
           [=, this] {
             is_accepted(fi_tinject(a.ep, send_buffer.data(), 8, b_of_a, 1));
           }},
          {"fi_tsendmsg, delivered",
           [=, this] {
             iovec const iov = part();
             fi_msg_tagged message = make_message();
             message.msg_iov = &iov;
             message.iov_count = 1;
             is_accepted(fi_tsendmsg(a.ep, &message, FI_DELIVERY_COMPLETE));
           }},
          {"fi_recv and fi_cancel",
           [=, this] {
             is_accepted(
                 fi_recv(a.ep, receive_buffer.data(), 8, nullptr, FI_ADDR_UNSPEC, &contexts[1]));
             EXPECT_EQ(fi_cancel(&a.ep->fid, &contexts[1]), 0);
             fi_cq_err_entry error{};
             while (fi_cq_readerr(a.queue, &error, 0) != 1)
               (void)fi_cq_read(a.queue, &entry, 1);
           }},
          {"fi_trecvmsg, which looks",
           [=, this] {
             fi_msg_tagged message = make_message();
             message.addr = FI_ADDR_UNSPEC;
             is_accepted(fi_trecvmsg(a.ep, &message, FI_PEEK));
             fi_cq_err_entry error{};
             while (fi_cq_readerr(a.queue, &error, 0) != 1)
               (void)fi_cq_read(a.queue, &entry, 1);
           }},
          {"fi_write",
           [=, this] {
             is_accepted(fi_write(
                 a.ep, send_buffer.data(), 8, nullptr, b_of_a, 0, region_key, &contexts[0]));
           }},
          {"fi_writedata",
           [=, this] {
             is_accepted(fi_writedata(
                 a.ep, send_buffer.data(), 8, nullptr, 7, b_of_a, 0, region_key, &contexts[0]));
           }},
          {"fi_inject_write",
           [=, this] {
             is_accepted(fi_inject_write(a.ep, send_buffer.data(), 8, b_of_a, 0, region_key));
           }},
          {"fi_read",
           [=, this] {
             is_accepted(fi_read(
                 a.ep, receive_buffer.data(), 8, nullptr, b_of_a, 0, region_key, &contexts[0]));
           }},
          {"fi_atomic",
           [=, this] {
             is_accepted(fi_atomic(a.ep,
                                   send_buffer.data(),
                                   1,
                                   nullptr,
                                   b_of_a,
                                   0,
                                   region_key,
                                   FI_UINT64,
                                   FI_SUM,
                                   &contexts[0]));
           }},
          {"fi_inject_atomic",
           [=, this] {
             is_accepted(fi_inject_atomic(
                 a.ep, send_buffer.data(), 1, b_of_a, 0, region_key, FI_UINT64, FI_SUM));
           }},
          {"fi_fetch_atomic",
           [=, this] {
             is_accepted(fi_fetch_atomic(a.ep,
                                         send_buffer.data(),
                                         1,
                                         nullptr,
                                         receive_buffer.data(),
                                         nullptr,
                                         b_of_a,
                                         0,
                                         region_key,
                                         FI_UINT64,
                                         FI_SUM,
                                         &contexts[0]));
           }},
          {"fi_compare_atomic", [=, this] {
             is_accepted(fi_compare_atomic(a.ep,
                                           send_buffer.data(),
                                           1,
                                           nullptr,
                                           compared.data(),
                                           nullptr,
                                           receive_buffer.data(),
                                           nullptr,
                                           b_of_a,
                                           0,
                                           region_key,
                                           FI_UINT64,
                                           FI_CSWAP,
                                           &contexts[0]));
           }}};
}

std::vector<named_call> callers::address_and_memory_calls() {
  return {{"fi_av_insert, fi_av_lookup, fi_av_remove",
           [this] {
             sockaddr_in address{};
             address.sin_family = AF_INET;
             address.sin_port = htons(9);
             address.sin_addr.s_addr = htonl(0x0A000001);
             fi_addr_t number = 0;
             EXPECT_EQ(fi_av_insert(a.peers, &address, 1, &number, 0, nullptr), 1);
             size_t size = sizeof address;
             EXPECT_EQ(fi_av_lookup(a.peers, number, &address, &size), 0);
             EXPECT_EQ(fi_av_remove(a.peers, &number, 1, 0), 0);
           }},
          {"fi_getname",
           [this] {
             EXPECT_FALSE(a.name().empty());
           }},
          {"fi_mr_reg, fi_close", [this] {
             fid_mr *region_handle = nullptr;
             EXPECT_EQ(fi_mr_reg(a.domain,
                                 send_buffer.data(),
                                 sizeof send_buffer,
                                 FI_REMOTE_READ,
                                 0,
                                 3,
                                 0,
                                 &region_handle,
                                 nullptr),
                       0);
             EXPECT_EQ(fi_close(&region_handle->fid), 0);
           }}};
}

// Make 100 calls of each kind. A caller that keeps polling after a long wait is the one that a
// library is tempted to put to sleep.
TEST_F(callers, do_not_sleep_in_a_call_after_a_long_fruitless_wait) {
  connect_endpoints();
  for (auto const &kind : {reading_calls(), posting_calls(), address_and_memory_calls()})
    for (named_call const &call : kind) {
      poll_fruitlessly(15 * ms);
      // A call may once wait for the lock while the endpoint's own thread works. A sleep by design
      // recurs.
      EXPECT_LE(sleeps_in(100, 2, call.make), 2) << call.name;
    }
}

TEST_F(callers, do_not_sleep_between_pieces_of_work) {
  connect_endpoints();
  poll_fruitlessly(200 * ms);
  for (auto const &[piece_ns, piece_count] : {std::pair{2 * us, 20'000},
                                              std::pair{50 * us, 1'000},
                                              std::pair{3 * ms, 50},
                                              std::pair{10 * ms, 20}})
    EXPECT_EQ(sleeps_in(piece_count,
                        0,
                        [&, piece_ns = piece_ns] {
                          work(piece_ns);
                          (void)fi_cq_read(a.queue, &entry, 1);
                        }),
              0)
        << piece_ns << " ns";
}

// The endpoint is the only user of its queue or shares it with another one, polled through a poll
// set and counters: all the ways in which a caller polls.
TEST_F(callers, do_not_sleep_while_they_look_in_several_places) {
  connect_endpoints();
  fi_poll_attr attr{};
  fid_poll *set = nullptr;
  ASSERT_EQ(fi_poll_open(a.domain, &attr, &set), 0);
  ASSERT_EQ(fi_poll_add(set, &a.queue->fid, 0), 0);
  EXPECT_EQ(sleeps_in(40'000,
                      0,
                      [&] {
                        void *found = nullptr;
                        (void)fi_cntr_read(a.receives);
                        (void)fi_cntr_read(b.sends);
                        (void)fi_cq_read(b.queue, &entry, 1);
                        (void)fi_poll(set, &found, 1);
                      }),
            0);
  EXPECT_EQ(fi_close(&set->fid), 0);
}

// Another endpoint sends large messages to `target`. Its own thread receives them continuously,
// because no other thread makes progress.
class flood {
 public:
  static constexpr uint64_t message_size = 64 << 20, tag = 77;

  flood(test_endpoint &source, test_endpoint &target, int message_count)
      : source_{source}, send_buffer_(message_size), receive_buffer_(message_size) {
    fi_addr_t const number = source.number_of(target);
    for (int i = 0; i < message_count; i++) {
      EXPECT_EQ(fi_trecv(target.ep,
                         receive_buffer_.data(),
                         receive_buffer_.size(),
                         nullptr,
                         FI_ADDR_UNSPEC,
                         tag,
                         0,
                         nullptr),
                0);
      EXPECT_EQ(send(number), 0);
    }
    sender_ = std::thread{[this, message_count] {
      for (int i = 0; i < message_count; i++)
        EXPECT_EQ(wait_for_completion(), 1);
      has_ended_ = true;
    }};
  }
  ~flood() {
    sender_.join();
  }
  flood(const flood &) = delete;
  flood &operator=(const flood &) = delete;

  bool has_ended() const {
    return has_ended_;
  }

 private:
  // A kernel with sanitizers copies a message in seconds.
  ssize_t wait_for_completion() {
    fi_cq_tagged_entry entry{};
    ssize_t count = -FI_ETIMEDOUT;
    for (int attempt = 0; attempt < 10 && count == -FI_ETIMEDOUT; attempt++)
      count = read_entry(source_, entry);
    return count;
  }
  ssize_t send(fi_addr_t number) {
    iovec const part{send_buffer_.data(), send_buffer_.size()};
    fi_msg_tagged message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = number;
    message.tag = tag;
    return fi_tsendmsg(source_.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  }

  test_endpoint &source_;
  std::vector<std::byte> send_buffer_, receive_buffer_;
  std::atomic<bool> has_ended_ = false;
  std::thread sender_;
};

// No call waits while the endpoint's own thread is receiving. Calls that read a queue are excluded:
// after one of them the caller makes progress itself for a while.
TEST_F(callers, do_not_wait_for_the_thread_that_receives) {
  connect_endpoints();
  test_endpoint third;
  std::vector<named_call> calls = posting_calls();
  std::erase_if(calls, [](const named_call &call) {
    return std::strstr(call.name, "fi_cancel") || std::strstr(call.name, "looks");
  });
  // Cancel each receive: the search for one takes longer with each posted receive.
  auto const receive = [this] {
    ssize_t const code =
        fi_trecv(a.ep, receive_buffer.data(), 8, nullptr, FI_ADDR_UNSPEC, 78, 0, &contexts[2]);
    EXPECT_TRUE(code == 0 || code == -FI_EAGAIN) << code;
  };
  calls.push_back({"fi_recv", receive});
  calls.push_back({"fi_cancel", [this] {
                     (void)fi_cancel(&a.ep->fid, &contexts[2]);
                   }});
  flood const many{third, a, 16};
  long call_count = 0, sleep_count = 0;
  while (!many.has_ended()) {
    for (named_call const &call : calls) {
      long const slept = sleeps_in(1, 0, call.make);
      sleep_count += slept;
      call_count++;
      std::this_thread::sleep_for(std::chrono::microseconds{20});  // lets the receiving thread run
    }
  }
  EXPECT_GT(call_count, 100);
  // The kernel has its own locks for sockets and memory. About one call in a thousand blocks on
  // one.
  EXPECT_LE(sleep_count, call_count / 200 + 2) << "of " << call_count;
}

// A peer that accepts a connection and sends nothing. Requests to it stay queued until the queue is
// full.
class silent_peer {
 public:
  silent_peer() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr *>(&address_), sizeof address_), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    socklen_t size = sizeof address_;
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr *>(&address_), &size), 0);
  }
  ~silent_peer() {
    close(socket_);
  }
  silent_peer(const silent_peer &) = delete;
  silent_peer &operator=(const silent_peer &) = delete;
  const sockaddr_in &address() const {
    return address_;
  }

 private:
  int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address_{};
};

TEST(a_refused_request, does_not_sleep) {
  setenv("TND_O2G_SEND_QUEUE", "16K", 1);
  test_endpoint a;
  unsetenv("TND_O2G_SEND_QUEUE");
  silent_peer const peer;
  fi_addr_t number = 0;
  ASSERT_EQ(fi_av_insert(a.peers, &peer.address(), 1, &number, 0, nullptr), 1);
  std::array<char, 512> bytes{};
  ssize_t code = 0;
  for (int i = 0; i < 1000 && code == 0; i++)
    code = fi_tinject(a.ep, bytes.data(), bytes.size(), number, 1);
  ASSERT_EQ(code, -FI_EAGAIN);
  // The endpoint's own thread occasionally holds the lock.
  EXPECT_LE(
      sleeps_in(
          20'000,
          20,
          [&] { EXPECT_EQ(fi_tinject(a.ep, bytes.data(), bytes.size(), number, 1), -FI_EAGAIN); }),
      20);
}

// A blocking call may sleep, and should: here for 0.3 s, of which about 10 ms may be spent
// spinning.
TEST_F(callers, sleep_in_calls_that_block) {
  connect_endpoints();
  auto const processor_ns = [] {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return uint64_t(used.tv_sec) * 1'000 * ms + uint64_t(used.tv_nsec);
  };
  uint64_t const before_ns = processor_ns();
  EXPECT_EQ(fi_cq_sread(a.queue, &entry, 1, nullptr, 150), -FI_EAGAIN);
  EXPECT_EQ(fi_cntr_wait(a.receives, 1'000'000, 150), -FI_ETIMEDOUT);
  EXPECT_LT(processor_ns() - before_ns, 60 * ms);
}

// TND_O2G_SLEEP_MAX still enables sleeping polls as docs/o2g.md describes.
TEST(a_poll, sleeps_where_the_setting_asks_for_it) {
  setenv("TND_O2G_SLEEP_MAX", "20ms", 1);
  test_endpoint a;
  unsetenv("TND_O2G_SLEEP_MAX");
  fi_cq_tagged_entry entry{};
  EXPECT_GT(sleeps_in(10'000'000, 3, [&] { (void)fi_cq_read(a.queue, &entry, 1); }), 3);
}

}  // namespace
}  // namespace tanada::o2g::provider
