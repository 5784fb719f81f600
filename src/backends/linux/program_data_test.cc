#include "seams/os/program_data.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "seams/os/shared_memory.hpp"

namespace tanada::backends {
namespace {

int initialized = 17, zeroed;
std::byte large[size_t{64} << 20];  // most of it is never written
const int constant = 5;

// The process's private memory in KiB.
long private_memory() {
  std::ifstream file{"/proc/self/status"};
  for (std::string word; file >> word;) {
    if (long size = 0; word == "RssAnon:" && file >> size)
      return size;
  }
  return -1;
}

bool holds(std::span<std::byte> memory, const void *address) {
  auto const *const position = static_cast<const std::byte *>(address);
  return position >= memory.data() && position < memory.data() + memory.size();
}

TEST(program_data, holds_variables_of_the_program_alone) {
  auto const data = seams::program_data();
  EXPECT_TRUE(holds(data, &initialized));
  EXPECT_TRUE(holds(data, &zeroed));
  EXPECT_FALSE(holds(data, &constant));
  int local = 0;
  EXPECT_FALSE(holds(data, &local));
  EXPECT_EQ(data.size() % seams::page_size(), 0u);
}

// Runs in a child process, since a program's data stay shared.
TEST(program_data, is_seen_by_who_maps_it_and_not_by_children) {
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    long const initial_size = private_memory();  // other tests of this process have left some
    auto const data = seams::program_data();
    auto memory = seams::shared_memory::create("test", seams::page_size() + data.size());
    if (!memory.ok() ||
        seams::program_data_share(memory.value().descriptor(), seams::page_size()) != status::ok)
      _exit(1);
    auto mapped =
        seams::shared_mapping::map(memory.value().descriptor(), seams::page_size() + data.size());
    if (!mapped.ok())
      _exit(2);
    auto *const mapped_value = reinterpret_cast<volatile int *>(
        mapped.value().memory().data() + seams::page_size() +
        (reinterpret_cast<std::byte *>(&initialized) - data.data()));
    if (*mapped_value != 17)
      _exit(3);
    initialized = 18;
    large[sizeof large / 2] = std::byte{7};
    if (*mapped_value != 18)
      _exit(4);
    *mapped_value = 19;
    if (*static_cast<volatile int *>(&initialized) != 19)
      _exit(5);
    pid_t const grandchild = fork();
    if (grandchild == 0) {
      bool const copied = *static_cast<volatile int *>(&initialized) == 19 &&
                          large[sizeof large / 2] == std::byte{7} &&
                          large[sizeof large / 2 + 1] == std::byte{0};
      if (long const size = private_memory();
          size < 0 || size - initial_size > long(sizeof large >> 11))
        _exit(2);
      initialized = 20;
      _exit(copied ? 0 : 1);
    }
    int code = 0;
    waitpid(grandchild, &code, 0);
    _exit(code == 0 && *mapped_value == 19 ? 0 : 6);
  }
  int code = 0;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0) << "exit status " << WEXITSTATUS(code);
}

TEST(shared_memory, is_refused_when_it_is_shorter_than_promised) {
  auto memory = seams::shared_memory::create("test", seams::page_size());
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(seams::shared_mapping::map(memory.value().descriptor(), 2 * seams::page_size()).error(),
            status::invalid);
  EXPECT_NE(ftruncate(memory.value().descriptor(), 0), 0) << "nobody can take away what is mapped";
  int const unsealed = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, off_t(seams::page_size())), 0);
  EXPECT_EQ(seams::shared_mapping::map(unsealed, seams::page_size()).error(), status::invalid);
  close(unsealed);
}

TEST(shared_memory, lies_where_it_is_told_to_if_nothing_else_does) {
  size_t const size = seams::shared_mapping::alignment;
  auto memory = seams::shared_memory::create("test", size);
  ASSERT_TRUE(memory.ok());
  auto const free_address = [&] {
    return seams::shared_mapping::map(memory.value().descriptor(), size).value().memory().data();
  }();
  EXPECT_TRUE(seams::is_unmapped(free_address, size));
  auto mapping = seams::shared_mapping::map(memory.value().descriptor(), size, free_address);
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mapping.value().memory().data(), free_address);
  free_address[0] = std::byte{1};
  EXPECT_FALSE(seams::is_unmapped(free_address, size));
  EXPECT_EQ(seams::shared_mapping::map(memory.value().descriptor(), size, free_address).error(),
            status::exists);
  EXPECT_EQ(free_address[0], std::byte{1});
}

}  // namespace
}  // namespace tanada::backends
