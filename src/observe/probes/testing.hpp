// observe/probes/testing.hpp: a machine of files, for tests of probes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "observe/probes/probes.hpp"

namespace tanada::observe {

class machine_of_files : public testing::Test {
 protected:
  system_root const system_{testing::TempDir() + "/machine_" + std::to_string(getpid())};
  void SetUp() override {
    std::filesystem::create_directories(system_.root);
  }
  void TearDown() override {
    std::filesystem::remove_all(system_.root);
  }
  void write_file(const std::string &path, const std::string &text) const {
    std::filesystem::path const whole = system_.root + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream{whole} << text;
  }
};

}  // namespace tanada::observe
