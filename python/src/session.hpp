// session.hpp: one instance of gfile, owned by a Python object.
#pragma once

#include <nanobind/nanobind.h>
#include <tanada/gfile.h>

#include <cstdint>
#include <memory>

namespace tanada::python {

enum class ownership {
  own,      // tnd_gfile_create ... tnd_gfile_destroy
  process,  // ginitialize ... gfinalize
};

/// Threads of Python may call any of these at a time; each releases the GIL while it may block.
/// close() lets the calls that run come to an end first, so that none of them meets an instance
/// that is gone.
class session {
 public:
  session(const nanobind::dict &settings, ownership kind);
  ~session();
  session(const session &) = delete;
  session &operator=(const session &) = delete;

  void close();
  bool is_closed() const;
  // Limit of a call in nanoseconds; TND_NO_DEADLINE: none. Ctrl-C ends the waiting, not the
  // kernels.
  void wait(uint64_t timeout_ns);
  nanobind::tuple ref() const;
  nanobind::dict statistics() const;
  nanobind::list files() const;
  nanobind::dict fault() const;

 private:
  struct shared;
  class use;
  std::shared_ptr<shared> shared_;
};

}  // namespace tanada::python
