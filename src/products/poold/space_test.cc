#include "products/poold/space.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "products/poold/object.hpp"
#include "products/poold/testing/sizes.hpp"
#include "seams/os/huge_pages.hpp"
#include "sim/world.hpp"

namespace tanada::poold {
namespace {

std::unique_ptr<space> made(uint64_t capacity = 16 * mib) {
  auto all = space::create({.capacity = capacity, .segment_size = 2 * mib});
  EXPECT_TRUE(all.ok());
  return std::move(all).value();
}

uint64_t size_of(const std::vector<piece> &pieces) {
  uint64_t size = 0;
  for (const piece &one : pieces)
    size += one.size;
  return size;
}

TEST(space, gives_what_fits_and_takes_it_back) {
  auto all = made();
  auto whole = all->allocate(0, 16 * mib);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(size_of(whole.value()), 16 * mib);
  EXPECT_EQ(all->used(), 16 * mib);
  EXPECT_EQ(all->allocate(0, 1).error(), status::no_space);
  all->release(whole.value());
  EXPECT_EQ(all->used(), 0u);
  EXPECT_TRUE(all->allocate(1, 16 * mib).ok());
}

TEST(space, too_much_takes_nothing) {
  auto all = made();
  EXPECT_EQ(all->allocate(0, 17 * mib).error(), status::no_space);
  EXPECT_EQ(all->allocate(0, ~uint64_t{0}).error(), status::no_space);
  EXPECT_EQ(all->used(), 0u);
  EXPECT_TRUE(all->allocate(0, 16 * mib).ok());
}

TEST(space, more_than_the_memory_that_is_there_is_refused_before_it_is_brought_in) {
  space_options options{
      .capacity = 16 * mib, .segment_size = 2 * mib, .available_size = 16 * mib - 1};
  EXPECT_EQ(space::create(options).error(), status::no_memory);
  options.prefault = false;
  EXPECT_TRUE(space::create(options).ok());
  options.prefault = true;
  options.available_size = 16 * mib;
  EXPECT_TRUE(space::create(options).ok());
}

// Random allocations never overlap, and nothing is lost in the end.
TEST(space, pieces_never_overlap) {
  auto all = made(32 * mib);
  sim::prng random{7};
  struct held {
    uint32_t owner;
    std::vector<piece> pieces;
    uint8_t mark;
  };
  std::vector<held> out;
  uint64_t refused = 0;
  for (int round = 0; round < 3'000; round++) {
    if (random.chance(55)) {
      uint32_t const owner = uint32_t(random.below(3));
      uint64_t const size = 1 + random.below(random.chance(10) ? 5 * mib : 60'000);
      auto pieces = all->allocate(owner, size);
      if (!pieces.ok()) {
        refused++;
        continue;
      }
      EXPECT_GE(size_of(pieces.value()), size);
      auto const mark = uint8_t(random.below(256));
      for (const piece &one : pieces.value())
        std::memset(all->addr(one), mark, one.size);
      out.push_back({owner, std::move(pieces).value(), mark});
    } else if (!out.empty()) {
      size_t const which = random.below(out.size());
      for (const piece &one : out[which].pieces) {
        std::byte *const bytes = all->addr(one);
        for (uint64_t at = 0; at < one.size; at += 64)
          ASSERT_EQ(uint8_t(bytes[at]), out[which].mark);
      }
      all->release(out[which].pieces);
      out[which] = out.back();
      out.pop_back();
    }
  }
  EXPECT_GT(refused, 0u);
  for (const held &one : out)
    all->release(one.pieces);
  EXPECT_EQ(all->used(), 0u);
  EXPECT_TRUE(all->allocate(9, 32 * mib).ok());
}

// Clients map what they will use: that has to be what the next allocations take.
TEST(space, reserved_segments_are_those_that_allocations_take_next) {
  auto all = made(32 * mib);
  auto before = all->allocate(1, mib);
  ASSERT_TRUE(before.ok());
  auto const numbers = all->reserve_segments(1, 9 * mib);
  ASSERT_EQ(numbers.size(), 5u);  // four whole ones, and the rest of the first segment
  EXPECT_EQ(numbers.back(), before.value()[0].segment);
  for (uint32_t const number : numbers) {
    auto lent = all->lend(1, number, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
  }
  EXPECT_EQ(all->reserve_segments(1, 9 * mib), numbers);
  EXPECT_EQ(all->used(), mib);
  auto pieces = all->allocate(1, 5 * mib);
  ASSERT_TRUE(pieces.ok());
  for (const piece &one : pieces.value()) {
    EXPECT_NE(std::find(numbers.begin(), numbers.end(), one.segment), numbers.end()) << one.segment;
  }
}

TEST(space, a_reservation_takes_nothing_from_other_namespaces) {
  auto all = made(16 * mib);
  auto const numbers = all->reserve_segments(1, 16 * mib);
  EXPECT_EQ(numbers.size(), 4u);  // half of the eight
  EXPECT_EQ(all->reserve_segments(1, 16 * mib), numbers);
  for (uint32_t const number : numbers) {
    auto lent = all->lend(1, number, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
    EXPECT_EQ(all->lend(2, number, true).error(), status::no_entry);
  }
  auto others = all->allocate(2, 8 * mib);
  ASSERT_TRUE(others.ok());
  for (const piece &one : others.value()) {
    EXPECT_EQ(std::find(numbers.begin(), numbers.end(), one.segment), numbers.end()) << one.segment;
  }
  auto rest = all->allocate(2, 8 * mib);
  ASSERT_TRUE(rest.ok());
  for (uint32_t const number : numbers)
    EXPECT_EQ(all->lend(1, number, false).error(), status::no_entry);
  EXPECT_TRUE(all->reserve_segments(1, mib).empty());
}

TEST(space, memory_that_is_brought_in_has_huge_pages_where_the_kernel_makes_them) {
  int const file = memfd_create("probe", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 2 * mib), 0);
  void *const probe = port::map_file_part({file, 0, 2 * mib}, PROT_READ | PROT_WRITE);
  ASSERT_NE(probe, nullptr);
  bool const can_be_huge = port::make_huge_pages(probe, 2 * mib);
  munmap(probe, 2 * mib);
  close(file);
  auto all = made(4 * mib);
  auto pieces = all->allocate(1, 4 * mib);
  ASSERT_TRUE(pieces.ok());
  for (const piece &one : pieces.value()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all->addr(one)) % (2 * mib), 0u);
    auto lent = all->lend(1, one.segment, true);
    ASSERT_TRUE(lent.ok());
    close(lent.value().descriptor);
    EXPECT_TRUE(!can_be_huge || lent.value().is_huge);
  }
}

TEST(space, memory_of_another_namespace_is_never_seen) {
  auto all = made(2 * mib);
  auto first = all->allocate(1, 2 * mib);
  ASSERT_TRUE(first.ok());
  piece const part = first.value()[0];
  auto lent = all->lend(1, part.segment, true);
  ASSERT_TRUE(lent.ok());
  void *const mapping =
      mmap(nullptr, 2 * mib, PROT_READ | PROT_WRITE, MAP_SHARED, lent.value().descriptor, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::memset(mapping, 's', 2 * mib);
  all->release(first.value());
  auto second = all->allocate(2, 2 * mib);
  ASSERT_TRUE(second.ok());
  std::byte *const bytes = all->addr(second.value()[0]);
  EXPECT_EQ(int(bytes[0]), 0);
  EXPECT_EQ(int(bytes[2 * mib - 1]), 0);
  std::memset(bytes, 'x', 2 * mib);
  EXPECT_NE(static_cast<char *>(mapping)[0], 'x');  // the first one's mapping has gone its own way
  EXPECT_EQ(all->lend(1, part.segment, false).error(), status::no_entry);
  EXPECT_EQ(all->lend(1, second.value()[0].segment, false).error(), status::no_entry);
  munmap(mapping, 2 * mib);
}

// Segments keep their numbers as long as their memory stays.
TEST(space, memory_that_was_nobodys_goes_before_anothers) {
  auto all = made();
  for (uint32_t owner = 0; owner < 8; owner++) {
    auto got = all->allocate(owner, 2 * mib);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value()[0].segment, owner);
    ASSERT_TRUE(all->lend(owner, got.value()[0].segment, true).ok());
    all->release(got.value());
  }
  auto again = all->allocate(5, 2 * mib);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value()[0].segment, 5u);
  auto of_another = all->allocate(9, 2 * mib);
  ASSERT_TRUE(of_another.ok());
  EXPECT_GE(of_another.value()[0].segment, 8u);
}

TEST(space, what_is_lent_for_reading_cannot_be_written_nor_cut) {
  auto all = made();
  auto some = all->allocate(1, 100);
  ASSERT_TRUE(some.ok());
  auto lent = all->lend(1, some.value()[0].segment, false);
  ASSERT_TRUE(lent.ok());
  int const descriptor = lent.value().descriptor;
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
  auto writable = all->lend(1, some.value()[0].segment, true);
  ASSERT_TRUE(writable.ok());
  EXPECT_NE(ftruncate(writable.value().descriptor, 0), 0);
}

TEST(space, claims_what_was_there_before) {
  auto all = made();
  std::vector<piece> const before{{3, 4096, 8192}, {4, 0, 2 * mib}};
  EXPECT_EQ(all->claim(5, before), status::ok);
  EXPECT_EQ(all->used(), 8192 + 2 * mib);
  for (piece const wrong :
       {piece{8, 0, 4096}, piece{2, 2 * mib - 64, 128}, piece{2, 1, 64}, piece{2, 0, 0}})
    EXPECT_EQ(all->claim(5, std::vector{piece{1, 0, 64}, wrong}), status::invalid);
  for (piece const taken :
       {piece{3, 8192, 4096}, piece{3, 0, 8192}, piece{3, 8192, 8192}, piece{4, 64, 64}})
    EXPECT_EQ(all->claim(5, std::vector{piece{1, 0, 64}, taken}), status::busy);
  EXPECT_EQ(all->claim(6, std::vector{piece{3, 4096, 64}}), status::busy);
  EXPECT_EQ(all->claim(6, std::vector{piece{3, 0, 64}}), status::invalid);
  all->release(before);
  EXPECT_EQ(all->used(), 0u);
}

// Memory that a transfer may still touch is nobody's until it does not.
TEST(space, what_may_still_be_touched_is_neither_dropped_nor_given) {
  auto all = made(2 * mib);
  bool touched = true;
  uint64_t waited_ns = 0, asked = 0;
  all->on_drop([&](const std::byte *, size_t, uint64_t timeout_ns) {
    waited_ns += timeout_ns;
    asked++;
    return !touched;
  });
  auto first = all->allocate(0, mib);
  ASSERT_TRUE(first.ok());
  std::byte *const addr = all->addr(first.value()[0]);
  std::memset(addr, 'a', mib);
  auto lent = all->lend(0, first.value()[0].segment, true);
  ASSERT_TRUE(lent.ok());
  close(lent.value().descriptor);
  all->release(first.value());
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(all->allocate(1, mib).error(), status::no_space);
  EXPECT_GE(asked, 3u);
  EXPECT_LE(waited_ns, 2'000'000'000u) << "it is waited for once and then asked for";
  EXPECT_EQ(std::to_integer<char>(addr[mib - 1]), 'a') << "it is there still, with its bytes";
  touched = false;
  auto second = all->allocate(1, mib);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(std::to_integer<char>(*all->addr(second.value()[0])), 0);
}

// Bytes of a segment as a client of its owner maps it.
class mapped_view {
 public:
  mapped_view(space &of, uint64_t owner, uint32_t segment) {
    auto lent = of.lend(owner, segment, true);
    EXPECT_TRUE(lent.ok());
    size_ = lent.value().size;
    void *const addr = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                            lent.value().descriptor, off_t(lent.value().file_offset));
    EXPECT_NE(addr, MAP_FAILED);
    close(lent.value().descriptor);
    addr_ = static_cast<uint8_t *>(addr);
  }
  mapped_view(mapped_view &&other) noexcept
      : addr_{std::exchange(other.addr_, nullptr)}, size_{other.size_} {}
  ~mapped_view() {
    if (addr_ != nullptr)
      munmap(addr_, size_);
  }
  // Nothing but zeros and one owner's mark.
  bool has_only(uint8_t mark) const {
    return std::all_of(addr_, addr_ + size_, [&](uint8_t one) { return one == 0 || one == mark; });
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
  void make(uint64_t capacity, uint64_t segment_size, bool prefault = false,
            uint32_t segment_count_max = 10'000) {
    auto made = space::create({.capacity = capacity,
                               .segment_size = segment_size,
                               .prefault = prefault,
                               .segment_count_max = segment_count_max});
    ASSERT_TRUE(made.ok());
    all_ = std::move(made).value();
  }
  std::vector<piece> some(uint64_t owner, uint64_t size) {
    auto got = all_->allocate(owner, size);
    EXPECT_TRUE(got.ok()) << "owner " << owner << ", " << size << " bytes";
    return got.ok() ? std::move(got).value() : std::vector<piece>{};
  }
  // What owners have and what is free is all there is.
  void check_sum(uint64_t owner_count) {
    uint64_t owned = 0;
    for (uint64_t owner = 0; owner < owner_count; owner++)
      owned += all_->usage_of(owner).owned;
    EXPECT_EQ(all_->usage().owned, owned);
    EXPECT_GE(owned, all_->used());
    EXPECT_EQ(all_->usage().owned + all_->usage().free(), all_->capacity());
  }

  std::unique_ptr<space> all_;
};

TEST_F(space_of_many, a_pool_of_default_size_has_room_for_4096_namespaces) {
  make(space_options{}.capacity, space_options{}.segment_size);
  std::set<uint32_t> segments;
  for (uint64_t owner = 0; owner < 4096; owner++) {
    auto const pieces = some(owner, 1);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_TRUE(segments.insert(pieces[0].segment).second) << "a segment of two owners";
  }
  check_sum(4096);
  EXPECT_EQ(all_->usage().owned, 4096 * space::granule_min);
  // The rest is there for a large object, in whole segments but for the cut ones.
  uint64_t const rest = all_->usage().free();
  EXPECT_LE(some(5000, rest).size(), 16u);
  EXPECT_EQ(all_->allocate(5001, 1).error(), status::no_space);
}

TEST_F(space_of_many, what_is_removed_makes_whole_segments_again) {
  make(32 * mib, 4 * mib);
  for (int round = 0; round < 3; round++) {
    std::vector<std::vector<piece>> held;
    for (uint64_t owner = 0; owner < 300; owner++) {
      held.push_back(some(owner, 40'000));
      if (owner % 3 == 0)
        mapped_view const seen{*all_, owner, held.back()[0].segment};
    }
    for (auto const &each : held)
      all_->release(each);
    EXPECT_EQ(all_->usage().owned, 0u);
    EXPECT_EQ(all_->usage().free(), 32 * mib);
    auto const large = some(1000, 32 * mib);
    EXPECT_EQ(large.size(), 8u) << "pieces";
    all_->release(large);
  }
}

TEST_F(space_of_many, a_namespace_has_few_segments_and_little_that_it_does_not_use) {
  make(256 * mib, 64 * mib);
  auto const taken = some(1, 130 * mib);  // so that less than half is free
  uint64_t const step = 16 << 10;
  for (uint64_t used = step; used <= 32 * mib; used += step) {
    some(2, step);
    owner_usage const now = all_->usage_of(2);
    ASSERT_LE(now.owned, std::max(2 * used, space::granule_min)) << used;
  }
  EXPECT_LE(all_->usage_of(2).segment_count, 16u);
  check_sum(3);
}

TEST_F(space_of_many, a_large_object_lies_in_whole_segments) {
  make(256 * mib, 16 * mib);
  some(1, 1);
  some(2, 1);
  auto const large = some(3, 128 * mib);
  ASSERT_EQ(large.size(), 8u);
  for (piece const &one : large)
    EXPECT_EQ(one.offset, 0u);
  // So does one that begins with less while half of the pool is free.
  auto const first = some(4, mib);
  EXPECT_EQ(all_->usage_of(4).owned, mib) << "little is free";
  all_->release(large);
  some(5, mib);
  EXPECT_EQ(all_->usage_of(5).owned, 16 * mib);
}

// Whoever maps a segment finds bytes of its owner in it and no others, now and later.
TEST_F(space_of_many, nobody_finds_bytes_of_others_in_what_he_maps) {
  for (bool const prefault : {false, true}) {
    make(8 * mib, 2 * mib, prefault, 64);
    sim::prng random{prefault ? 3u : 4u};
    struct held {
      uint64_t owner;
      std::vector<piece> pieces;
    };
    std::vector<held> out;
    std::vector<std::pair<uint64_t, mapped_view>> views;
    for (int round = 0; round < 2'000; round++) {
      uint64_t const owner = random.below(20);
      uint64_t const size = 1 + random.below(random.chance(10) ? 3 * mib : 100'000);
      auto got = all_->allocate(owner, size);
      if (!got.ok() || random.chance(30)) {
        if (got.ok())
          all_->release(got.value());
        for (int i = 0; i < 3 && !out.empty(); i++) {
          std::swap(out[random.below(out.size())], out.back());
          all_->release(out.back().pieces);
          out.pop_back();
        }
        continue;
      }
      for (piece const &one : got.value()) {
        std::memset(all_->addr(one), int(owner + 1), one.size);
        if (random.chance(20))
          views.emplace_back(owner, mapped_view{*all_, owner, one.segment});
      }
      out.push_back({owner, std::move(got).value()});
      if (round % 100 != 0)
        continue;
      check_sum(20);
      for (auto const &[whose, view] : views)
        ASSERT_TRUE(view.has_only(uint8_t(whose + 1)));
    }
    for (held const &one : out)
      all_->release(one.pieces);
    EXPECT_EQ(all_->usage().free(), 8 * mib);
    EXPECT_EQ(some(30, 8 * mib).size(), 4u);
  }
}

TEST_F(space_of_many, what_clients_map_keeps_its_size) {
  make(2 * mib, 2 * mib, true);
  auto const first = some(1, mib);
  mapped_view const view{*all_, 1, first[0].segment};
  EXPECT_EQ(view.size(), 2 * mib);
  all_->release(first);
  some(2, 1);  // of the memory that the first one maps
  EXPECT_TRUE(view.has_only(0)) << "touched to its end";
  EXPECT_EQ(all_->usage_of(2).owned, space::granule_min);
  EXPECT_EQ(size_of(some(3, 2 * mib - space::granule_min)), 2 * mib - space::granule_min);
}

TEST_F(space_of_many, a_full_pool_takes_the_free_ends_of_what_nobody_maps) {
  make(8 * mib, 2 * mib);
  std::vector<std::vector<piece>> held;
  for (uint64_t owner = 0; owner < 4; owner++)
    held.push_back(some(owner, mib + 1));
  mapped_view const view{*all_, 0, held[0][0].segment};
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(all_->usage_of(uint64_t(i)).owned, 2 * mib);
  std::memset(all_->addr(held[1][0]), 'b', mib + 1);
  uint64_t const size = 2 * mib + 512 * 1024;
  EXPECT_GT(size, all_->usage().free());
  EXPECT_EQ(size_of(some(9, size)), size);
  EXPECT_EQ(all_->usage_of(1).owned, mib + space::granule_min);
  EXPECT_EQ(std::to_integer<char>(all_->addr(held[1][0])[mib]), 'b');
  EXPECT_EQ(all_->allocate(8, 512 * 1024).error(), status::no_space);
  EXPECT_EQ(all_->usage_of(0).owned, view.size());
  check_sum(10);
}

TEST_F(space_of_many, what_is_reserved_fits_in_any_order) {
  make(8 * mib, 2 * mib);
  uint64_t const sizes[] = {5 * mib + 192 * 1024, 2 * mib + 64 * 1024, 768 * 1024};
  for (uint64_t owner = 0; owner < 3; owner++)
    all_->reserve(owner, sizes[owner]);
  EXPECT_EQ(all_->usage().free(), 0u);
  all_->reserve(3, mib);  // there is no more
  for (uint64_t const owner : {1, 0, 2}) {
    EXPECT_EQ(size_of(some(owner, sizes[owner])), sizes[owner]);
  }
  check_sum(4);
}

TEST_F(space_of_many, what_was_reserved_and_is_not_used_is_free_again) {
  make(8 * mib, 2 * mib);
  for (uint64_t owner = 0; owner < 3; owner++)
    all_->reserve(owner, 2 * mib);
  some(1, mib);
  all_->end_reservations();
  EXPECT_EQ(all_->usage_of(0).owned, 0u);
  EXPECT_EQ(all_->usage().owned, 2 * mib);
  check_sum(3);
}

TEST_F(space_of_many, there_is_room_where_no_more_segments_can_be_made) {
  make(8 * mib, 2 * mib, false, 6);
  std::vector<std::vector<piece>> held;
  for (uint64_t owner = 0; owner < 6; owner++)
    held.push_back(some(owner, 1));
  EXPECT_EQ(all_->allocate(6, 1).error(), status::no_space);
  EXPECT_EQ(size_of(some(2, mib)), mib) << "of what it has";
  all_->release(held[1]);
  EXPECT_EQ(some(6, 1).size(), 1u);
  check_sum(7);
}

TEST_F(space_of_many, memory_that_is_held_back_is_not_cut) {
  make(4 * mib, 4 * mib);
  bool touched = true;
  all_->on_drop([&](const std::byte *, size_t, uint64_t) { return !touched; });
  all_->release(some(1, mib));
  EXPECT_EQ(all_->allocate(2, 1).error(), status::no_space);
  EXPECT_EQ(all_->usage().held_back, 4 * mib);
  EXPECT_EQ(all_->usage().free(), 0u);
  touched = false;
  some(2, 1);
  EXPECT_EQ(all_->usage().held_back, 0u);
  check_sum(3);
}

// A pool in a file, which the test cuts.
class space_in_file : public testing::Test {
 protected:
  void SetUp() override {
    auto made = space::create({.capacity = 16 * mib, .segment_size = 2 * mib, .file = path_});
    ASSERT_TRUE(made.ok());
    all_ = std::move(made).value();
  }
  ~space_in_file() override {
    unlink(path_.c_str());
  }
  void cut(uint64_t size) {
    ASSERT_EQ(truncate(path_.c_str(), off_t(size)), 0);
    all_->look();
  }

  std::string const path_ = testing::TempDir() + "tanada_space_" + std::to_string(getpid());
  std::unique_ptr<space> all_;
};

TEST_F(space_in_file, what_was_cut_off_is_given_to_nobody) {
  auto early = all_->allocate(0, 3 * mib), late = all_->allocate(0, 13 * mib);
  ASSERT_TRUE(early.ok() && late.ok());
  std::memset(all_->addr(early.value()[0]), 'a', 2 * mib);
  EXPECT_FALSE(all_->is_lost(late.value(), 13 * mib));
  cut(5 * mib + 100);
  EXPECT_EQ(all_->capacity(), 5 * mib + 100);
  EXPECT_EQ(all_->loss_count(), 1u);
  EXPECT_FALSE(all_->is_lost(early.value(), 3 * mib));
  EXPECT_TRUE(all_->is_lost(late.value(), 13 * mib));
  EXPECT_FALSE(all_->is_lost(late.value(), 1 * mib)) << "its beginning is there still";
  EXPECT_EQ(all_->sync(early.value()), status::ok);
  EXPECT_EQ(all_->sync(late.value()), status::io);
  all_->release(late.value());
  EXPECT_EQ(all_->used(), 3 * mib);
  // What comes now lies before the cut, to the last byte.
  uint64_t got = 0;
  for (;;) {
    auto more = all_->allocate(0, 4096);
    if (!more.ok())
      break;
    EXPECT_FALSE(all_->is_lost(more.value(), 4096));
    std::memset(all_->addr(more.value()[0]), 'b', 4096);
    got += 4096;
  }
  EXPECT_EQ(got, 2 * mib);
  EXPECT_EQ(std::to_integer<char>(*all_->addr(early.value()[0])), 'a');
}

TEST_F(space_in_file, free_memory_that_was_cut_off_is_no_room) {
  ASSERT_TRUE(all_->allocate(0, 3 * mib).ok());  // one segment and a half
  cut(2 * mib + 1536 * 1024);
  auto rest = all_->allocate(1, 512 * 1024);  // of the same segment: nobody maps those of a file
  ASSERT_TRUE(rest.ok());
  EXPECT_FALSE(all_->is_lost(rest.value(), 512 * 1024));
  EXPECT_EQ(all_->allocate(0, 64).error(), status::no_space);
}

TEST_F(space_in_file, touching_what_is_gone_is_noticed_after_the_file_grew_again) {
  auto pieces = all_->allocate(0, 16 * mib);
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(truncate(path_.c_str(), 15 * mib), 0);
  for (const piece &one : pieces.value())
    std::memset(all_->addr(one), 'x', one.size);  // ends nobody
  ASSERT_EQ(truncate(path_.c_str(), 16 * mib), 0);
  all_->look();
  EXPECT_EQ(all_->capacity(), 15 * mib);
  EXPECT_TRUE(all_->is_lost(pieces.value(), 16 * mib));
  EXPECT_FALSE(all_->is_lost(pieces.value(), 15 * mib));
}

// Of an object of a megabyte, with old bytes in it.
TEST(written_ranges, gaps_are_cleared_as_far_as_the_budget_goes) {
  auto all = made();
  object target{*all, std::make_shared<owner_account>()};
  target.add(all->allocate(0, mib).value());
  target.about.size = mib;
  std::vector<iovec> parts;
  target.parts_of(0, mib, parts);
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
  for (uint64_t budget = 10'000; !written.clear_gaps(target, mib, budget); budget = 10'000, turns++)
    EXPECT_EQ(budget, 0u);
  EXPECT_EQ(std::string(bytes, mib), expected);
  EXPECT_GT(turns, 50u);
  EXPECT_EQ(written.count(), 1u);
}

}  // namespace
}  // namespace tanada::poold
