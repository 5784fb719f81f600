// Tests of waiting, threads, and endpoints that are opened and closed during traffic.

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "products/o2g/provider/provider_fixture.hpp"

namespace tanada::o2g::provider {
namespace {

fi_context wait_contexts[4];

constexpr int timeout_ms = 20'000;

void sleep_ms(int count) {
  std::this_thread::sleep_for(std::chrono::milliseconds{count});
}

TEST(waits, end_when_a_message_comes) {
  test_endpoint a{{.wait = FI_WAIT_UNSPEC}}, b{{.wait = FI_WAIT_UNSPEC}};
  char received = 0;
  ASSERT_EQ(fi_recv(b.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[0]), 0);
  std::thread sender{[&] {
    sleep_ms(30);
    EXPECT_EQ(fi_inject(a.ep, "x", 1, a.number_of(b)), 0);
  }};
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_sread(b.queue, &entry, 1, nullptr, timeout_ms), 1);
  EXPECT_EQ(fi_cntr_wait(b.receives, 1, timeout_ms), 0);
  sender.join();
}

TEST(waits, end_when_their_time_is_over) {
  test_endpoint a{{.wait = FI_WAIT_UNSPEC}};
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_sread(a.queue, &entry, 1, nullptr, 20), -FI_EAGAIN);
  EXPECT_EQ(fi_cntr_wait(a.sends, 1, 20), -FI_ETIMEDOUT);
}

TEST(waits, end_by_a_signal_or_by_what_another_thread_does) {
  test_endpoint a{{.wait = FI_WAIT_UNSPEC}};
  auto const run_later = [](auto action) {
    return std::thread{[action] {
      sleep_ms(30);
      action();
    }};
  };
  fi_cq_tagged_entry entry{};
  std::thread helper = run_later([&] { EXPECT_EQ(fi_cq_signal(a.queue), 0); });
  EXPECT_EQ(fi_cq_sread(a.queue, &entry, 1, nullptr, timeout_ms), -FI_EAGAIN);
  helper.join();
  helper = run_later([&] { EXPECT_EQ(fi_cntr_add(a.sends, 3), 0); });
  EXPECT_EQ(fi_cntr_wait(a.sends, 3, timeout_ms), 0);
  helper.join();
  // A message to the sender itself is complete when the call returns: no further progress is
  // needed.
  char received = 0;
  fi_addr_t const self = a.number_of(a);
  ASSERT_EQ(fi_recv(a.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[0]), 0);
  helper = run_later([&] { EXPECT_EQ(fi_inject(a.ep, "x", 1, self), 0); });
  EXPECT_EQ(fi_cq_sread(a.queue, &entry, 1, nullptr, timeout_ms), 1);
  helper.join();
}

// No thread reads a queue of the endpoint. Its own thread makes the progress that the counter waits
// for.
TEST(waits, for_a_region_end_when_it_is_written) {
  for (fi_wait_obj const wait_object : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    uint64_t fetched = 0;
    test_endpoint a, b;
    fid_cntr *written = nullptr, *read = nullptr;
    fi_cntr_attr attr{};
    attr.wait_obj = wait_object;
    for (fid_cntr **counter_slot : {&written, &read})
      ASSERT_EQ(fi_cntr_open(b.domain, &attr, counter_slot, nullptr), 0);
    std::array<uint64_t, 2> memory{1, 2};
    fid_mr *region = nullptr;
    ASSERT_EQ(fi_mr_reg(b.domain,
                        memory.data(),
                        sizeof memory,
                        FI_REMOTE_READ | FI_REMOTE_WRITE,
                        0,
                        9,
                        0,
                        &region,
                        nullptr),
              0);
    ASSERT_EQ(fi_mr_bind(region, &written->fid, FI_REMOTE_WRITE), 0);
    ASSERT_EQ(fi_mr_bind(region, &read->fid, FI_REMOTE_READ), 0);
    fi_addr_t const target = a.number_of(b);
    for (uint64_t round = 1; round <= 5; round++) {
      std::thread writer{[&] {
        sleep_ms(20);
        EXPECT_EQ(fi_inject_write(a.ep, &round, 8, target, 8, 9), 0);
        EXPECT_EQ(fi_read(a.ep, &fetched, 8, nullptr, target, 8, 9, &wait_contexts[0]), 0);
      }};
      if (wait_object == FI_WAIT_FD) {
        int descriptor = -1;
        ASSERT_EQ(fi_control(&written->fid, FI_GETWAIT, &descriptor), 0);
        std::array<fid *, 1> waited{&written->fid};
        for (pollfd poll_for{descriptor, POLLIN, 0}; fi_cntr_read(written) < round;)
          if (fi_trywait(b.fabric, waited.data(), 1) == 0) {
            ASSERT_EQ(poll(&poll_for, 1, timeout_ms), 1);
          }
      }
      EXPECT_EQ(fi_cntr_wait(written, round, timeout_ms), 0);
      EXPECT_EQ(fi_cntr_wait(read, round, timeout_ms), 0);
      writer.join();
    }
    EXPECT_EQ(memory[1], 5u);
    EXPECT_EQ(fi_close(&region->fid), 0);
    for (fid_cntr *const counter_id : {written, read})
      EXPECT_EQ(fi_close(&counter_id->fid), 0);
  }
}

