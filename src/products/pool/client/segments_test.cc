// Tests of a client's segments: how many are mapped, and for how long.
#include "products/pool/client/segments.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

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
