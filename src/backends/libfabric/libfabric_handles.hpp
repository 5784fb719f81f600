// backends/libfabric/libfabric_handles.hpp: owning handles of libfabric's objects.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>

namespace tanada::backends {

struct libfabric_closer {
  void operator()(fi_info *info) const noexcept {
    fi_freeinfo(info);
  }
  template <class Object>
  void operator()(Object *object) const noexcept {
    (void)fi_close(&object->fid);
  }
};

template <class Object>
using libfabric_handle = std::unique_ptr<Object, libfabric_closer>;

}  // namespace tanada::backends