TEST(waits, by_descriptor_wake_when_bytes_come_and_only_then) {
  test_endpoint a, b{{.wait = FI_WAIT_FD}};
  int queue_fd = -1, counter_fd = -1;
  ASSERT_EQ(fi_control(&b.queue->fid, FI_GETWAIT, &queue_fd), 0);
  ASSERT_EQ(fi_control(&b.receives->fid, FI_GETWAIT, &counter_fd), 0);
  fi_addr_t const target = a.number_of(b);
  char received = 0;
  std::array<fid *, 2> const waited{&b.queue->fid, &b.receives->fid};
  // Rounds with many polls. On a busy machine one poll may fall between an entry and its counter,
  // but not every one.
  int often = 0;
  for (int round = 0; round < 20; round++) {
    ASSERT_EQ(fi_recv(b.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[0]), 0);
    std::thread sender{[&] {
      sleep_ms(2);
      EXPECT_EQ(fi_inject(a.ep, "x", 1, target), 0);
      for (int i = 0; i < 20; i++) {
        sleep_ms(1);
        (void)fi_cq_read(a.queue, nullptr, 0);
      }
    }};
    fi_cq_tagged_entry entry{};
    int sleeps = 0;
    uint64_t const end_ns = seams::monotonic_clock().now_ns() + test_timeout_ns;
    // When the endpoint's own thread handles them, the counter may be incremented after the entry
    // is written.
    for (ssize_t read = 0; seams::monotonic_clock().now_ns() < end_ns;) {
      if (fi_cq_read(b.queue, &entry, 1) == 1)
        read++;
      if (read + ssize_t(fi_cntr_read(b.receives)) == round + 2)
        break;
      pollfd fds[] = {{queue_fd, POLLIN, 0}, {counter_fd, POLLIN, 0}};
      if (fi_trywait(b.fabric, const_cast<fid **>(waited.data()), 2) != 0)
        continue;
      ASSERT_GT(::poll(fds, 2, timeout_ms), 0);
      sleeps++;
    }
    often += sleeps >= 10;
    EXPECT_EQ(entry.op_context, &wait_contexts[0]);
    sender.join();
  }
  EXPECT_LT(often, 10);
  sleep_ms(5);
  ASSERT_EQ(fi_trywait(b.fabric, const_cast<fid **>(waited.data()), 2), 0);
  pollfd quiet[] = {{queue_fd, POLLIN, 0}, {counter_fd, POLLIN, 0}};
  EXPECT_EQ(::poll(quiet, 2, 50), 0);
}

TEST(waits, keep_nobody_from_joining_the_queue) {
  test_endpoint a{{.wait = FI_WAIT_UNSPEC}};
  std::thread waiter{[&] {
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(a.queue, &entry, 1, nullptr, timeout_ms), 1);
    EXPECT_EQ(entry.op_context, &wait_contexts[2]);
  }};
  sleep_ms(20);
  fid_ep *second = nullptr;
  ASSERT_EQ(fi_endpoint(a.domain, a.info.get(), &second, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(second, &a.peers->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(second, &a.queue->fid, FI_TRANSMIT | FI_RECV), 0);
  EXPECT_EQ(fi_close(&a.queue->fid), -FI_EBUSY);
  ASSERT_EQ(fi_enable(second), 0);
  char received = 0;
  ASSERT_EQ(fi_recv(second, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[2]), 0);
  std::array<char, 64> name{};
  size_t size = name.size();
  ASSERT_EQ(fi_getname(&second->fid, name.data(), &size), 0);
  test_endpoint b;
  fi_addr_t target = 0;
  ASSERT_EQ(fi_av_insert(b.peers, name.data(), 1, &target, 0, nullptr), 1);
  EXPECT_EQ(fi_inject(b.ep, "x", 1, target), 0);
  waiter.join();
  EXPECT_EQ(fi_close(&second->fid), 0);
}

TEST(poll_sets, name_those_that_have_something) {
  test_endpoint a;
  int queue_mark = 0;
  a.queue->fid.context = &queue_mark;
  fi_poll_attr attr{};
  fid_poll *set = nullptr;
  ASSERT_EQ(fi_poll_open(a.domain, &attr, &set), 0);
  ASSERT_EQ(fi_poll_add(set, &a.queue->fid, 0), 0);
  ASSERT_EQ(fi_poll_add(set, &a.receives->fid, 0), 0);
  void *ready[4] = {};
  EXPECT_EQ(fi_poll(set, ready, 4), 0);
  char received = 0;
  fi_addr_t const self = a.number_of(a);
  ASSERT_EQ(fi_recv(a.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[0]), 0);
  ASSERT_EQ(fi_inject(a.ep, "x", 1, self), 0);
  EXPECT_EQ(fi_poll(set, ready, 4), 2);
  EXPECT_EQ(ready[0], &queue_mark);
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_read(a.queue, &entry, 1), 1);
  EXPECT_EQ(fi_cntr_read(a.receives), 1u);
  EXPECT_EQ(fi_poll(set, ready, 4), 0);
  EXPECT_EQ(fi_close(&a.queue->fid), -FI_EBUSY);
  ASSERT_EQ(fi_poll_del(set, &a.queue->fid, 0), 0);
  EXPECT_EQ(fi_close(&set->fid), 0);
}

