// Tests of a client's segments: how many are mapped, and for how long.
#include "products/pool/client/segments.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "seams/os/huge_pages.hpp"

namespace tanada::pool {
namespace {

using wire::pool::pool_extent;

constexpr uint64_t small = 64 << 10, large = segments::small_size;

size_t descriptor_count() {
  namespace fs = std::filesystem;
  fs::directory_iterator const open{"/proc/self/fd"};
  return size_t(std::distance(begin(open), end(open)));
}

// Lends a separate segment for each number, which contains the number.
class segments_of_client : public testing::Test {
 protected:
  result<received_segment> lend(uint32_t number) {
    lent_count_++;
    received_segment lent;
    uint64_t const size = number < first_large ? small : large;
    lent.file = descriptor{memfd_create("segment", MFD_CLOEXEC)};
    EXPECT_EQ(ftruncate(lent.file.get(), off_t(size)), 0);
    EXPECT_EQ(pwrite(lent.file.get(), &number, sizeof number, 0), ssize_t(sizeof number));
    lent.about = {size, 0, 1};
    return lent;
  }
  void use(uint32_t number) {
    std::vector<iovec> parts;
    ASSERT_EQ(mapped_.parts_of({pool_extent{number, 0, 4096}}, 0, 4096, parts), status::ok);
    EXPECT_EQ(*static_cast<uint32_t *>(parts.at(0).iov_base), number);
  }

  static constexpr uint32_t first_large = 1 << 20;
  size_t lent_count_ = 0;
  segments mapped_{[this](uint32_t number) {
    return lend(number);
  }};
};

TEST_F(segments_of_client, small_ones_that_come_and_go_do_not_pile_up) {
  size_t const before = descriptor_count();
  for (uint32_t number = 0; number < 3'000; number++) {
    use(number);
    use(first_large);
    use(7);
    EXPECT_LE(descriptor_count(), before + segments::small_count_max + 2);
  }
  EXPECT_EQ(lent_count_, 3'001u) << "what is in use stays";
}

TEST_F(segments_of_client, large_ones_stay) {
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < 2 * segments::small_count_max; i++)
      use(first_large + i);
  }
  EXPECT_EQ(lent_count_, 2 * segments::small_count_max);
}

// As a device of persistent memory does.
TEST_F(segments_of_client, memory_that_outlives_the_daemon_is_mapped_for_one_transfer) {
  std::string path = testing::TempDir() + "tanada_segment_XXXXXX";
  int const file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  unlink(path.c_str());
  ASSERT_EQ(ftruncate(file, large), 0);
  if (seams::is_memory_file(file)) {
    close(file);
    GTEST_SKIP() << path << " is in a file system in memory";
  }
  size_t fetch_count = 0;
  segments mapped{[&](uint32_t) -> result<received_segment> {
    fetch_count++;
    received_segment lent;
    lent.file = descriptor{dup(file)};
    lent.about = {large, 0, 1};
    return lent;
  }};
  size_t const before = descriptor_count();
  for (size_t round = 1; round <= 3; round++) {
    std::vector<iovec> parts;
    ASSERT_EQ(mapped.parts_of({pool_extent{0, 0, 4096}}, 0, 4096, parts), status::ok);
    EXPECT_TRUE(mapped.is_mapped(0));
    mapped.unmap_lasting();
    EXPECT_FALSE(mapped.is_mapped(0));
    EXPECT_EQ(descriptor_count(), before);
    EXPECT_EQ(fetch_count, round);
  }
  close(file);
}

// A daemon may lend the same segment again and again.
TEST_F(segments_of_client, one_that_is_lent_again_counts_once) {
  for (size_t i = 0; i < 2 * segments::small_count_max; i++)
    (void)mapped_.add_for_device(5, lend(5).value());
  use(1);
  EXPECT_TRUE(mapped_.is_mapped(5));
}

TEST_F(segments_of_client, memory_of_the_daemon_stays_mapped) {
  use(1);
  mapped_.unmap_lasting();
  use(1);
  EXPECT_EQ(lent_count_, 1u);
}

TEST_F(segments_of_client, an_object_of_many_small_ones_is_mapped_whole) {
  std::vector<pool_extent> pieces;
  uint32_t const count = 3 * segments::small_count_max;
  for (uint32_t number = 0; number < count; number++)
    pieces.push_back({number, 0, small});
  for (int round = 0; round < 2; round++) {
    std::vector<iovec> parts;
    ASSERT_EQ(mapped_.parts_of(pieces, 0, count * small, parts), status::ok);
    for (uint32_t number = 0; number < count; number++) {
      EXPECT_EQ(*static_cast<uint32_t *>(parts.at(number).iov_base), number);
    }
  }
}

}  // namespace
}  // namespace tanada::pool
