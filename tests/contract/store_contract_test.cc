// The store contract on the stores that need no server: file with and without io_uring and
// O_DIRECT, mem, and simulated.
#include "contract/store_contract_queues.hpp"

#include <cstdlib>
#include <filesystem>

#include "backends/file/file_store.hpp"
#include "backends/mem/mem_store.hpp"
#include "contract/store_sim_subject.hpp"

namespace tanada::contract {
namespace {

class file_subject final : public store_subject {
 public:
  // The values of TND_IO_URING and TND_FILE_DIRECT while the store opens.
  file_subject(const char *ring, const char *direct) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tanada-store-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("TND_IO_URING", ring, 1);
    setenv("TND_FILE_DIRECT", direct, 1);
    auto opened = backends::file_store_open();
    unsetenv("TND_IO_URING");
    unsetenv("TND_FILE_DIRECT");
    EXPECT_TRUE(opened.ok());
    store_ = std::move(opened).value();
  }
  ~file_subject() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return "file://" + folder_ + "/" + name;
  }

 private:
  std::string folder_;
  std::unique_ptr<seams::store> store_;
};

class mem_subject final : public store_subject {
 public:
  mem_subject() {
    auto opened = backends::mem_store_open();
    EXPECT_TRUE(opened.ok());
    store_ = std::move(opened).value();
    static std::atomic<uint32_t> count{0};
    prefix_ = "mem://contract" + std::to_string(count++) + "/";
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return prefix_ + name;
  }

 private:
  std::unique_ptr<seams::store> store_;
  std::string prefix_;
};

template <class Subject, class... Arguments>
store_case subject_case(const char *name, Arguments... arguments) {
  return {name, [=] {
            return std::make_unique<Subject>(arguments...);
          }};
}

std::string case_name(const testing::TestParamInfo<store_case> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    stores,
    store_contract,
    testing::Values(subject_case<file_subject>("file_ring", "on", "auto"),
                    subject_case<file_subject>("file_workers", "off", "off"),
                    subject_case<file_subject>("file_ring_direct", "on", "on"),
                    subject_case<file_subject>("file_workers_direct", "off", "on"),
                    subject_case<mem_subject>("mem"),
                    subject_case<sim_subject>("sim")),
    case_name);

}  // namespace
}  // namespace tanada::contract
