#include "backends/registry/plugin_table.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap_plugin.hpp"

namespace tanada::port {
namespace {

constexpr const char *bootstrap_file_name = "libtanada_bootstrap_pmix.so";

// What the plugin made, and its messages where callers look for them.
class relayed_bootstrap final : public bootstrap {
 public:
  relayed_bootstrap(const bootstrap_plugin &plugin, std::unique_ptr<bootstrap> made)
      : plugin_{plugin}, made_{std::move(made)} {}

  const char *name() const noexcept override {
    return made_->name();
  }
  int32_t rank() const noexcept override {
    return made_->rank();
  }
  int32_t count() const noexcept override {
    return made_->count();
  }
  const std::string &job() const noexcept override {
    return made_->job();
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return made_->node_ranks();
  }

  status publish(std::string_view key, std::span<const std::byte> value) override {
    return relay(made_->publish(key, value));
  }
  status exchange(uint64_t timeout_ns) override {
    return relay(made_->exchange(timeout_ns));
  }
  status barrier(uint64_t timeout_ns) override {
    return relay(made_->barrier(timeout_ns));
  }
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override {
    auto found = made_->lookup(rank, key);
    if (found.error() != status::no_entry)
      static_cast<void>(relay(found.error()));  // that one has no message
    return found;
  }

  void abort(int32_t code, const char *message) noexcept override {
    made_->abort(code, message);
  }
  int32_t lost() const noexcept override {
    return made_->lost();
  }
  void watch_launcher(std::function<void()> gone) override {
    made_->watch_launcher(std::move(gone));
  }

 private:
  status relay(status code) const {
    if (code != status::ok)
      set_last_message(plugin_.last_message());
    return code;
  }

  const bootstrap_plugin &plugin_;
  std::unique_ptr<bootstrap> const made_;
};

}  // namespace

result<std::unique_ptr<bootstrap>> bootstrap_pmix() {
  std::string message;
  const bootstrap_plugin *const plugin = plugin_table<bootstrap_plugin>(
      bootstrap_file_name, bootstrap_plugin_symbol, bootstrap_plugin_abi, message);
  if (plugin == nullptr) {
    return fail(status::no_plugin,
                "a launcher that speaks PMIx started this process: joining its job needs libpmix2 "
                "(apt-get install libpmix2; "
                "libpmix-dev to build) and the plugin %s: %s",
                bootstrap_file_name, message.c_str());
  }
  std::unique_ptr<bootstrap> made;
  if (status const code = plugin->open(made, message); code != status::ok)
    return fail(code, "PMIx: %s", message.c_str());
  return std::unique_ptr<bootstrap>{std::make_unique<relayed_bootstrap>(*plugin, std::move(made))};
}

}  // namespace tanada::port
