// Tests specific to the libfabric backend: names of shared memory and error numbers.
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

namespace tanada::backends {
namespace {

// shm reports that it supports GPUs; only the first registration shows whether this libfabric can.
// Memory that is not GPU memory must be refused.
TEST(fabric_device, memory_that_is_out_of_reach_is_refused_with_a_reason) {
  auto endpoint = libfabric_endpoint_open({.provider = "shm", .cuda = true});
  ASSERT_TRUE(endpoint.ok());
  alignas(4096) static std::array<std::byte, 4096> bytes{};
  set_last_message({});
  auto region = endpoint.value()->region_register(
      {bytes.data(), bytes.size(), seams::fabric_memory_kind::cuda, 0}, {.remote_read = true});
  EXPECT_EQ(region.error(), status::not_supported);
  EXPECT_NE(last_message().find("GPU"), std::string::npos) << last_message();
}

// Two vectors use the same slot, one after the other. The completions of the first, whose
// connection was lost, arrive late.
TEST(libfabric_parts, what_is_said_late_finds_no_other_operation) {
  constexpr uint32_t slot = 5;
  libfabric_parts parts;
  std::vector<libfabric_part *> lost_parts, later_parts;
  for (size_t i = 0; i < libfabric_parts::chunk_count; i++) {
    lost_parts.push_back(parts.next());
    parts.take(slot);
  }
  EXPECT_EQ(parts.next(), nullptr);
  parts.orphan(slot);
  for (size_t i = 0; i < libfabric_parts::chunk_count; i++) {
    later_parts.push_back(parts.next());
    ASSERT_NE(later_parts.back(), nullptr) << "after " << i;
    parts.take(slot);
  }
  for (auto *const part : lost_parts) {
    ASSERT_EQ(parts.find(part), part);
    EXPECT_EQ(parts.settle(*part), seams::fabric_op_table::no_slot);
  }
  for (auto *const part : later_parts)
    EXPECT_EQ(parts.settle(*part), slot);
  EXPECT_EQ(parts.settle(*later_parts.front()), seams::fabric_op_table::no_slot)
      << "the fault is logged twice";
}

// Parts are reused after their late completions, however many connections are lost.
TEST(libfabric_parts, are_used_again) {
  libfabric_parts parts;
  for (int round = 0; round < 100; round++) {
    std::vector<libfabric_part *> parts_taken;
    for (uint32_t i = 0; i < 40; i++) {
      parts_taken.push_back(parts.next());
      ASSERT_NE(parts_taken.back(), nullptr);
      parts.take(7);
    }
    parts.orphan(7);
    for (auto *const part : parts_taken)
      (void)parts.settle(*part);
  }
  EXPECT_LE(parts.count(), 2 * libfabric_parts::chunk_count);
  int unrelated = 0;
  EXPECT_EQ(parts.find(&unrelated), nullptr);
}

TEST(shm_name, tells_the_process) {
  auto const name = shm_name_create();
  EXPECT_NE(name, shm_name_create());
  std::string const address = "fi_shm://" + name + ":0:3";
  auto const owner = shm_name_owner(address);
  ASSERT_FALSE(owner.empty());
  EXPECT_EQ(owner, shm_name_owner(name));
  EXPECT_EQ(shm_name_process(owner), process_state::alive);
  // A later process with the same PID.
  auto const pid = std::to_string(getpid());
  EXPECT_EQ(shm_name_process("tanada_" + pid + "_1"), process_state::dead);
}

TEST(shm_name, a_process_that_is_killed_is_gone_before_it_is_waited_for) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  pid_t const child = fork();
  if (child == 0) {
    auto const name = shm_name_create();
    (void)!write(pipe_ends[1], name.data(), name.size());
    close(pipe_ends[1]);
    pause();
  }
  close(pipe_ends[1]);
  std::string name(100, '\0');
  name.resize(size_t(std::max<ssize_t>(0, read(pipe_ends[0], name.data(), name.size()))));
  auto const owner = shm_name_owner(name);
  EXPECT_EQ(shm_name_process(owner), process_state::alive);
  kill(child, SIGKILL);
  siginfo_t ended{};
  EXPECT_EQ(waitid(P_PID, id_t(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(shm_name_process(owner), process_state::dead);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(shm_name_process(owner), process_state::dead);
}

TEST(shm_name, names_of_others_are_not_known) {
  for (auto const *text : {"",
                           "tanada_",
                           "tanada_x_y_z",
                           "tanada_12",
                           "tanada_12_34",
                           "other_12_34_5",
                           "fi_shm://12345:0:0"}) {
    auto const owner = shm_name_owner(text);
    EXPECT_EQ(shm_name_process(owner), process_state::unknown) << text;
  }
  EXPECT_EQ(shm_name_process("tanada_99999999999999999999_1"), process_state::unknown);
}

TEST(shm_name, the_sweep_takes_what_is_old_and_nobodys) {
  auto const create_object = [](const std::string &name, time_t age_s) {
    int const file = shm_open(("/" + name).c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_NE(file, -1);
    timespec when{};
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec -= age_s;
    timespec const times[2] = {when, when};
    EXPECT_EQ(futimens(file, times), 0);
    close(file);
  };
  auto const exists = [](const std::string &name) {
    int const file = shm_open(("/" + name).c_str(), O_RDONLY, 0);
    if (file != -1)
      close(file);
    return file != -1;
  };
  auto const pid = std::to_string(getpid());
  std::string const old = "tanada_" + pid + "_1_0:0:0", young = "tanada_" + pid + "_1_1:0:0",
                    own_name = shm_name_create(), foreign = "tanada-test-" + pid;
  create_object(old, 3'600);
  create_object(young, 60);
  create_object(own_name, 3'600);
  create_object(foreign, 3'600);
  shm_names_sweep();
  EXPECT_FALSE(exists(old));
  EXPECT_TRUE(exists(young));
  EXPECT_TRUE(exists(own_name));
  EXPECT_TRUE(exists(foreign));
  for (auto const &name : {young, own_name, foreign})
    shm_unlink(("/" + name).c_str());
}

TEST(libfabric_status, numbers) {
  EXPECT_EQ(libfabric_status(0), status::ok);
  EXPECT_EQ(libfabric_status(FI_EAGAIN), status::again);
  EXPECT_EQ(libfabric_status(FI_ETRUNC), status::overflow);
  EXPECT_EQ(libfabric_status(FI_ECONNRESET), status::peer_lost);
  EXPECT_EQ(libfabric_status(FI_ETIMEDOUT),
            status::peer_lost);  // the network's timeout, not a deadline of ours
  EXPECT_EQ(libfabric_status(FI_EACCES), status::access);
  EXPECT_EQ(libfabric_status(FI_ECANCELED), status::canceled);
  EXPECT_EQ(libfabric_status(123456), status::io);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 10, true), status::access);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 10, false), status::io);
  EXPECT_EQ(libfabric_completion_status(FI_EIO, 12, true), status::peer_lost);
}

}  // namespace
}  // namespace tanada::backends
