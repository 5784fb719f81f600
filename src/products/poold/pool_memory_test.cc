// The pool's memory: allocation, ownership of segments, mapping by clients, and file losses.
#include "products/poold/pool_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "products/poold/object.hpp"
#include "products/poold/testing/msync_count.hpp"
#include "products/poold/testing/sizes.hpp"
#include "seams/os/huge_pages.hpp"
#include "sim/world.hpp"

namespace tanada::poold {

uint64_t msync_count = 0;

namespace {

std::unique_ptr<pool_memory> make_memory(uint64_t capacity = 16 * mib) {
  auto memory = pool_memory::create({.capacity = capacity, .segment_size = 2 * mib});
  EXPECT_TRUE(memory.ok());
  return std::move(memory).value();
}

uint64_t size_of(const std::vector<pool_extent> &pieces) {
  uint64_t size = 0;
  for (const pool_extent &part : pieces)
    size += part.size;
  return size;
}

TEST(space, gives_what_fits_and_takes_it_back) {
  auto memory = make_memory();
  auto whole = memory->allocate(0, 16 * mib);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(size_of(whole.value()), 16 * mib);
  EXPECT_EQ(memory->used(), 16 * mib);
  EXPECT_EQ(memory->allocate(0, 1).error(), status::no_space);
  memory->release(whole.value());
  EXPECT_EQ(memory->used(), 0u);
  EXPECT_TRUE(memory->allocate(1, 16 * mib).ok());
}

TEST(space, too_much_takes_nothing) {
  auto memory = make_memory();
  EXPECT_EQ(memory->allocate(0, 17 * mib).error(), status::no_space);
  EXPECT_EQ(memory->allocate(0, ~uint64_t{0}).error(), status::no_space);
  EXPECT_EQ(memory->used(), 0u);
  EXPECT_TRUE(memory->allocate(0, 16 * mib).ok());
}

TEST(space, more_than_the_memory_that_is_there_is_refused_before_it_is_brought_in) {
  memory_options options{
      .capacity = 16 * mib, .segment_size = 2 * mib, .available_size = 16 * mib - 1};
  EXPECT_EQ(pool_memory::create(options).error(), status::no_memory);
  options.prefault = false;
  EXPECT_TRUE(pool_memory::create(options).ok());
  options.prefault = true;
  options.available_size = 16 * mib;
  EXPECT_TRUE(pool_memory::create(options).ok());
}

// Random allocations never overlap, and all memory is free in the end.
TEST(space, pieces_never_overlap) {
  auto memory = make_memory(32 * mib);
  sim::prng random{7};
  struct held {
    uint32_t owner;
    std::vector<pool_extent> pieces;
    uint8_t mark;
  };
  std::vector<held> out;
  uint64_t refused = 0;
  for (int round = 0; round < 3'000; round++) {
    if (random.chance(55)) {
      uint32_t const owner = uint32_t(random.below(3));
      uint64_t const size = 1 + random.below(random.chance(10) ? 5 * mib : 60'000);
      auto pieces = memory->allocate(owner, size);
      if (!pieces.ok()) {
        refused++;
        continue;
      }
      EXPECT_GE(size_of(pieces.value()), size);
      auto const mark = uint8_t(random.below(256));
      for (const pool_extent &part : pieces.value())
        std::memset(memory->addr(part), mark, part.size);
      out.push_back({owner, std::move(pieces).value(), mark});
    } else if (!out.empty()) {
      size_t const index = random.below(out.size());
      for (const pool_extent &part : out[index].pieces) {
        std::byte *const bytes = memory->addr(part);
        for (uint64_t offset = 0; offset < part.size; offset += 64)
          ASSERT_EQ(uint8_t(bytes[offset]), out[index].mark);
      }
      memory->release(out[index].pieces);
      out[index] = out.back();
      out.pop_back();
    }
  }
  EXPECT_GT(refused, 0u);
  for (const held &entry : out)
    memory->release(entry.pieces);
  EXPECT_EQ(memory->used(), 0u);
  EXPECT_TRUE(memory->allocate(9, 32 * mib).ok());
}

// Clients map segments ahead of use, so the next allocations must take the reserved ones.
TEST(space, reserved_segments_are_those_that_allocations_take_next) {
  auto memory = make_memory(32 * mib);
  auto before = memory->allocate(1, mib);
  ASSERT_TRUE(before.ok());
  auto const numbers = memory->reserve_segments(1, 9 * mib);
  ASSERT_EQ(numbers.size(), 5u);  // four whole ones, and the rest of the first segment
  EXPECT_EQ(numbers.back(), before.value()[0].segment);
  for (uint32_t const number : numbers) {
    auto lent = memory->export_segment(1, number, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
  }
  EXPECT_EQ(memory->reserve_segments(1, 9 * mib), numbers);
  EXPECT_EQ(memory->used(), mib);
  auto pieces = memory->allocate(1, 5 * mib);
  ASSERT_TRUE(pieces.ok());
  for (const pool_extent &part : pieces.value()) {
    EXPECT_NE(std::find(numbers.begin(), numbers.end(), part.segment), numbers.end())
        << part.segment;
  }
}

TEST(space, a_reservation_takes_nothing_from_other_namespaces) {
  auto memory = make_memory(16 * mib);
  auto const numbers = memory->reserve_segments(1, 16 * mib);
  EXPECT_EQ(numbers.size(), 4u);  // half of the eight
  EXPECT_EQ(memory->reserve_segments(1, 16 * mib), numbers);
  for (uint32_t const number : numbers) {
    auto lent = memory->export_segment(1, number, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
    EXPECT_EQ(memory->export_segment(2, number, true).error(), status::no_entry);
  }
  auto others = memory->allocate(2, 8 * mib);
  ASSERT_TRUE(others.ok());
  for (const pool_extent &part : others.value()) {
    EXPECT_EQ(std::find(numbers.begin(), numbers.end(), part.segment), numbers.end())
        << part.segment;
  }
  auto rest = memory->allocate(2, 8 * mib);
  ASSERT_TRUE(rest.ok());
  for (uint32_t const number : numbers)
    EXPECT_EQ(memory->export_segment(1, number, false).error(), status::no_entry);
  EXPECT_TRUE(memory->reserve_segments(1, mib).empty());
}

TEST(space, memory_that_is_brought_in_has_huge_pages_where_the_kernel_makes_them) {
  int const file = memfd_create("probe", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 2 * mib), 0);
  void *const probe = seams::map_file_part({file, 0, 2 * mib}, PROT_READ | PROT_WRITE);
  ASSERT_NE(probe, nullptr);
  bool const can_be_huge = seams::make_huge_pages(probe, 2 * mib);
  munmap(probe, 2 * mib);
  close(file);
  auto memory = make_memory(4 * mib);
  auto pieces = memory->allocate(1, 4 * mib);
  ASSERT_TRUE(pieces.ok());
  for (const pool_extent &part : pieces.value()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->addr(part)) % (2 * mib), 0u);
    auto lent = memory->export_segment(1, part.segment, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
    EXPECT_TRUE(!can_be_huge || lent.value().is_huge);
  }
}

TEST(space, memory_of_another_namespace_is_never_seen) {
  auto memory = make_memory(2 * mib);
  auto first = memory->allocate(1, 2 * mib);
  ASSERT_TRUE(first.ok());
  pool_extent const part = first.value()[0];
  auto lent = memory->export_segment(1, part.segment, true);
  ASSERT_TRUE(lent.ok());
  void *const mapping =
      mmap(nullptr, 2 * mib, PROT_READ | PROT_WRITE, MAP_SHARED, lent.value().descriptor, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::memset(mapping, 's', 2 * mib);
  memory->release(first.value());
  auto second = memory->allocate(2, 2 * mib);
  ASSERT_TRUE(second.ok());
  std::byte *const bytes = memory->addr(second.value()[0]);
  EXPECT_EQ(int(bytes[0]), 0);
  EXPECT_EQ(int(bytes[2 * mib - 1]), 0);
  std::memset(bytes, 'x', 2 * mib);
  EXPECT_NE(static_cast<char *>(mapping)[0], 'x');  // the first client's mapping is separate now
  EXPECT_EQ(memory->export_segment(1, part.segment, false).error(), status::no_entry);
  EXPECT_EQ(memory->export_segment(1, second.value()[0].segment, false).error(), status::no_entry);
  munmap(mapping, 2 * mib);
}

// A segment keeps its number as long as its memory exists.
TEST(space, memory_that_was_nobodys_goes_before_anothers) {
  auto memory = make_memory();
  for (uint32_t owner = 0; owner < 8; owner++) {
    auto got = memory->allocate(owner, 2 * mib);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value()[0].segment, owner);
    ASSERT_TRUE(memory->export_segment(owner, got.value()[0].segment, true).ok());
    memory->release(got.value());
  }
  auto again = memory->allocate(5, 2 * mib);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value()[0].segment, 5u);
  auto of_another = memory->allocate(9, 2 * mib);
  ASSERT_TRUE(of_another.ok());
  EXPECT_GE(of_another.value()[0].segment, 8u);
}

TEST(space, what_is_lent_for_reading_cannot_be_written_nor_cut) {
  auto memory = make_memory();
  auto pieces = memory->allocate(1, 100);
  ASSERT_TRUE(pieces.ok());
  auto lent = memory->export_segment(1, pieces.value()[0].segment, false);
  ASSERT_TRUE(lent.ok());
  int const descriptor = lent.value().descriptor;
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
  auto writable = memory->export_segment(1, pieces.value()[0].segment, true);
  ASSERT_TRUE(writable.ok());
  EXPECT_NE(ftruncate(writable.value().descriptor, 0), 0);
}

TEST(space, claims_what_was_there_before) {
  auto memory = make_memory();
  std::vector<pool_extent> const before{{3, 4096, 8192}, {4, 0, 2 * mib}};
  EXPECT_EQ(memory->claim(5, before), status::ok);
  EXPECT_EQ(memory->used(), 8192 + 2 * mib);
  for (pool_extent const wrong : {pool_extent{8, 0, 4096},
                                  pool_extent{2, 2 * mib - 64, 128},
                                  pool_extent{2, 1, 64},
                                  pool_extent{2, 0, 0}})
    EXPECT_EQ(memory->claim(5, std::vector{pool_extent{1, 0, 64}, wrong}), status::invalid);
  for (pool_extent const in_use : {pool_extent{3, 8192, 4096},
                                   pool_extent{3, 0, 8192},
                                   pool_extent{3, 8192, 8192},
                                   pool_extent{4, 64, 64}})
    EXPECT_EQ(memory->claim(5, std::vector{pool_extent{1, 0, 64}, in_use}), status::busy);
  EXPECT_EQ(memory->claim(6, std::vector{pool_extent{3, 4096, 64}}), status::busy);
  EXPECT_EQ(memory->claim(6, std::vector{pool_extent{3, 0, 64}}), status::invalid);
  memory->release(before);
  EXPECT_EQ(memory->used(), 0u);
}

// Memory that a transfer may still access has no owner meanwhile.
TEST(space, what_may_still_be_touched_is_neither_dropped_nor_given) {
  auto memory = make_memory(2 * mib);
  bool touched = true;
  uint64_t waited_ns = 0, call_count = 0;
  memory->set_drop_hook([&](const std::byte *, size_t, uint64_t timeout_ns) {
    waited_ns += timeout_ns;
    call_count++;
    return !touched;
  });
  auto first = memory->allocate(0, mib);
  ASSERT_TRUE(first.ok());
  std::byte *const addr = memory->addr(first.value()[0]);
  std::memset(addr, 'a', mib);
  auto lent = memory->export_segment(0, first.value()[0].segment, true);
  ASSERT_TRUE(lent.ok());
  close(lent.value().descriptor);
  memory->release(first.value());
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(memory->allocate(1, mib).error(), status::no_space);
  EXPECT_GE(call_count, 3u);
  EXPECT_LE(waited_ns, 2'000'000'000u) << "the first call waits, later ones only poll";
  EXPECT_EQ(std::to_integer<char>(addr[mib - 1]), 'a') << "it still exists, with its bytes";
  touched = false;
  auto second = memory->allocate(1, mib);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(std::to_integer<char>(*memory->addr(second.value()[0])), 0);
}

// A segment as a client of its owner maps it.
class mapped_view {
 public:
  mapped_view(pool_memory &memory, uint64_t owner, uint32_t segment) {
    auto lent = memory.export_segment(owner, segment, true);
    EXPECT_TRUE(lent.ok());
    size_ = lent.value().size;
    void *const addr = mmap(nullptr,
                            size_,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED,
                            lent.value().descriptor,
                            off_t(lent.value().file_offset));
    EXPECT_NE(addr, MAP_FAILED);
    close(lent.value().descriptor);
    addr_ = static_cast<uint8_t *>(addr);
  }
  mapped_view(mapped_view &&source) noexcept
      : addr_{std::exchange(source.addr_, nullptr)}, size_{source.size_} {}
  ~mapped_view() {
    if (addr_ != nullptr)
      munmap(addr_, size_);
  }
  // Whether it contains only zeros and one owner's mark.
  bool has_only(uint8_t mark) const {
    return std::all_of(
        addr_, addr_ + size_, [&](uint8_t byte) { return byte == 0 || byte == mark; });
  }
  uint64_t size() const {
    return size_;
  }

 private:
  uint8_t *addr_ = nullptr;
  uint64_t size_ = 0;
};

class space_of_many : public testing::Test {
 protected:
  void make(uint64_t capacity,
            uint64_t segment_size,
            bool prefault = false,
            uint32_t segment_count_max = 10'000) {
    auto created = pool_memory::create({.capacity = capacity,
                                        .segment_size = segment_size,
                                        .prefault = prefault,
                                        .segment_count_max = segment_count_max});
    ASSERT_TRUE(created.ok());
    memory_ = std::move(created).value();
  }
  std::vector<pool_extent> allocate(uint64_t owner, uint64_t size) {
    auto got = memory_->allocate(owner, size);
    EXPECT_TRUE(got.ok()) << "owner " << owner << ", " << size << " bytes";
    return got.ok() ? std::move(got).value() : std::vector<pool_extent>{};
  }
  // Owned and free memory add up to the capacity.
  void check_sum(uint64_t owner_count) {
    uint64_t owned = 0;
    for (uint64_t owner = 0; owner < owner_count; owner++)
      owned += memory_->usage_of(owner).owned;
    EXPECT_EQ(memory_->usage().owned, owned);
    EXPECT_GE(owned, memory_->used());
    EXPECT_EQ(memory_->usage().owned + memory_->usage().free(), memory_->capacity());
  }

  std::unique_ptr<pool_memory> memory_;
};

TEST_F(space_of_many, a_pool_of_default_size_has_room_for_4096_namespaces) {
  make(memory_options{}.capacity, memory_options{}.segment_size);
  std::set<uint32_t> segments;
  for (uint64_t owner = 0; owner < 4096; owner++) {
    auto const pieces = allocate(owner, 1);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_TRUE(segments.insert(pieces[0].segment).second) << "a segment of two owners";
  }
  check_sum(4096);
  EXPECT_EQ(memory_->usage().owned, 4096 * pool_memory::granule_min);
  // The rest is available for a large object, in whole segments except for the cut ones.
  uint64_t const rest = memory_->usage().free();
  EXPECT_LE(allocate(5000, rest).size(), 16u);
  EXPECT_EQ(memory_->allocate(5001, 1).error(), status::no_space);
}

TEST_F(space_of_many, what_is_removed_makes_whole_segments_again) {
  make(32 * mib, 4 * mib);
  for (int round = 0; round < 3; round++) {
    std::vector<std::vector<pool_extent>> held;
    for (uint64_t owner = 0; owner < 300; owner++) {
      held.push_back(allocate(owner, 40'000));
      if (owner % 3 == 0)
        mapped_view const view{*memory_, owner, held.back()[0].segment};
    }
    for (auto const &pieces : held)
      memory_->release(pieces);
    EXPECT_EQ(memory_->usage().owned, 0u);
    EXPECT_EQ(memory_->usage().free(), 32 * mib);
    auto const large = allocate(1000, 32 * mib);
    EXPECT_EQ(large.size(), 8u) << "pieces";
    memory_->release(large);
  }
}

TEST_F(space_of_many, a_namespace_has_few_segments_and_little_that_it_does_not_use) {
  make(256 * mib, 64 * mib);
  auto const ballast = allocate(1, 130 * mib);  // so that less than half is free
  uint64_t const step = 16 << 10;
  for (uint64_t used = step; used <= 32 * mib; used += step) {
    allocate(2, step);
    owner_usage const usage = memory_->usage_of(2);
    ASSERT_LE(usage.owned, std::max(2 * used, pool_memory::granule_min)) << used;
  }
  EXPECT_LE(memory_->usage_of(2).segment_count, 16u);
  check_sum(3);
}

TEST_F(space_of_many, a_large_object_lies_in_whole_segments) {
  make(256 * mib, 16 * mib);
  allocate(1, 1);
  allocate(2, 1);
  auto const large = allocate(3, 128 * mib);
  ASSERT_EQ(large.size(), 8u);
  for (pool_extent const &part : large)
    EXPECT_EQ(part.offset, 0u);
  // A smaller first object also gets a whole segment while half of the pool is free.
  auto const first = allocate(4, mib);
  EXPECT_EQ(memory_->usage_of(4).owned, mib) << "little is free";
  memory_->release(large);
  allocate(5, mib);
  EXPECT_EQ(memory_->usage_of(5).owned, 16 * mib);
}

// A client that maps a segment never sees bytes of other owners, then or later.
TEST_F(space_of_many, nobody_finds_bytes_of_others_in_what_he_maps) {
  for (bool const prefault : {false, true}) {
    make(8 * mib, 2 * mib, prefault, 64);
    sim::prng random{prefault ? 3u : 4u};
    struct held {
      uint64_t owner;
      std::vector<pool_extent> pieces;
    };
    std::vector<held> out;
    std::vector<std::pair<uint64_t, mapped_view>> views;
    for (int round = 0; round < 2'000; round++) {
      uint64_t const owner = random.below(20);
      uint64_t const size = 1 + random.below(random.chance(10) ? 3 * mib : 100'000);
      auto got = memory_->allocate(owner, size);
      if (!got.ok() || random.chance(30)) {
        if (got.ok())
          memory_->release(got.value());
        for (int i = 0; i < 3 && !out.empty(); i++) {
          std::swap(out[random.below(out.size())], out.back());
          memory_->release(out.back().pieces);
          out.pop_back();
        }
        continue;
      }
      for (pool_extent const &part : got.value()) {
        std::memset(memory_->addr(part), int(owner + 1), part.size);
        if (random.chance(20))
          views.emplace_back(owner, mapped_view{*memory_, owner, part.segment});
      }
      out.push_back({owner, std::move(got).value()});
      if (round % 100 != 0)
        continue;
      check_sum(20);
      for (auto const &[whose, view] : views)
        ASSERT_TRUE(view.has_only(uint8_t(whose + 1)));
    }
    for (held const &entry : out)
      memory_->release(entry.pieces);
    EXPECT_EQ(memory_->usage().free(), 8 * mib);
    EXPECT_EQ(allocate(30, 8 * mib).size(), 4u);
  }
}

TEST_F(space_of_many, what_clients_map_keeps_its_size) {
  make(2 * mib, 2 * mib, true);
  auto const first = allocate(1, mib);
  mapped_view const view{*memory_, 1, first[0].segment};
  EXPECT_EQ(view.size(), 2 * mib);
  memory_->release(first);
  allocate(2, 1);  // from the memory that the first owner maps
  EXPECT_TRUE(view.has_only(0)) << "touched to its end";
  EXPECT_EQ(memory_->usage_of(2).owned, pool_memory::granule_min);
  EXPECT_EQ(size_of(allocate(3, 2 * mib - pool_memory::granule_min)),
            2 * mib - pool_memory::granule_min);
}

TEST_F(space_of_many, a_full_pool_takes_the_free_ends_of_what_nobody_maps) {
  make(8 * mib, 2 * mib);
  std::vector<std::vector<pool_extent>> held;
  for (uint64_t owner = 0; owner < 4; owner++)
    held.push_back(allocate(owner, mib + 1));
  mapped_view const view{*memory_, 0, held[0][0].segment};
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(memory_->usage_of(uint64_t(i)).owned, 2 * mib);
  std::memset(memory_->addr(held[1][0]), 'b', mib + 1);
  uint64_t const size = 2 * mib + 512 * 1024;
  EXPECT_GT(size, memory_->usage().free());
  EXPECT_EQ(size_of(allocate(9, size)), size);
  EXPECT_EQ(memory_->usage_of(1).owned, mib + pool_memory::granule_min);
  EXPECT_EQ(std::to_integer<char>(memory_->addr(held[1][0])[mib]), 'b');
  EXPECT_EQ(memory_->allocate(8, 512 * 1024).error(), status::no_space);
  EXPECT_EQ(memory_->usage_of(0).owned, view.size());
  check_sum(10);
}

TEST_F(space_of_many, what_is_reserved_fits_in_any_order) {
  make(8 * mib, 2 * mib);
  uint64_t const sizes[] = {5 * mib + 192 * 1024, 2 * mib + 64 * 1024, 768 * 1024};
  for (uint64_t owner = 0; owner < 3; owner++)
    memory_->reserve(owner, sizes[owner]);
  EXPECT_EQ(memory_->usage().free(), 0u);
  memory_->reserve(3, mib);  // nothing is left
  for (uint64_t const owner : {1, 0, 2}) {
    EXPECT_EQ(size_of(allocate(owner, sizes[owner])), sizes[owner]);
  }
  check_sum(4);
}

TEST_F(space_of_many, what_was_reserved_and_is_not_used_is_free_again) {
  make(8 * mib, 2 * mib);
  for (uint64_t owner = 0; owner < 3; owner++)
    memory_->reserve(owner, 2 * mib);
  allocate(1, mib);
  memory_->end_reservations();
  EXPECT_EQ(memory_->usage_of(0).owned, 0u);
  EXPECT_EQ(memory_->usage().owned, 2 * mib);
  check_sum(3);
}

TEST_F(space_of_many, there_is_room_where_no_more_segments_can_be_made) {
  make(8 * mib, 2 * mib, false, 6);
  std::vector<std::vector<pool_extent>> held;
  for (uint64_t owner = 0; owner < 6; owner++)
    held.push_back(allocate(owner, 1));
  EXPECT_EQ(memory_->allocate(6, 1).error(), status::no_space);
  EXPECT_EQ(size_of(allocate(2, mib)), mib) << "from its own segment";
  memory_->release(held[1]);
  EXPECT_EQ(allocate(6, 1).size(), 1u);
  check_sum(7);
}

TEST_F(space_of_many, memory_that_is_held_back_is_not_cut) {
  make(4 * mib, 4 * mib);
  bool touched = true;
  memory_->set_drop_hook([&](const std::byte *, size_t, uint64_t) { return !touched; });
  memory_->release(allocate(1, mib));
  EXPECT_EQ(memory_->allocate(2, 1).error(), status::no_space);
  EXPECT_EQ(memory_->usage().quarantined, 4 * mib);
  EXPECT_EQ(memory_->usage().free(), 0u);
  touched = false;
  allocate(2, 1);
  EXPECT_EQ(memory_->usage().quarantined, 0u);
  check_sum(3);
}

// A pool in a file, which the test truncates.
class space_in_file : public testing::Test {
 protected:
  void SetUp() override {
    auto created =
        pool_memory::create({.capacity = 16 * mib, .segment_size = 2 * mib, .file = path_});
    ASSERT_TRUE(created.ok());
    memory_ = std::move(created).value();
  }
  ~space_in_file() override {
    unlink(path_.c_str());
  }
  void cut(uint64_t size) {
    ASSERT_EQ(truncate(path_.c_str(), off_t(size)), 0);
    memory_->check_losses();
  }

  std::string const path_ = testing::TempDir() + "tanada_space_" + std::to_string(getpid());
  std::unique_ptr<pool_memory> memory_;
};

TEST_F(space_in_file, requests_for_adjacent_memory_share_a_sync) {
  std::vector<pool_memory::sync_request> requests(16);
  for (auto &request : requests)
    request.pieces = memory_->allocate(0, 1000).value();
  uint64_t const before = msync_count;
  memory_->sync(requests);
  EXPECT_EQ(msync_count - before, 1u);
  for (auto const &request : requests)
    EXPECT_EQ(request.outcome, status::ok);
}

TEST_F(space_in_file, requests_in_many_places_share_few_syncs) {
  auto const whole = memory_->allocate(0, 16 * mib).value();
  std::vector<pool_memory::sync_request> requests;
  for (size_t count : {1, 2, 4, 5, 6}) {
    requests.assign(count, {});
    for (size_t i = 0; i < count; i++)
      requests[i].pieces = {{whole[i].segment, 4096, 64}};  // of segments of 2 MiB
    for (size_t i = 0; i < count; i++)
      requests[i].pieces[0].offset += (i % 2) * mib;
    uint64_t const before = msync_count;
    memory_->sync(requests);
    EXPECT_GE(msync_count - before, 1u);
    EXPECT_LE(msync_count - before, pool_memory::sync_count_max) << count;
  }
}

TEST_F(space_in_file, a_shared_sync_fails_the_requests_whose_bytes_are_lost) {
  std::vector<pool_memory::sync_request> requests(3);
  requests[0].pieces = memory_->allocate(0, 3 * mib).value();
  requests[1].pieces = memory_->allocate(0, 11 * mib).value();
  cut(5 * mib);
  memory_->sync(requests);
  EXPECT_EQ(requests[0].outcome, status::ok);
  EXPECT_EQ(requests[1].outcome, status::io);
  EXPECT_EQ(requests[2].outcome, status::ok) << "it has no bytes";
}

TEST_F(space_in_file, what_was_cut_off_is_given_to_nobody) {
  auto early = memory_->allocate(0, 3 * mib), late = memory_->allocate(0, 13 * mib);
  ASSERT_TRUE(early.ok() && late.ok());
  std::memset(memory_->addr(early.value()[0]), 'a', 2 * mib);
  EXPECT_FALSE(memory_->is_lost(late.value(), 13 * mib));
  cut(5 * mib + 100);
  EXPECT_EQ(memory_->capacity(), 5 * mib + 100);
  EXPECT_EQ(memory_->loss_count(), 1u);
  EXPECT_FALSE(memory_->is_lost(early.value(), 3 * mib));
  EXPECT_TRUE(memory_->is_lost(late.value(), 13 * mib));
  EXPECT_FALSE(memory_->is_lost(late.value(), 1 * mib)) << "its beginning is still intact";
  EXPECT_EQ(memory_->sync(early.value()), status::ok);
  EXPECT_EQ(memory_->sync(late.value()), status::io);
  memory_->release(late.value());
  EXPECT_EQ(memory_->used(), 3 * mib);
  // All further allocations lie before the cut, up to the last byte.
  uint64_t got = 0;
  for (;;) {
    auto more = memory_->allocate(0, 4096);
    if (!more.ok())
      break;
    EXPECT_FALSE(memory_->is_lost(more.value(), 4096));
    std::memset(memory_->addr(more.value()[0]), 'b', 4096);
    got += 4096;
  }
  EXPECT_EQ(got, 2 * mib);
  EXPECT_EQ(std::to_integer<char>(*memory_->addr(early.value()[0])), 'a');
}

TEST_F(space_in_file, free_memory_that_was_cut_off_is_no_room) {
  ASSERT_TRUE(memory_->allocate(0, 3 * mib).ok());  // one segment and a half
  cut(2 * mib + 1536 * 1024);
  auto rest = memory_->allocate(1, 512 * 1024);  // from the same segment, which owners share
  ASSERT_TRUE(rest.ok());
  EXPECT_FALSE(memory_->is_lost(rest.value(), 512 * 1024));
  EXPECT_EQ(memory_->allocate(0, 64).error(), status::no_space);
}

TEST_F(space_in_file, touching_what_is_gone_is_noticed_after_the_file_grew_again) {
  auto pieces = memory_->allocate(0, 16 * mib);
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(truncate(path_.c_str(), 15 * mib), 0);
  for (const pool_extent &part : pieces.value())
    std::memset(memory_->addr(part), 'x', part.size);  // does not end the process
  ASSERT_EQ(truncate(path_.c_str(), 16 * mib), 0);
  memory_->check_losses();
  EXPECT_EQ(memory_->capacity(), 15 * mib);
  EXPECT_TRUE(memory_->is_lost(pieces.value(), 16 * mib));
  EXPECT_FALSE(memory_->is_lost(pieces.value(), 15 * mib));
}

// An object of a megabyte with stale bytes.
TEST(written_ranges, gaps_are_cleared_as_far_as_the_budget_goes) {
  auto memory = make_memory();
  auto const account = std::make_shared<owner_account>();
  account->memory = memory.get();
  object target{account};
  target.add_pieces(memory->allocate(0, mib).value());
  target.metadata.size = mib;
  std::vector<iovec> parts;
  target.append_parts(0, mib, parts);
  auto *const bytes = static_cast<char *>(parts[0].iov_base);
  std::memset(bytes, 'o', mib);
  written_ranges written;
  std::string expected(mib, 0);
  sim::prng random{5};
  for (int i = 0; i < 100; i++) {
    uint64_t const offset = random.below(mib - 5000), size = 1 + random.below(4000);
    written.add(offset, size);
    expected.replace(offset, size, size, 'o');
  }
  size_t turns = 1;
  for (uint64_t budget = 10'000; !written.clear_unwritten(target, mib, budget);
       budget = 10'000, turns++)
    EXPECT_EQ(budget, 0u);
  EXPECT_EQ(std::string(bytes, mib), expected);
  EXPECT_GT(turns, 50u);
  EXPECT_EQ(written.count(), 1u);
}

}  // namespace
}  // namespace tanada::poold

// Calls the system's msync() and counts the calls.
extern "C" int msync(void *addr, size_t size, int flags) {
  tanada::poold::msync_count++;
  return int(syscall(SYS_msync, addr, size, flags));
}
