// examples/common/outcome.hpp: reports failed calls of a kernel to its host, and manages the
// process's gfile instance.
#pragma once

#include <stdexcept>
#include <string>

#include "device_memory.hpp"

namespace examples {

/// In kernels: returns true if `code` is ok. Otherwise `code` becomes the kernel's outcome, unless
/// it already has an earlier error.
TND_DEVICE inline bool succeeded(tanada::status code, int *outcome) {
  if (code == tanada::status::ok)
    return true;
  int expected = 0;
  (void)tanada::simt::device_atomic<int>(*outcome).compare_exchange_acq_rel(expected, int(code));
  return false;
}

/// As above for a transfer, which must also be complete: a short one becomes io.
TND_DEVICE inline bool succeeded(tanada::gio_result result, tanada::u64 size, int *outcome) {
  bool const cut = result.status == tanada::status::ok && result.size != size;
  return succeeded(cut ? tanada::status::io : result.status, outcome);
}

inline const char *site_name(tanada::u32 site) {
  static const char *const names[] = {"",
                                      "gopen",
                                      "gread",
                                      "gwrite",
                                      "gclose",
                                      "gfstat",
                                      "gunlink",
                                      "gftruncate",
                                      "gfsync",
                                      "gprefetch",
                                      "gmap"};
  return site < sizeof names / sizeof names[0] ? names[site] : "";
}

[[noreturn]] inline void throw_status(const std::string &what, tnd_status code) {
  std::string text =
      "cannot " + what + ": " + tnd_status_name(code) + " (" + tnd_status_text(code) + ")";
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  tnd_gfile *const gfile = tnd_gfile_default();
  if (gfile != nullptr && tnd_gfile_get_fault(gfile, &fault) == TND_OK && fault.status == code)
    text += std::string(" from ") + site_name(fault.site);
  throw std::runtime_error(text);
}

/// ghandle also reports a write that failed in the background, so state the operation. Throws.
inline void await_kernels(const std::string &what = "run the kernels") {
  tnd_status const code = ghandle();
  if (code != TND_OK)
    throw_status(what, code);
}

/// The host side of `outcome`. Pass code() to every kernel that can fail. await() waits for it and
/// throws its error.
class kernel_outcome {
 public:
  int *code() const noexcept {
    return code_.data();
  }
  void await(const std::string &what) {
    tnd_status const waited = ghandle();
    int const code = code_.to_host()[0];
    if (code != TND_OK) {
      code_.clear();
      throw_status(what, code);
    }
    if (waited != TND_OK)
      throw_status(what, waited);
  }

 private:
  device_array<int> code_{1};
};

/// ginitialize and gfinalize as a scope. finish() reports errors of outstanding writes. Without it,
/// errors during the exit of a failing program are ignored, since the first error is already being
/// reported.
class gfile_session {
 public:
  /// `device_index`: among the GPUs.
  explicit gfile_session(tanada::u32 device_index = 0) {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.device = gfile_device;
    config.device_index = device_index;
    tnd_status const code = ginitialize(&config);
    if (code != TND_OK)
      throw std::runtime_error(std::string("cannot start gfile: ") + tnd_status_name(code) + ", " +
                               tnd_last_message());
    is_open_ = true;
  }
  gfile_session(const gfile_session &) = delete;
  gfile_session &operator=(const gfile_session &) = delete;
  ~gfile_session() {
    if (is_open_)
      (void)!gfinalize();
  }

  tnd_gfile_statistics statistics() const {
    tnd_gfile_statistics now = TND_GFILE_STATISTICS_INIT;
    tnd_status const code = tnd_gfile_get_statistics(tnd_gfile_default(), &now);
    if (code != TND_OK)
      throw_status("read the statistics", code);
    return now;
  }
  void finish() {
    is_open_ = false;
    tnd_status const code = gfinalize();
    if (code != TND_OK)
      throw_status("finish writing", code);
  }

 private:
  bool is_open_ = false;
};

/// A URL that is passed to kernels by value.
struct device_url {
  char text[tanada::gfile_url_size_max + 1] = {};

  device_url() = default;
  explicit device_url(const std::string &url) {
    if (url.size() >= sizeof text)
      throw std::runtime_error("URL of more than 1023 bytes: " + url);
    url.copy(text, url.size());
  }
};

/// Joins prefix and name with one slash.
inline std::string join_url(const std::string &prefix, const std::string &name) {
  return !prefix.empty() && prefix.back() == '/' ? prefix + name : prefix + "/" + name;
}

}  // namespace examples
