#include "backends/libfabric/libfabric_setup.hpp"

#include <rdma/fabric.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "seams/os/plugin_paths.hpp"

namespace tanada::port {
namespace {

constexpr const char *own_provider = "o2g", *own_file = "libo2g-fi.so";

// Of this process alone, until the end of the scope.
class variable {
 public:
  explicit variable(const char *name) : name_{name} {
    if (const char *const value = std::getenv(name); value != nullptr)
      before_ = value;
  }
  ~variable() {
    if (!is_changed_)
      return;
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  const std::optional<std::string> &before() const {
    return before_;
  }
  void set(const std::string &value) {
    is_changed_ = true;
    setenv(name_, value.c_str(), 1);
  }

 private:
  const char *name_;
  std::optional<std::string> before_;
  bool is_changed_ = false;
};

// Empty: it is not there.
std::string own_folder() {
  for (const auto &path : plugin_paths(own_file)) {
    size_t const slash = path.rfind('/');
    if (slash != std::string::npos && access(path.c_str(), R_OK) == 0)
      return path.substr(0, slash);
  }
  return {};
}

void start(const libfabric_needs &needs) {
  // Removing an address closes its connection; closing a registration ends its rights. libfabric's
  // own cache would keep it, with every right, for whoever still has the key.
  setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
  setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
  variable path{"FI_PROVIDER_PATH"}, only{"FI_PROVIDER"};
  if (needs.provider == own_provider) {
    auto const folder = own_folder();
    bool const is_given = path.before() && !path.before()->empty();
    if (!folder.empty())
      path.set(is_given ? *path.before() + ":" + folder : folder);
  }
  if (needs.alone && !only.before()) {
    std::string names = needs.provider;
    std::replace(names.begin(), names.end(), ';', ',');
    only.set(names);
  }
  // The least that makes it read all that.
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

}  // namespace tanada::port
