// backends/libfabric/libfabric_status.hpp: libfabric's error numbers as statuses.
#pragma once

#include <tanada/device/detail/base/status.hpp>

namespace tanada::port {

// `error` as fi_cq_err_entry::err or a negated return value: positive.
status libfabric_status(int error) noexcept;

// The same for a completion, whose `provider_error` says more with verbs (an ibv_wc_status).
status libfabric_completion_status(int error, int provider_error, bool verbs) noexcept;

}  // namespace tanada::port
