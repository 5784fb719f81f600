#include "seams/os/bulk_copy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tanada::backends {
namespace {

void copies_just_the_bytes_at_any_alignment(void copy(void *target,
                                                      const void *source,
                                                      size_t size)) {
  std::vector<unsigned char> source(100'000);
  for (size_t i = 0; i < source.size(); i++)
    source[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
  for (size_t const size : {0,
                            1,
                            63,
                            64,
                            4095,
                            4096,
                            4159,
                            4160,
                            16383,
                            16384,
                            16385,
                            16447,
                            16448,
                            65535,
                            65536,
                            70001}) {
    for (size_t const shift : {0, 1, 15, 16, 63}) {
      std::vector<unsigned char> target(size + 200, 0xEE);
      copy(target.data() + 100 + shift, source.data() + 64 - shift, size);
      for (size_t i = 0; i < target.size(); i++) {
        bool const is_inside = i >= 100 + shift && i < 100 + shift + size;
        unsigned char const wanted = is_inside ? source[64 - shift + i - 100 - shift] : 0xEE;
        ASSERT_EQ(target[i], wanted) << "byte " << i << " of " << size << " at " << shift;
      }
    }
  }
}

TEST(bulk_copy, past_caches_go_just_the_bytes_at_any_alignment) {
  copies_just_the_bytes_at_any_alignment(seams::copy_past_caches);
}
TEST(bulk_copy, to_another_go_just_the_bytes_at_any_alignment) {
  copies_just_the_bytes_at_any_alignment(seams::copy_to_other_processor);
}

}  // namespace
}  // namespace tanada::backends
