#include "running.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tanada::command {
namespace {

namespace fs = std::filesystem;

class running : public testing::Test {
 protected:
  std::string const root_ = testing::TempDir() + "/running_" + std::to_string(getpid());
  void SetUp() override {
    fs::create_directories(root_ + "/proc");
  }
  void TearDown() override {
    fs::remove_all(root_);
  }
  void write_file(const std::string &path, const std::string &text) const {
    fs::path const whole = root_ + path;
    fs::create_directories(whole.parent_path());
    std::ofstream{whole, std::ios::binary} << text;
  }
  // A process whose command is `command`, with this library mapped.
  void add_process(int id, const std::string &command, const std::string &library) const {
    std::string const folder = "/proc/" + std::to_string(id) + "/";
    write_file(folder + "cmdline", command + std::string(1, '\0'));
    write_file(folder + "comm", fs::path{command}.filename().string() + "\n");
    write_file(folder + "maps", "7f0000000000-7f0000001000 r-xp 0 0:0 1 " + library + "\n");
    write_file(folder + "status", "Uid:\t1000\t1000\t1000\t1000\nVmRSS:\t    2048 kB\n");
    write_file(folder + "stat", std::to_string(id) + " (a b) S" + std::string(18, ' ') + "x");
  }
  void set_start_time(int id, uint64_t ticks) const {
    std::string text = std::to_string(id) + " (a ) b) S";
    for (int field = 4; field < 22; field++)
      text += " 0";
    write_file("/proc/" + std::to_string(id) + "/stat", text + " " + std::to_string(ticks) + " 0");
  }
};

TEST_F(running, nothing_runs_in_an_empty_system) {
  running_state const state = find_running(root_);
  EXPECT_TRUE(state.processes.empty() && state.leftovers.empty());
  EXPECT_EQ(running_text(state), "no process of Tanada runs here\n");
}

TEST_F(running, products_are_known_by_their_libraries) {
  add_process(7, "/bin/ring", "/usr/lib/libshmem.so.0.1.0");
  add_process(8, "/bin/sum", "/usr/lib/libcomex.so.0");
  add_process(9, "/bin/other", "/usr/lib/libc.so.6");
  add_process(10, "/bin/kernel", "/usr/lib/libtanada.so.0");
  write_file("/dev/shm/tanada-1000/10-0.gfile", "");
  running_state const state = find_running(root_);
  ASSERT_EQ(state.processes.size(), 3U);
  EXPECT_EQ(state.processes[0].product, "OpenSHMEM");
  EXPECT_EQ(state.processes[0].user, 1000U);
  EXPECT_EQ(state.processes[0].resident_size, 2048U * 1024);
  EXPECT_EQ(state.processes[1].product, "Global Arrays");
  EXPECT_TRUE(state.processes[2].has_gfile);
  EXPECT_FALSE(state.processes[0].has_gfile);
}

TEST_F(running, processes_of_a_job_stand_together) {
  for (int id : {11, 12}) {
    add_process(id, "./ring", "/usr/lib/libshmem.so.0");
    write_file("/proc/" + std::to_string(id) + "/environ",
               std::string("A=1\0PMIX_NAMESPACE=job@1\0PMIX_RANK=0\0", 38));
  }
  std::string const text = running_text(find_running(root_));
  EXPECT_NE(text.find("OpenSHMEM, job job@1, 2 processes\n"), std::string::npos) << text;
}

TEST_F(running, the_daemon_has_its_port_and_connections) {
  add_process(20, "/usr/bin/tanada-poold", "/usr/lib/libc.so.6");
  fs::create_directories(root_ + "/proc/20/fd");
  fs::create_symlink("socket:[100]", root_ + "/proc/20/fd/3");
  fs::create_symlink("socket:[101]", root_ + "/proc/20/fd/4");
  fs::create_symlink("/dev/null", root_ + "/proc/20/fd/5");
  write_file("/proc/20/net/tcp",
             "  sl local rem st\n"
             " 0: 0100007F:1D10 00000000:0000 0A 0:0 0:0 0 0 0 100 1\n"
             " 1: 0100007F:1D10 0100007F:9999 01 0:0 0:0 0 0 0 101 1\n"
             " 2: 0100007F:0016 00000000:0000 0A 0:0 0:0 0 0 0 102 1\n");
  running_state const state = find_running(root_);
  ASSERT_EQ(state.processes.size(), 1U);
  EXPECT_EQ(state.processes[0].ports, std::vector<uint16_t>{7440});
  EXPECT_EQ(state.processes[0].connection_count, 1U);
  EXPECT_NE(running_text(state).find("port 7440, 1 TCP connection"), std::string::npos);
  EXPECT_EQ(running_json(state)["processes"][0]["ports"][0], 7440);
}

TEST_F(running, processes_that_may_not_be_read_are_counted) {
  write_file("/proc/30/cmdline", "secret");
  write_file("/proc/30/comm", "secret\n");
  EXPECT_EQ(find_running(root_).hidden_count, 1U);
}

TEST_F(running, shared_memory_of_ended_processes_is_left_over) {
  add_process(40, "./ring", "/usr/lib/libshmem.so.0");
  set_start_time(40, 5);
  write_file("/dev/shm/tanada_40_5_0", "live");
  write_file("/dev/shm/tanada_40_4_0", "of an earlier process");
  write_file("/dev/shm/tanada_41_5_0", "ended");
  write_file("/dev/shm/tanada_theirs", "not ours");
  write_file("/dev/shm/tanada-1000/40-0.gfile", "live");
  write_file("/dev/shm/tanada-1000/41-0.gfile", "ended");
  fs::create_directories(root_ + "/dev/shm/tanada-65534");
  std::vector<std::string> paths;
  for (leftover const &file : find_running(root_).leftovers)
    paths.push_back(file.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"/dev/shm/tanada-1000/41-0.gfile",
                                      "/dev/shm/tanada-65534",
                                      "/dev/shm/tanada_40_4_0",
                                      "/dev/shm/tanada_41_5_0"}));
}

TEST_F(running, text_of_others_cannot_control_a_terminal) {
  add_process(50, "./a\x1b[2J", "/usr/lib/libshmem.so.0");
  EXPECT_EQ(running_text(find_running(root_)).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tanada::command
