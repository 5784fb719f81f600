// backends/libfabric/libfabric_setup.cc: the environment that libfabric reads when it is
// initialized.
#include "backends/libfabric/libfabric_setup.hpp"

#include <rdma/fabric.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "seams/os/plugin_paths.hpp"

namespace tanada::backends {
namespace {

constexpr const char *o2g_provider = "o2g", *o2g_file = "libo2g-fi.so";

// Sets an environment variable of this process until the end of the scope.
class scoped_variable {
 public:
  explicit scoped_variable(const char *name) : name_{name} {
    if (const char *const value = std::getenv(name); value != nullptr)
      previous_ = value;
  }
  ~scoped_variable() {
    if (!is_changed_)
      return;
    if (previous_)
      setenv(name_, previous_->c_str(), 1);
    else
      unsetenv(name_);
  }
  const std::optional<std::string> &previous() const {
    return previous_;
  }
  void set(const std::string &value) {
    is_changed_ = true;
    setenv(name_, value.c_str(), 1);
  }

 private:
  const char *name_;
  std::optional<std::string> previous_;
  bool is_changed_ = false;
};

// The folder of o2g's provider library; empty if the library does not exist.
std::string o2g_folder() {
  for (const auto &path : seams::plugin_paths(o2g_file)) {
    size_t const slash = path.rfind('/');
    if (slash != std::string::npos && access(path.c_str(), R_OK) == 0)
      return path.substr(0, slash);
  }
  return {};
}

void start(const libfabric_needs &needs) {
  // Removing an address must close its connection, and closing a registration must revoke its
  // access. libfabric's own cache would keep the registration valid for every peer that has the
  // key.
  setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
  setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
  scoped_variable path{"FI_PROVIDER_PATH"}, provider_list{"FI_PROVIDER"};
  if (needs.provider == o2g_provider) {
    auto const folder = o2g_folder();
    bool const has_user_path = path.previous() && !path.previous()->empty();
    if (!folder.empty())
      path.set(has_user_path ? *path.previous() + ":" + folder : folder);
  }
  if (needs.is_exclusive && !provider_list.previous()) {
    std::string names = needs.provider;
    std::replace(names.begin(), names.end(), ';', ',');
    provider_list.set(names);
  }
  // The cheapest call that makes libfabric read its environment.
  fi_param *parameters = nullptr;
  int count = 0;
  if (fi_getparams(&parameters, &count) == 0)
    fi_freeparams(parameters);
}

}  // namespace

void libfabric_prepare(const libfabric_needs &needs) {
  static std::once_flag once;
  std::call_once(once, [&] { start(needs); });
}

}  // namespace tanada::backends
