// The gpu contract on CUDA.
#include <thread>

#include "contract/gpu_contract.hpp"
#include "contract/gpu_contract_queue.hpp"
#include "contract/gpu_contract_shared.hpp"

namespace tanada::contract {
namespace {

struct cuda_subject {
  static constexpr bool is_cuda = true;
  static result<std::unique_ptr<seams::gpu>> open() {
    return seams::gpu_open(seams::gpu_choice::cuda, 0);
  }
  static std::unique_ptr<seams::gpu> open_peer() {
    auto opened = seams::gpu_open(seams::gpu_choice::cuda, 1);
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(cuda, gpu_contract, cuda_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(cuda, gpu_shared_contract, cuda_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(cuda, gpu_queue_contract, cuda_subject);

// A thread that gets another device than it had makes a context there, which takes a second.
TEST(gpu_cuda_threads, have_back_that_nothing_was_current) {
  auto opened = cuda_subject::open();
  ASSERT_TRUE(opened.ok()) << last_message();
  seams::gpu &device = *opened.value();
  auto memory = device.allocate_device(4096);
  ASSERT_TRUE(memory.ok()) << last_message();
  std::thread{[&] {
    EXPECT_EQ(seams::gpu_current(), -1);
    EXPECT_EQ(device.fill_device(memory.value(), 1, 4096), status::ok) << last_message();
    EXPECT_EQ(seams::gpu_current(), -1);
  }}.join();
  device.free_device(memory.value());
}

// Last: nothing works on the device afterwards.
TEST(gpu_cuda_fault, of_a_kernel_is_device_lost_with_the_drivers_words) {
  auto opened = cuda_subject::open();
  ASSERT_TRUE(opened.ok()) << last_message();
  seams::gpu &device = *opened.value();
  launch_fault();
  EXPECT_EQ(
      device.synchronize(seams::deadline_after(seams::monotonic_clock().now_ns(), 20000000000)),
      status::device_lost);
  EXPECT_NE(last_message().find("illegal"), std::string::npos) << last_message();
  EXPECT_EQ(device.synchronize(TND_NO_DEADLINE), status::device_lost);
}

}  // namespace
}  // namespace tanada::contract
