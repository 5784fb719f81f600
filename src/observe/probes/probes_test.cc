#include "observe/probes/testing.hpp"

#include <gtest/gtest.h>

namespace tanada::observe {
namespace {

class probes : public machine_of_files {};

TEST_F(probes, rdma_ports) {
  EXPECT_EQ(probe_rdma(system_).state, finding_state::lacking);
  write_file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  EXPECT_NE(probe_rdma(system_).text.find("no port is active: mlx5_0:1"), std::string::npos);
  write_file("/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(probe_rdma(system_).state, finding_state::good);
  EXPECT_EQ(probe_rdma(system_).text, "active ports: mlx5_1:1");
}

TEST_F(probes, io_uring_that_is_turned_off) {
  write_file("/proc/sys/kernel/io_uring_disabled", "2\n");
  EXPECT_EQ(probe_io_uring(system_).state, finding_state::lacking);
  EXPECT_EQ(probe_io_uring(system_).remedy, "sysctl -w kernel.io_uring_disabled=0");
}

TEST_F(probes, huge_pages) {
  EXPECT_EQ(probe_huge_pages(system_).state, finding_state::lacking);
  write_file("/proc/meminfo",
             "HugePages_Total:      10\nHugePages_Free:        4\nHugepagesize:       2048 kB\n");
  write_file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(probe_huge_pages(system_).text,
            "4 of 10 reserved pages of 2.0 MiB free; transparent: never");
  EXPECT_EQ(probe_huge_pages(system_).state, finding_state::good);
  write_file("/proc/meminfo", "HugePages_Total:       0\n");
  EXPECT_EQ(probe_huge_pages(system_).state, finding_state::lacking);
  write_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(probe_huge_pages(system_).state, finding_state::good);
}

TEST_F(probes, numa) {
  write_file("/sys/devices/system/node/node0/cpulist", "0-3\n");
  write_file("/sys/devices/system/node/node1/cpulist", "4-7\n");
  write_file("/sys/devices/system/node/online", "0-1\n");
  EXPECT_EQ(probe_numa(system_, 1).text,
            "nodes 0 (processors 0-3), 1 (processors 4-7); the GPU is attached to node 1");
  EXPECT_EQ(probe_numa(system_, -1).text, "nodes 0 (processors 0-3), 1 (processors 4-7)");
}

TEST_F(probes, shared_memory_that_is_not_there) {
  EXPECT_EQ(probe_shared_memory(system_).state, finding_state::lacking);
}

TEST_F(probes, limits) {
  EXPECT_EQ(probe_limits_memory(~uint64_t{0}).state, finding_state::good);
  EXPECT_EQ(probe_limits_memory(8 << 20).state, finding_state::lacking);
  EXPECT_EQ(probe_limits_files(65536).state, finding_state::good);
  EXPECT_EQ(probe_limits_files(1024).state, finding_state::lacking);
  EXPECT_EQ(probe_limits_files(32).state, finding_state::broken);
}

TEST_F(probes, gds) {
  gds_probe const missing = gds_probe::run(system_, "libtanada_no_such_library.so");
  EXPECT_FALSE(missing.has_library || missing.has_driver || missing.is_direct());
  EXPECT_NE(describe(missing).text.find("no libcufile"), std::string::npos);
  write_file("/proc/driver/nvidia-fs/version", "version: 2.25\n");
  EXPECT_TRUE(gds_probe::run(system_, "libtanada_no_such_library.so").has_driver);
  EXPECT_EQ(describe(gds_probe{true, 1150, true}).state, finding_state::good);
  finding const compatible = describe(gds_probe{true, 1150, false});
  EXPECT_NE(compatible.text.find("compatibility mode"), std::string::npos);
  EXPECT_EQ(compatible.remedy, "apt-get install nvidia-fs-dkms && modprobe nvidia-fs");
}

TEST_F(probes, a_gpu_that_cannot_be_used_is_a_fault_and_none_is_not) {
  gpu_probe const missing{
      .name = {}, .reason = "libtanada_cuda.so was not found", .plugin_is_missing = true};
  EXPECT_EQ(describe(missing, system_, false)[0].state, finding_state::lacking);
  EXPECT_EQ(describe(missing, system_, true)[0].state, finding_state::broken);
  write_file("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  write_file("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  auto const without_driver = describe(missing, system_, false);
  EXPECT_EQ(without_driver[0].state, finding_state::broken);
  EXPECT_EQ(without_driver[0].text, "an NVIDIA GPU without its driver");
  write_file("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
  auto const without_plugin = describe(missing, system_, false);
  EXPECT_EQ(without_plugin[0].text, "driver 580.95.05");
  EXPECT_EQ(without_plugin[1].state, finding_state::broken);
  gpu_probe const good{.name = "NVIDIA H200", .reason = {}};
  EXPECT_EQ(describe(good, system_, true)[0].text, "NVIDIA H200, driver 580.95.05");
  EXPECT_EQ(describe(good, system_, true)[0].state, finding_state::good);
}

TEST_F(probes, a_store_without_its_plugin) {
  optional_part part{"nothing",
                     "libtanada_store_nothing.so",
                     false,
                     "libnothing-dev",
                     "apt-get install libnothing-dev, then make install",
                     "libtanada-nothing"};
  finding const left_out = probe_store(part, "libnothing1");
  EXPECT_EQ(left_out.state, finding_state::lacking);
  EXPECT_NE(left_out.text.find("configured without libnothing-dev"), std::string::npos)
      << left_out.text;
  EXPECT_EQ(left_out.remedy, part.remedy);
  // Configured and not yet built: no package is missing.
  part.is_configured = true;
  finding const not_built = probe_store(part, "libnothing1");
  EXPECT_EQ(not_built.state, finding_state::lacking);
  EXPECT_NE(not_built.text.find("not installed"), std::string::npos) << not_built.text;
  EXPECT_EQ(not_built.remedy.find("apt-get"), std::string::npos) << not_built.remedy;
  EXPECT_NE(not_built.remedy.find("make install"), std::string::npos) << not_built.remedy;
}

TEST_F(probes, a_store_whose_library_is_missing) {
  write_file("/plugins/libtanada_store_nothing.so", "no library");
  setenv("TND_PLUGIN_PATH", system_.path("/plugins").c_str(), 1);
  finding const probed = probe_store(
      {"nothing", "libtanada_store_nothing.so", true, "libnothing-dev", ""}, "libnothing1");
  unsetenv("TND_PLUGIN_PATH");
  EXPECT_EQ(probed.state, finding_state::lacking);
  EXPECT_EQ(probed.remedy, "apt-get install libnothing1");
}

class products : public probes {
 protected:
  products() {
    write_file("/good/libo2g-fi.so", "");
    write_file("/empty/nothing", "");
  }
  std::string path_in_root(const char *name) const {
    return system_.path(name);
  }
};

TEST_F(products, a_provider_that_does_not_load_is_a_fault) {
  EXPECT_EQ(probe_provider("", nullptr).state, finding_state::lacking);
  finding const rubbish = probe_provider(path_in_root("/good/libo2g-fi.so"), nullptr);
  EXPECT_EQ(rubbish.state, finding_state::broken);
  EXPECT_NE(rubbish.text.find("libo2g-fi.so"), std::string::npos) << rubbish.text;
}

TEST_F(products, a_launcher_is_looked_for_in_the_path) {
  EXPECT_EQ(probe_launcher(nullptr).state, finding_state::lacking);
  EXPECT_EQ(probe_launcher(path_in_root("/empty").c_str()).state, finding_state::lacking);
  write_file("/bin/prterun", "#!/bin/sh\n");
  EXPECT_EQ(probe_launcher(path_in_root("/bin").c_str()).state,
            finding_state::lacking);  // not executable
  std::filesystem::permissions(path_in_root("/bin/prterun"), std::filesystem::perms::owner_all);
  EXPECT_EQ(probe_launcher((path_in_root("/empty") + "::" + path_in_root("/bin")).c_str()).text,
            path_in_root("/bin/prterun"));
}

TEST_F(products, libraries_that_do_not_load_are_reported) {
  EXPECT_EQ(probe_pmix("").state, finding_state::lacking);
  EXPECT_EQ(probe_pmix(path_in_root("/good/libo2g-fi.so")).state, finding_state::lacking);
  EXPECT_EQ(probe_global_arrays("").state, finding_state::lacking);
  EXPECT_EQ(probe_global_arrays(path_in_root("/good/libo2g-fi.so")).state, finding_state::broken);
}

TEST_F(products, a_driver_that_is_missing_is_a_fault_where_it_is_required) {
  finding const missing = probe_o2g_driver(system_, nullptr);
  EXPECT_EQ(missing.state, finding_state::lacking);
  EXPECT_NE(missing.text.find("the module o2g is not loaded"), std::string::npos) << missing.text;
  EXPECT_EQ(probe_o2g_driver(system_, "off").state, finding_state::good);
  EXPECT_EQ(probe_o2g_driver(system_, "required").state, finding_state::broken);
  write_file("/dev/o2g", "no device");
  finding const file = probe_o2g_driver(system_, "auto");
  EXPECT_EQ(file.state, finding_state::lacking);
  EXPECT_NE(file.text.find("is not a character device"), std::string::npos) << file.text;
}

TEST_F(products, a_variable_that_nobody_knows_is_a_fault) {
  EXPECT_EQ(probe_settings()[0].state, finding_state::good);
  setenv("TND_GFILE_MISSPELT", "1", 1);
  EXPECT_EQ(probe_settings()[0].state, finding_state::broken);
  unsetenv("TND_GFILE_MISSPELT");
}

}  // namespace
}  // namespace tanada::observe
