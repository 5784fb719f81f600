// bench/shmemg/by_file.hpp: how processes of a rival without a launcher find each other:
// BENCH_RANK, BENCH_COUNT, and BENCH_FILE, the name of a file to be created in a shared folder.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace by_file {

[[noreturn]] inline void fail(const char *what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

inline const char *word(const char *name) {
  const char *const text = std::getenv(name);
  if (text == nullptr)
    fail((std::string{name} + " is not set").c_str());
  return text;
}
inline int rank() {
  return std::atoi(word("BENCH_RANK"));
}
inline int count() {
  return std::atoi(word("BENCH_COUNT"));
}

/// Each process's device, by its rank.
inline void choose_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 ||
      cudaSetDevice(rank() % devices) != cudaSuccess)
    fail("no device");
}

/// Copies `id` of the first process to all others, which wait for it for up to a minute.
template <class Id>
void share(Id &id) {
  std::string const name = word("BENCH_FILE"), unfinished = name + ".unfinished";
  if (rank() == 0) {
    std::FILE *const file = std::fopen(unfinished.c_str(), "wb");
    if (file == nullptr || std::fwrite(&id, sizeof id, 1, file) != 1 || std::fclose(file) != 0)
      fail("the id cannot be written");
    if (std::rename(unfinished.c_str(), name.c_str()) != 0)
      fail("the id cannot be given its name");
    return;
  }
  std::FILE *file = nullptr;
  for (int i = 0; file == nullptr && i < 600; i++) {
    file = std::fopen(name.c_str(), "rb");
    if (file == nullptr)
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
  if (file == nullptr || std::fread(&id, sizeof id, 1, file) != 1)
    fail("the id does not come");
  std::fclose(file);
}

}  // namespace by_file
