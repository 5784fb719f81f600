// examples/vector_add/vector_add.cu: c = a + b over three files of any store, figure 4 of the
// paper. No host code touches the numbers.
// Usage: vector_add [FOLDER], a path or a URL; without it, /tmp.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "../common/device_memory.hpp"  // for main(): print_device(), device_array

using namespace tanada;

constexpr u32 number_count = 1024;
using numbers = float[number_count];

// A URL that is passed to kernels by value.
struct url {
  char text[gfile_url_size_max + 1];
};

// The kernels ignore some statuses: the instance keeps the first call that fails, and the host
// gets it from tnd_gfile_get_fault().

// Creates or replaces a file, with the numbers i * factor.
TND_KERNEL void write_numbers(url path, float factor) {
  TND_SHARED(numbers, values);
  this_block const block;
  for (u32 i = block.rank(); i < number_count; i += block.size())
    values[i] = float(i) * factor;
  block.sync();

  int file = -1;
  if (gopen(block, path.text, g_wronly | g_creat | g_trunc, &file) != status::ok)
    return;
  (void)gwrite(block, file, values, 0, sizeof values);
  (void)gclose(block, file);
}

// c = a + b. One block reads two files, adds them, and writes a third.
TND_KERNEL void add_files(url path_a, url path_b, url path_c) {
  TND_SHARED(numbers, a);
  TND_SHARED(numbers, b);
  this_block const block;

  int file_a = -1;
  if (gopen(block, path_a.text, g_rdonly, &file_a) != status::ok)
    return;
  gio_result const read_a = gread(block, file_a, a, 0, sizeof a);
  (void)gclose(block, file_a);
  if (read_a.status != status::ok || read_a.size != sizeof a)
    return;

  int file_b = -1;
  if (gopen(block, path_b.text, g_rdonly, &file_b) != status::ok)
    return;
  gio_result const read_b = gread(block, file_b, b, 0, sizeof b);
  (void)gclose(block, file_b);
  if (read_b.status != status::ok || read_b.size != sizeof b)
    return;

  for (u32 i = block.rank(); i < number_count; i += block.size())
    a[i] += b[i];
  block.sync();

  int file_c = -1;
  if (gopen(block, path_c.text, g_wronly | g_creat | g_trunc, &file_c) != status::ok)
    return;
  (void)gwrite(block, file_c, a, 0, sizeof a);
  (void)gclose(block, file_c);  // publishes the file, and returns errors of its writes
}

// Counts the numbers of a file that are i * factor.
TND_KERNEL void count_right_numbers(url path, float factor, u32 *right_count) {
  TND_SHARED(numbers, values);
  this_block const block;

  int file = -1;
  if (gopen(block, path.text, g_rdonly, &file) != status::ok)
    return;
  gio_result const read = gread(block, file, values, 0, sizeof values);
  (void)gclose(block, file);
  if (read.status != status::ok || read.size != sizeof values || block.rank() != 0)
    return;

  u32 count = 0;
  for (u32 i = 0; i < number_count; i++) {
    if (values[i] == float(i) * factor)
      count++;
  }
  *right_count = count;
}

// Waits for the kernels. If one failed, or a call in one, prints the reason and returns false.
static bool wait_for_kernels() {
  tnd_status code = ghandle();
  if (code != TND_OK) {
    std::fprintf(stderr, "vector_add: %s: %s\n", tnd_status_name(code), tnd_last_message());
    return false;
  }
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  code = tnd_gfile_get_fault(tnd_gfile_default(), &fault);
  if (code == TND_OK)
    code = fault.status;
  if (code == TND_OK)
    return true;
  std::fprintf(stderr, "vector_add: %s: %s\n", fault.url, tnd_status_name(code));
  return false;
}

static int add(const url &a, const url &b, const url &c) {
  simt::launch({1}, {64}, write_numbers, a, 1.0f);  // 1 block of 64 threads
  simt::launch({1}, {64}, write_numbers, b, 0.5f);
  simt::launch({1}, {64}, add_files, a, b, c);
  if (!wait_for_kernels())
    return 1;

  examples::device_array<u32> right_count(1);
  simt::launch({1}, {64}, count_right_numbers, c, 1.5f, right_count.data());
  if (!wait_for_kernels())
    return 1;
  bool const is_right = right_count.to_host()[0] == number_count;
  std::puts(is_right ? "c = a + b" : "wrong sum");
  return is_right ? 0 : 1;
}

int main(int count, char **words) try {
  std::string const folder = count > 1 ? words[1] : "/tmp";
  url a{};
  url b{};
  url c{};
  if (folder.size() + std::strlen("/a.f32") > gfile_url_size_max) {
    std::fprintf(stderr, "vector_add: the URL is longer than %u bytes\n", gfile_url_size_max);
    return 1;
  }
  std::strcpy(a.text, (folder + "/a.f32").c_str());
  std::strcpy(b.text, (folder + "/b.f32").c_str());
  std::strcpy(c.text, (folder + "/c.f32").c_str());

  tnd_status code = ginitialize(nullptr);
  if (code != TND_OK) {
    std::fprintf(stderr, "vector_add: %s: %s\n", tnd_status_name(code), tnd_last_message());
    return 1;
  }
  examples::print_device();
  int const result = add(a, b, c);
  code = gfinalize();
  if (code == TND_OK)
    return result;
  std::fprintf(stderr, "vector_add: %s: %s\n", tnd_status_name(code), tnd_last_message());
  return 1;
} catch (const std::exception &error) {  // of device_array
  std::fprintf(stderr, "vector_add: %s\n", error.what());
  return 1;
}
