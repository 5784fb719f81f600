// backends/sockets/joint_descriptor.hpp: a descriptor that is readable while one of several is, or
// while it is raised.
#pragma once

#include <memory>

#include "core/base/result.hpp"

namespace tanada::backends {

// Thread-safe.
class joint_descriptor {
 public:
  // too_many_files: out of descriptors.
  static result<std::unique_ptr<joint_descriptor>> create();
  virtual ~joint_descriptor() = default;

  virtual int descriptor() const noexcept = 0;

  // `member` must stay open until it is removed. Negative values are ignored.
  virtual void add(int member) noexcept = 0;
  virtual void remove(int member) noexcept = 0;

  virtual void raise() noexcept = 0;
  virtual void lower() noexcept = 0;
};

}  // namespace tanada::backends
