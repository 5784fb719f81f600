// What the fabric over libfabric has to itself: names of shared memory, numbers of errors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "backends/libfabric/libfabric_parts.hpp"
#include "backends/libfabric/libfabric_status.hpp"
#include "backends/libfabric/shm_name.hpp"
#include "core/base/log.hpp"

namespace tanada::port {
namespace {

// shm says that it serves GPUs; whether this libfabric can is seen with the first region. Memory
// that is none of a GPU's is not.
TEST(fabric_device, memory_that_is_out_of_reach_is_refused_with_a_reason) {
  auto endpoint = libfabric_endpoint_open({.provider = "shm", .cuda = true});
  ASSERT_TRUE(endpoint.ok());
  alignas(4096) static std::array<std::byte, 4096> bytes{};
  set_last_message({});
  auto made = endpoint.value()->region_register(
      {bytes.data(), bytes.size(), fabric_memory_kind::cuda, 0}, {.remote_read = true});
  EXPECT_EQ(made.error(), status::not_supported);
  EXPECT_NE(last_message().find("GPU"), std::string::npos) << last_message();
}

// Two vectors, the second in the slot of the first: of the first a connection that was lost speaks
// late.
TEST(libfabric_parts, what_is_said_late_finds_no_other_operation) {
  constexpr uint32_t slot = 5;
  libfabric_parts parts;
  std::vector<libfabric_part *> lost, later;
  for (size_t i = 0; i < libfabric_parts::chunk_count; i++) {
    lost.push_back(parts.next());
    parts.take(slot);
  }
  EXPECT_EQ(parts.next(), nullptr);
  parts.forget(slot);
  for (size_t i = 0; i < libfabric_parts::chunk_count; i++) {
    later.push_back(parts.next());
    ASSERT_NE(later.back(), nullptr) << "after " << i;
    parts.take(slot);
  }
  for (auto *const each : lost) {
    ASSERT_EQ(parts.find(each), each);
    EXPECT_EQ(parts.settle(*each), fabric_op_table::no_slot);
  }
  for (auto *const each : later)
    EXPECT_EQ(parts.settle(*each), slot);
  EXPECT_EQ(parts.settle(*later.front()), fabric_op_table::no_slot) << "it is told twice";
}

// However many connections are lost: parts that were spoken of are used again.
TEST(libfabric_parts, are_used_again) {
  libfabric_parts parts;
  for (int round = 0; round < 100; round++) {
    std::vector<libfabric_part *> taken;
    for (uint32_t i = 0; i < 40; i++) {
      taken.push_back(parts.next());
      ASSERT_NE(taken.back(), nullptr);
      parts.take(7);
    }
    parts.forget(7);
    for (auto *const each : taken)
      (void)parts.settle(*each);
  }
  EXPECT_LE(parts.count(), 2 * libfabric_parts::chunk_count);
  int other = 0;
  EXPECT_EQ(parts.find(&other), nullptr);
}

TEST(shm_name, tells_the_process) {
  auto const name = shm_name_create();
  EXPECT_NE(name, shm_name_create());
  std::string const address = "fi_shm://" + name + ":0:3";
  auto const owner = shm_name_owner(address);
  ASSERT_FALSE(owner.empty());
  EXPECT_EQ(owner, shm_name_owner(name));
  EXPECT_EQ(shm_name_process(owner), process_state::alive);
  // The same number in another life.
  auto const pid = std::to_string(getpid());
  EXPECT_EQ(shm_name_process("tanada_" + pid + "_1"), process_state::gone);
}

TEST(shm_name, a_process_that_is_killed_is_gone_before_it_is_waited_for) {
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  pid_t const child = fork();
  if (child == 0) {
    auto const name = shm_name_create();
    (void)!write(told[1], name.data(), name.size());
    close(told[1]);
    pause();
  }
  close(told[1]);
  std::string name(100, '\0');
  name.resize(size_t(std::max<ssize_t>(0, read(told[0], name.data(), name.size()))));
  auto const owner = shm_name_owner(name);
  EXPECT_EQ(shm_name_process(owner), process_state::alive);
  kill(child, SIGKILL);
  siginfo_t ended{};
  EXPECT_EQ(waitid(P_PID, id_t(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(shm_name_process(owner), process_state::gone);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(shm_name_process(owner), process_state::gone);
}

TEST(shm_name, names_of_others_are_not_known) {
  for (auto const *text : {"", "tanada_", "tanada_x_y_z", "tanada_12", "tanada_12_34",
                           "other_12_34_5", "fi_shm://12345:0:0"}) {
    auto const owner = shm_name_owner(text);
    EXPECT_EQ(shm_name_process(owner), process_state::unknown) << text;
  }
  EXPECT_EQ(shm_name_process("tanada_99999999999999999999_1"), process_state::unknown);
}

TEST(shm_name, the_sweep_takes_what_is_old_and_nobodys) {
  auto const made = [](const std::string &name, time_t age_s) {
    int const file = shm_open(("/" + name).c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_NE(file, -1);
    timespec when{};
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec -= age_s;
    timespec const times[2] = {when, when};
    EXPECT_EQ(futimens(file, times), 0);
    close(file);
  };
  auto const there = [](const std::string &name) {
    int const file = shm_open(("/" + name).c_str(), O_RDONLY, 0);
    if (file != -1)
      close(file);
    return file != -1;
  };
  auto const pid = std::to_string(getpid());
  std::string const old = "tanada_" + pid + "_1_0:0:0", young = "tanada_" + pid + "_1_1:0:0",
                    ours = shm_name_create(), foreign = "tanada-test-" + pid;
  made(old, 3'600);
  made(young, 60);
  made(ours, 3'600);
  made(foreign, 3'600);
  shm_names_sweep();
  EXPECT_FALSE(there(old));
  EXPECT_TRUE(there(young));
  EXPECT_TRUE(there(ours));
  EXPECT_TRUE(there(foreign));
  for (auto const &name : {young, ours, foreign})
    shm_unlink(("/" + name).c_str());
}

TEST(libfabric_status, numbers) {
  EXPECT_EQ(libfabric_status(0), status::ok);
  EXPECT_EQ(libfabric_status(FI_EAGAIN), status::again);
  EXPECT_EQ(libfabric_status(FI_ETRUNC), status::overflow);
  EXPECT_EQ(libfabric_status(FI_ECONNRESET), status::peer_lost);
  EXPECT_EQ(libfabric_status(FI_ETIMEDOUT),
            status::peer_lost);  // the network's patience, not a deadline of ours
  EXPECT_EQ(libfabric_status(FI_EACCES), status::access);
  EXPECT_EQ(libfabric_status(FI_ECANCELED), status::canceled);
  EXPECT_EQ(libfabric_status(123456), status::io);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 10, true), status::access);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 10, false), status::io);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 12, true), status::peer_lost);
}

}  // namespace
}  // namespace tanada::port