TEST(threads, send_receive_and_read_one_endpoint_at_once) {
  constexpr int thread_count = 3, message_count = 300;
  test_endpoint a{{.wait = FI_WAIT_UNSPEC}}, b{{.wait = FI_WAIT_UNSPEC}};
  fi_addr_t const target = a.number_of(b);
  std::vector<std::thread> threads;
  std::atomic<int> read = 0;
  std::vector<uint64_t> received(thread_count * message_count);
  for (int t = 0; t < thread_count; t++) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < message_count; i++) {
        uint64_t const tag = uint64_t(t) << 32 | i;
        while (fi_tinject(a.ep, &tag, 8, target, tag) == -FI_EAGAIN)
          (void)fi_cq_read(a.queue, nullptr, 0);
        EXPECT_EQ(fi_trecv(b.ep,
                           &received[size_t(t) * message_count + i],
                           8,
                           nullptr,
                           FI_ADDR_UNSPEC,
                           tag,
                           0,
                           nullptr),
                  0);
      }
    });
    threads.emplace_back([&] {
      while (read < thread_count * message_count) {
        fi_cq_tagged_entry entries[8];
        ssize_t const read_count = fi_cq_sread(b.queue, entries, 8, nullptr, 20);
        ASSERT_TRUE(read_count > 0 || read_count == -FI_EAGAIN);
        read += read_count > 0 ? int(read_count) : 0;
      }
    });
  }
  // Other peers open and close meanwhile.
  for (int i = 0; i < 20; i++) {
    test_endpoint c;
    fi_addr_t number = c.number_of(b);
    EXPECT_EQ(fi_tinject(c.ep, "x", 1, number, ~uint64_t{0}), 0);
    EXPECT_EQ(fi_av_remove(c.peers, &number, 1, 0), 0);
  }
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < received.size(); i++)
    EXPECT_EQ(received[i], uint64_t(i / message_count) << 32 | i % message_count);
}

TEST(closing, with_transfers_on_their_way_drops_them) {
  test_endpoint b;
  std::vector<char> large(8 << 20);
  {
    test_endpoint a;
    fi_addr_t const target = a.number_of(b);
    for (int i = 0; i < 4; i++)
      ASSERT_EQ(fi_tsend(a.ep, large.data(), large.size(), nullptr, target, 1, &wait_contexts[0]),
                0);
    ASSERT_EQ(fi_trecv(a.ep, large.data(), 8, nullptr, FI_ADDR_UNSPEC, 2, 0, &wait_contexts[1]), 0);
    sleep_ms(2);
    a.close_endpoint();
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_read(a.queue, &entry, 1), -FI_EAGAIN);
    EXPECT_EQ(fi_cntr_readerr(a.sends), 0u);
  }
  // The other endpoint continues, and gets an error when it sends to the closed peer.
  test_endpoint c;
  char received = 0;
  ASSERT_EQ(fi_trecv(b.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, 7, 0, &wait_contexts[2]), 0);
  ASSERT_EQ(fi_tinject(c.ep, "x", 1, c.number_of(b), 7), 0);
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(read_entry(b, entry, {&c}), 1);
  EXPECT_EQ(entry.op_context, &wait_contexts[2]);
}

TEST(forks, leave_the_endpoint_to_the_parent) {
  test_endpoint a, b;
  fi_addr_t const target = a.number_of(b);
  char received = 0;
  fi_cq_tagged_entry entry{};
  for (int i = 0; i < 3; i++) {
    pid_t const child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      _exit(0);
    ASSERT_EQ(fi_recv(b.ep, &received, 1, nullptr, FI_ADDR_UNSPEC, &wait_contexts[0]), 0);
    ASSERT_EQ(fi_inject(a.ep, "x", 1, target), 0);
    ASSERT_EQ(read_entry(b, entry, {&a}), 1);
    int exit_status = 0;
    EXPECT_EQ(waitpid(child, &exit_status, 0), child);
    EXPECT_EQ(exit_status, 0);
  }
}

}  // namespace
}  // namespace tanada::o2g::provider
