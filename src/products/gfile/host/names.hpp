// products/gfile/host/names.hpp: names of requests and operations in traces.
#pragma once

#include "products/gfile/host/core.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

inline constexpr const char *request_names[] = {"none",
                                                "open",
                                                "close",
                                                "read",
                                                "write",
                                                "prefetch",
                                                "sync",
                                                "truncate",
                                                "unlink",
                                                "view",
                                                "read list"};
static_assert(std::size(request_names) == size_t(op::read_list) + 1);

inline constexpr const char *operation_names[] = {"load a plugin",
                                                  "store open",
                                                  "store stat",
                                                  "store close",
                                                  "store read",
                                                  "store fill",
                                                  "store write",
                                                  "store sync",
                                                  "store truncate",
                                                  "store unlink",
                                                  "store read list",
                                                  "store closes"};
static_assert(std::size(operation_names) == size_t(operation::kind::close_batch) + 1);

inline const char *name_of(operation::kind type) {
  return operation_names[size_t(type)];
}

}  // namespace tanada::gfile
