#include "device_costs.hpp"

#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../common/report.hpp"

namespace bench {
namespace {

constexpr size_t size = size_t{512} << 20, part_size = size_t{32} << 20,
                 huge_page_size = size_t{2} << 20;
constexpr int collapse_advice = 25;  // MADV_COLLAPSE

void check(cudaError_t code, const char *call) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}

template <class Call>
double ms_per_gib(const Call &call) {
  double const start = now_s();
  call();
  return (now_s() - start) * 1e3 * (0x1p30 / double(size));
}

// Shared memory that was populated through another mapping than the measured one.
class memory {
 public:
  explicit memory(bool is_huge) : descriptor_{memfd_create("costs", MFD_CLOEXEC)} {
    if (descriptor_ < 0 || ftruncate(descriptor_, off_t(size)) != 0)
      throw std::runtime_error("memfd");
    owner_ = map();
    made_ms_ = ms_per_gib([&] {
      for (size_t at = 0; is_huge && at < size; at += huge_page_size)
        owner_[at] = 0;
      if (is_huge && madvise(owner_, size, collapse_advice) != 0)
        std::perror("  MADV_COLLAPSE");
      if (madvise(owner_, size, MADV_POPULATE_WRITE) != 0)
        throw std::runtime_error("no memory");
    });
  }
  ~memory() {
    munmap(owner_, size);
    close(descriptor_);
  }
  memory(const memory &) = delete;

  // At an address suitable for huge pages; the addresses around it stay reserved.
  char *map() const {
    void *const room = mmap(nullptr,
                            size + huge_page_size,
                            PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1,
                            0);
    uintptr_t const begin =
        (reinterpret_cast<uintptr_t>(room) + huge_page_size - 1) / huge_page_size * huge_page_size;
    void *const mapped = mmap(reinterpret_cast<void *>(begin),
                              size,
                              PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED,
                              descriptor_,
                              0);
    if (mapped == MAP_FAILED)
      throw std::runtime_error("mmap");
    return static_cast<char *>(mapped);
  }
  double made_ms() const {
    return made_ms_;
  }

 private:
  int const descriptor_;
  char *owner_ = nullptr;
  double made_ms_ = 0;
};

void register_parts(char *addr, size_t first, size_t step) {
  for (size_t at = first * part_size; at < size; at += step * part_size)
    check(cudaHostRegister(addr + at, part_size, cudaHostRegisterPortable | cudaHostRegisterMapped),
          "cudaHostRegister");
}

void unregister_parts(char *addr) {
  for (size_t at = 0; at < size; at += part_size)
    check(cudaHostUnregister(addr + at), "cudaHostUnregister");
}

void copy_parts(char *target, const char *source) {
  for (size_t at = 0; at < size; at += part_size)
    check(cudaMemcpy(target + at, source + at, part_size, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

// One thread copies a part after it is registered, while the other registers the next parts.
void register_and_copy(char *target, const char *source) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (size_t at = 0; at < size; at += part_size) {
    check(
        cudaHostRegister(target + at, part_size, cudaHostRegisterPortable | cudaHostRegisterMapped),
        "cudaHostRegister");
    check(cudaMemcpyAsync(target + at, source + at, part_size, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

double copied_by_threads(char *target, const char *source, unsigned thread_count) {
  return ms_per_gib([&] {
    std::vector<std::thread> threads;
    size_t const share = size / thread_count / huge_page_size * huge_page_size;
    for (unsigned i = 0; i < thread_count; i++)
      threads.emplace_back([=] { std::memcpy(target + i * share, source + i * share, share); });
    for (std::thread &each : threads)
      each.join();
  });
}

void print_costs(bool is_huge, char *device) {
  memory const shared{is_huge};
  const char *const kind = is_huge ? "huge pages" : "small pages";
  char *const first = shared.map(), *const second = shared.map(), *const third = shared.map();
  double const populated = ms_per_gib([&] { (void)madvise(first, size, MADV_POPULATE_READ); });
  double const registered = ms_per_gib([&] { register_parts(first, 0, 1); });
  double const copied = ms_per_gib([&] { copy_parts(first, device); });
  unregister_parts(first);
  (void)madvise(second, size, MADV_POPULATE_READ);
  double const by_two = ms_per_gib([&] {
    std::thread other{[&] {
      register_parts(second, 1, 2);
    }};
    register_parts(second, 0, 2);
    other.join();
  });
  unregister_parts(second);
  (void)madvise(third, size, MADV_POPULATE_READ);
  double const both = ms_per_gib([&] { register_and_copy(third, device); });
  unregister_parts(third);
  std::vector<char> source(size, 1);
  double const by_4 = copied_by_threads(third, source.data(), 4),
               by_12 = copied_by_threads(third, source.data(), 12);
  std::fprintf(stderr,
               "  %s, ms/GiB: made %.1f, mapped %.2f, registered %.1f, by two threads %.1f, copied "
               "%.1f, registered and"
               " copied %.1f, memcpy by 4 threads %.1f, by 12 %.1f\n",
               kind,
               shared.made_ms(),
               populated,
               registered,
               by_two,
               copied,
               both,
               by_4,
               by_12);
  for (char *const each : {first, second, third})
    munmap(each, size);
}

}  // namespace

void print_device_costs() {
  void *device = nullptr;
  check(cudaMalloc(&device, size), "cudaMalloc");
  print_costs(false, static_cast<char *>(device));
  print_costs(true, static_cast<char *>(device));
  check(cudaFree(device), "cudaFree");
}

}  // namespace bench
