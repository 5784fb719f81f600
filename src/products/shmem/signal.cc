// Signals without data, and error reports for invalid signal operations.
#include "products/shmem/access.hpp"
#include "products/shmem/wait.hpp"

namespace tanada::shmem {

void no_such_signal_op(int op, const char *call) noexcept {
  fatal(call, "sig_op {} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD", op);
}

void fatal_signal(status code,
                  program_context &context,
                  const failed_operation &operation,
                  const signal_change &signal) noexcept {
  onesided::pe_index const pe = context.job_pe(operation.pe);
  auto const &map = running()->job->map();
  bool const is_signal = code == status::fault ||
                         (code == status::range && map.is_pe(pe) &&
                          (operation.size == 0 ||
                           map.locate(operation.addr, operation.size, pe).segment_ptr != nullptr));
  if (is_signal)
    fatal(code, {operation.call, signal.address, sizeof *signal.address, operation.pe});
  fatal(code, operation);
}

}  // namespace tanada::shmem

using namespace tanada::shmem;
using tanada::seams::fabric_atomic;

SHMEM_DEFINE_BOTH(
    void,
    shmem_signal_set,
    shmem_ctx_signal_set,
    (uint64_t *sig_addr, uint64_t signal, int pe),
    update_atomic<uint64_t>(context, call, sig_addr, {fabric_atomic::swap, signal}, pe))
SHMEM_DEFINE_BOTH(
    void,
    shmem_signal_add,
    shmem_ctx_signal_add,
    (uint64_t *sig_addr, uint64_t signal, int pe),
    update_atomic<uint64_t>(context, call, sig_addr, {fabric_atomic::add, signal}, pe))

SHMEM_DEFINE(uint64_t, shmem_signal_fetch, (const uint64_t *sig_addr), {
  auto const &current = require_running(call);
  current.job->progress();
  if (is_device_memory(current, sig_addr)) [[unlikely]]
    return device_value_now(call, sig_addr);
  return __atomic_load_n(sig_addr, __ATOMIC_ACQUIRE);
})
