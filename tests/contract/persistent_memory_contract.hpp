// The contract of seams/os/persistent_memory.hpp, as a typed suite: Subject has a
// `seams::persistent_memory &memory()`.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "seams/os/persistent_memory.hpp"

namespace tanada::contract {

inline constexpr uint64_t persistent_size = uint64_t{4} << 20;  // bytes of the file

// A file without a name. TND_TEST_PERSISTENT_FOLDER names a folder in persistent memory.
inline int make_persistent_file() {
  const char *const folder = std::getenv("TND_TEST_PERSISTENT_FOLDER");
  std::string path = folder != nullptr ? std::string{folder} + "/" : testing::TempDir();
  path += "tanada_persistent_XXXXXX";
  int const descriptor = mkstemp(path.data());
  EXPECT_GE(descriptor, 0);
  unlink(path.c_str());
  EXPECT_EQ(ftruncate(descriptor, off_t(persistent_size)), 0);
  return descriptor;
}

template <class Subject>
class persistent_memory_contract : public testing::Test {
 protected:
  void SetUp() override {
    auto mapped = subject_.memory().map(descriptor_);
    if (!mapped.ok())
      GTEST_SKIP() << "no file here is in persistent memory";
    mapping_ = std::move(mapped).value();
  }
  ~persistent_memory_contract() override {
    mapping_.reset();
    close(descriptor_);
  }
  void map_again() {
    mapping_.reset();
    mapping_ = subject_.memory().map(descriptor_).value();
  }

  Subject subject_;
  int const descriptor_ = make_persistent_file();
  std::unique_ptr<seams::persistent_mapping> mapping_;
};
TYPED_TEST_SUITE_P(persistent_memory_contract);

TYPED_TEST_P(persistent_memory_contract, a_file_is_mapped_as_a_whole) {
  auto const &mapping = *this->mapping_;
  uint64_t const page_size = uint64_t(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(mapping.size(), persistent_size);
  EXPECT_EQ(mapping.granule() % page_size, 0u);
  EXPECT_EQ(mapping.size() % mapping.granule(), 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.addr()) % page_size, 0u);
  std::memset(mapping.addr(), 1, mapping.size());
}

TYPED_TEST_P(persistent_memory_contract, drained_bytes_are_there_in_the_next_mapping) {
  std::memset(this->mapping_->addr(), 'a', persistent_size);
  this->mapping_->flush(this->mapping_->addr(), persistent_size);
  this->mapping_->drain();
  this->map_again();
  for (uint64_t offset = 0; offset < persistent_size; offset += 4095)
    ASSERT_EQ(int(this->mapping_->addr()[offset]), 'a') << offset;
}

TYPED_TEST_P(persistent_memory_contract, ranges_may_begin_and_end_anywhere) {
  std::byte *const bytes = this->mapping_->addr();
  std::memset(bytes, 'a', persistent_size);
  for (uint64_t offset = 1; offset < 1000; offset += 7)
    this->mapping_->flush(bytes + offset, offset % 130);
  this->mapping_->flush(bytes + persistent_size - 1, 1);
  this->mapping_->flush(bytes, 0);
  this->mapping_->drain();
  this->mapping_->drain();
  EXPECT_EQ(int(bytes[persistent_size - 1]), 'a');
}

REGISTER_TYPED_TEST_SUITE_P(persistent_memory_contract,
                            a_file_is_mapped_as_a_whole,
                            drained_bytes_are_there_in_the_next_mapping,
                            ranges_may_begin_and_end_anywhere);

}  // namespace tanada::contract
