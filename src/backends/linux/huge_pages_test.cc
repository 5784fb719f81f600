#include "seams/os/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tanada::backends {
namespace {

constexpr size_t size = 4 * seams::huge_page_size;

class file {
 public:
  file() : descriptor_{memfd_create("huge_pages", MFD_CLOEXEC)} {
    EXPECT_EQ(ftruncate(descriptor_, size), 0);
  }
  ~file() {
    close(descriptor_);
  }
  file(const file &) = delete;
  file &operator=(const file &) = delete;
  std::byte *map(size_t offset, size_t part_size) const {
    return static_cast<std::byte *>(
        seams::map_file_part({descriptor_, offset, part_size}, PROT_READ | PROT_WRITE));
  }
  int descriptor() const {
    return descriptor_;
  }

 private:
  int const descriptor_;
};

// Bytes that are mapped as huge pages in the mapping that holds `addr`.
size_t huge_size_at(const void *addr) {
  std::ifstream maps{"/proc/self/smaps"};
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) {
      auto const sought = reinterpret_cast<uintptr_t>(addr);
      is_inside = begin <= sought && sought < end;
    } else if (is_inside && std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1) {
      return size_t{kib} << 10;
    }
  }
  return 0;
}

// Whether the kernel creates huge pages, without the functions under test.
bool kernel_makes_huge_pages() {
  constexpr int collapse_advice = 25;  // MADV_COLLAPSE
  file const probe;
  void *const reservation = mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto const begin = (reinterpret_cast<uintptr_t>(reservation) + size - 1) / size * size;
  void *const memory = mmap(reinterpret_cast<void *>(begin),
                            size,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED,
                            probe.descriptor(),
                            0);
  std::memset(memory, 1, size);
  bool const is_huge = madvise(memory, size, collapse_advice) == 0;
  munmap(reservation, 2 * size);
  return is_huge;
}

TEST(huge_pages, a_part_of_a_file_is_mapped_where_its_huge_pages_can_be) {
  file const shared;
  for (size_t const offset :
       {size_t{0}, size_t{4096}, seams::huge_page_size, seams::huge_page_size + 8192}) {
    std::byte *const memory = shared.map(offset, size - offset);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % seams::huge_page_size,
              offset % seams::huge_page_size);
    std::memset(memory, 1, size - offset);
    munmap(memory, size - offset);
  }
}

// A failed mapping must not unmap what other threads map meanwhile, such as the stacks of new
// threads.
TEST(huge_pages, a_mapping_that_fails_unmaps_nothing_of_others) {
  constexpr int thread_count = 3, round_count = 60;
  int const descriptor = memfd_create("huge_pages", MFD_CLOEXEC | MFD_HUGETLB);
  // More huge pages than anyone sets aside.
  size_t const file_size = size_t{1} << 40;
  if (descriptor < 0 || ftruncate(descriptor, off_t(file_size)) != 0) {
    GTEST_SKIP() << "the kernel has no file system of huge pages";
  }
  std::atomic<int> mapped_count{0};
  std::atomic<bool> has_ended{false};
  auto const map_until_end = [&] {
    while (!has_ended) {
      seams::file_part const part{descriptor, 0, file_size};
      if (seams::map_file_part(part, PROT_READ | PROT_WRITE) != nullptr)
        mapped_count++;
    }
  };
  std::vector<std::thread> mappers;
  for (int i = 0; i < thread_count; i++)
    mappers.emplace_back(map_until_end);
  for (int i = 0; i < round_count; i++) {
    std::byte *const memory = static_cast<std::byte *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, 1, size);
    ASSERT_EQ(munmap(memory, size), 0);
  }
  has_ended = true;
  for (std::thread &mapper : mappers)
    mapper.join();
  close(descriptor);
  EXPECT_EQ(mapped_count, 0);
}

TEST(huge_pages, the_same_bytes_are_in_the_file_wherever_it_is_mapped) {
  file const shared;
  std::byte *const whole = shared.map(0, size), *const part =
                                                    shared.map(4096, seams::huge_page_size);
  std::memset(part, 7, seams::huge_page_size);
  EXPECT_EQ(whole[4095], std::byte{0});
  EXPECT_EQ(whole[4096], std::byte{7});
  EXPECT_EQ(whole[4096 + seams::huge_page_size - 1], std::byte{7});
  EXPECT_EQ(whole[4096 + seams::huge_page_size], std::byte{0});
  munmap(whole, size);
  munmap(part, seams::huge_page_size);
}

TEST(huge_pages, what_memory_holds_stays_when_its_pages_become_huge) {
  if (!kernel_makes_huge_pages())
    GTEST_SKIP() << "this kernel makes no huge pages of files";
  file const shared;
  std::byte *const memory = shared.map(0, size);
  memory[5] = std::byte{1};
  std::memset(memory + seams::huge_page_size, 2, seams::huge_page_size);
  ASSERT_TRUE(seams::make_huge_pages(memory, size));
  EXPECT_EQ(memory[5], std::byte{1});
  EXPECT_EQ(memory[6], std::byte{0});
  for (size_t offset = 0; offset < seams::huge_page_size; offset++)
    ASSERT_EQ(memory[seams::huge_page_size + offset], std::byte{2}) << offset;
  for (size_t offset = 2 * seams::huge_page_size; offset < size; offset++)
    ASSERT_EQ(memory[offset], std::byte{0}) << offset;
  munmap(memory, size);
}

// The alignment exists for this case.
TEST(huge_pages, another_mapping_has_huge_pages_too) {
  if (!kernel_makes_huge_pages())
    GTEST_SKIP() << "this kernel makes no huge pages of files";
  file const shared;
  std::byte *const first = shared.map(0, size);
  ASSERT_TRUE(seams::make_huge_pages(first, size));
  std::byte *const second = shared.map(seams::huge_page_size, size - seams::huge_page_size);
  for (size_t offset = 0; offset < size - seams::huge_page_size; offset += seams::huge_page_size) {
    seams::populate_file_part(second + offset, seams::huge_page_size, true);
  }
  EXPECT_EQ(huge_size_at(second), size - seams::huge_page_size);
  munmap(first, size);
  munmap(second, size - seams::huge_page_size);
}

TEST(huge_pages, pages_that_nobody_has_brought_in_come_as_huge_ones) {
  if (!kernel_makes_huge_pages())
    GTEST_SKIP() << "this kernel makes no huge pages of files";
  file const shared;
  std::byte *const memory = shared.map(0, size);
  seams::populate_file_part(memory, seams::huge_page_size, true);
  EXPECT_EQ(huge_size_at(memory), seams::huge_page_size);
  // Pages in use stay as they are: copying them would cost more than it saves.
  memory[seams::huge_page_size] = std::byte{1};
  seams::populate_file_part(memory + seams::huge_page_size, seams::huge_page_size, true);
  EXPECT_EQ(huge_size_at(memory), seams::huge_page_size);
  munmap(memory, size);
}

// As on a kernel without this call: the caller continues with small pages.
TEST(huge_pages, memory_that_cannot_have_huge_pages_is_refused) {
  file const shared;
  std::byte *const memory = shared.map(0, size);
  ASSERT_EQ(munmap(memory + seams::huge_page_size, seams::huge_page_size), 0);
  EXPECT_FALSE(seams::make_huge_pages(memory, size));
  seams::populate_file_part(memory + seams::huge_page_size, seams::huge_page_size, true);
  memory[0] = std::byte{1};
  munmap(memory, seams::huge_page_size);
  munmap(memory + 2 * seams::huge_page_size, size - 2 * seams::huge_page_size);
}

}  // namespace
}  // namespace tanada::backends
