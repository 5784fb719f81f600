#include "shmem/device_side.hpp"

namespace tanada::shmem {

result<port::gpu_choice> device_choice() { return port::gpu_choice::automatic; }
size_t device_control_size(pgas::pe_index) noexcept { return 0; }
status device_start(runtime &) { return status::ok; }
void device_stop(runtime &) noexcept {}
status device_team_add(runtime &, size_t, const device_members &) { return status::ok; }
status device_team_remove(runtime &, size_t) { return status::ok; }
result<shmem_ctx_t> device_context_add(runtime &, const device_members &) { return status::not_supported; }
status device_context_remove(runtime &, shmem_ctx_t) { return status::ok; }
void device_check(runtime &, const char *) {}

}  // namespace tanada::shmem
