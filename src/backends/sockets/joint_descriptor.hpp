// backends/sockets/joint_descriptor.hpp: one descriptor that is readable while one of several is,
// or while it is raised.
#pragma once

#include <memory>

#include "core/base/result.hpp"

namespace tanada::port {

// Thread-safe.
class joint_descriptor {
 public:
  // too_many_files.
  static result<std::unique_ptr<joint_descriptor>> create();
  virtual ~joint_descriptor() = default;

  virtual int descriptor() const noexcept = 0;

  // `other` stays open until it is removed. Below 0 it is none.
  virtual void add(int other) noexcept = 0;
  virtual void remove(int other) noexcept = 0;

  virtual void raise() noexcept = 0;
  virtual void lower() noexcept = 0;
};

}  // namespace tanada::port
