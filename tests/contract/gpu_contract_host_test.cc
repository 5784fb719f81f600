// The gpu contract on the host executor.
#include "contract/gpu_contract.hpp"
#include "contract/gpu_contract_queue.hpp"
#include "contract/gpu_contract_shared.hpp"

namespace tanada::contract {
namespace {

struct host_subject {
  static constexpr bool is_cuda = false;
  static result<std::unique_ptr<seams::gpu>> open() {
    return seams::host_gpu_open();
  }
  static std::unique_ptr<seams::gpu> open_peer() {
    return nullptr;
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(host_executor, gpu_contract, host_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(host_executor, gpu_shared_contract, host_subject);
INSTANTIATE_TYPED_TEST_SUITE_P(host_executor, gpu_queue_contract, host_subject);

}  // namespace
}  // namespace tanada::contract
