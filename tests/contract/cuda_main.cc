// main() of tests that run only on CUDA. Without a GPU it exits with 77, which ctest reports as
// skipped.
#include <gtest/gtest.h>

#include <cstdio>

#include "seams/gpu/gpu.hpp"

int main(int argument_count, char **arguments) {
  testing::InitGoogleTest(&argument_count, arguments);
  auto const reason = tanada::seams::cuda_unavailable_reason();
  if (!reason.empty()) {
    std::printf("not run on CUDA: %s\n", reason.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
