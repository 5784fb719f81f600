// backends/libfabric/libfabric_status.hpp: libfabric's error numbers as statuses.
#pragma once

#include <tanada/device/detail/base/status.hpp>

namespace tanada::backends {

// `error` is positive: fi_cq_err_entry::err or a negated return value.
status libfabric_status(int error) noexcept;

// The same for a completion. With verbs, `provider_error` (an ibv_wc_status) is more specific.
status libfabric_completion_status(int error, int provider_error, bool verbs) noexcept;

}  // namespace tanada::backends
