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

/// Any Python thread may call these functions, also concurrently. Each releases the GIL while it
/// may block. close() first waits for running calls, so that none uses a destroyed instance.
class session {
 public:
  session(const nanobind::dict &settings, ownership kind);
  ~session();
  session(const session &) = delete;
  session &operator=(const session &) = delete;

  void close();
  bool is_closed() const;
  // Time limit of a call in nanoseconds; TND_NO_DEADLINE: no limit. Ctrl-C ends the wait, not the
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
