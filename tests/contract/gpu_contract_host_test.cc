// The gpu contract on the host executor.
#include "contract/gpu_contract.hpp"

namespace tanada::port {
namespace {

struct host_subject {
  static constexpr bool is_cuda = false;
  static result<std::unique_ptr<gpu>> open() { return host_gpu_open(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(host_executor, gpu_contract, host_subject);

}  // namespace
}  // namespace tanada::port
