#include <gtest/gtest.h>

#include <filesystem>

#include "observe/probes/testing.hpp"

namespace tanada::observe {
namespace {

namespace fs = std::filesystem;

class limits : public machine_of_files {};

TEST_F(limits, a_group_without_limits_is_good) {
  EXPECT_EQ(probe_cgroup(system_).state, finding_state::good);
  write_file("/proc/self/cgroup", "0::/a/b\n");
  write_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  finding const found = probe_cgroup(system_);
  EXPECT_EQ(found.state, finding_state::good);
  EXPECT_EQ(found.text, "memory: no limit; processes and threads: no limit");
}

TEST_F(limits, the_smallest_limit_of_a_group_and_those_above_counts) {
  write_file("/proc/self/cgroup", "1:name=x:/other\n0::/a/b\n");
  write_file("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
  write_file("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  EXPECT_EQ(probe_cgroup(system_).text.find("memory: at most 1024 MiB"), 0U);
  EXPECT_EQ(probe_cgroup(system_).state, finding_state::good);
  write_file("/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(probe_cgroup(system_).state, finding_state::lacking);
}

TEST_F(limits, few_processes_are_a_limit) {
  write_file("/proc/self/cgroup", "0::/a\n");
  write_file("/sys/fs/cgroup/a/pids.max", "100\n");
  finding const found = probe_cgroup(system_);
  EXPECT_EQ(found.state, finding_state::lacking);
  EXPECT_NE(found.remedy.find("TasksMax"), std::string::npos);
}

TEST_F(limits, version_1_has_a_large_number_for_no_limit) {
  write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(probe_cgroup(system_).text.find("memory: no limit"), 0U);
}

TEST_F(limits, modules_that_others_need) {
  EXPECT_EQ(probe_device_modules(system_).state, finding_state::good);
  write_file("/sys/module/nvidia/version", "1\n");
  EXPECT_EQ(probe_device_modules(system_).remedy, "modprobe nvidia-uvm");
  write_file("/sys/module/nvidia_uvm/version", "1\n");
  EXPECT_EQ(probe_device_modules(system_).state, finding_state::good);
  write_file("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(probe_device_modules(system_).remedy, "modprobe nvidia-peermem");
  write_file("/sys/module/nvidia_peermem/version", "1\n");
  EXPECT_EQ(probe_device_modules(system_).state, finding_state::good);
}

TEST_F(limits, nvcc_is_looked_for_where_the_build_looks) {
  EXPECT_EQ(probe_nvcc(system_, nullptr, nullptr).state, finding_state::lacking);
  write_file("/usr/local/cuda/bin/nvcc", "");
  EXPECT_EQ(probe_nvcc(system_, nullptr, "").state, finding_state::lacking);  // not executable
  std::string const path = system_.path("/usr/local/cuda/bin/nvcc");
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(probe_nvcc(system_, nullptr, "/nowhere").text, path);
  EXPECT_EQ(probe_nvcc(system_, "/nowhere/nvcc", nullptr).state, finding_state::lacking);
  EXPECT_EQ(probe_nvcc(system_, path.c_str(), nullptr).state, finding_state::good);
}

}  // namespace
}  // namespace tanada::observe
