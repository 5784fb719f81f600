// backends/registry/bootstrap_plugin_loader.cc: loads the PMIx plugin.
#include "backends/registry/plugin_table.hpp"
#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap_plugin.hpp"

namespace tanada::seams {
namespace {

constexpr const char *bootstrap_file_name = "libtanada_bootstrap_pmix.so";

// Forwards calls to the plugin's bootstrap and copies its messages to this library.
class relayed_bootstrap final : public bootstrap {
 public:
  relayed_bootstrap(const bootstrap_plugin &plugin, std::unique_ptr<bootstrap> inner)
      : plugin_{plugin}, inner_{std::move(inner)} {}

  const char *name() const noexcept override {
    return inner_->name();
  }
  int32_t rank() const noexcept override {
    return inner_->rank();
  }
  int32_t count() const noexcept override {
    return inner_->count();
  }
  const std::string &job() const noexcept override {
    return inner_->job();
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return inner_->node_ranks();
  }

  status publish(std::string_view key, std::span<const std::byte> value) override {
    return relay(inner_->publish(key, value));
  }
  status exchange(uint64_t timeout_ns) override {
    return relay(inner_->exchange(timeout_ns));
  }
  status barrier(uint64_t timeout_ns) override {
    return relay(inner_->barrier(timeout_ns));
  }
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override {
    auto value = inner_->lookup(rank, key);
    if (value.error() != status::no_entry)
      static_cast<void>(relay(value.error()));  // no_entry has no message
    return value;
  }

  void abort(int32_t code, const char *message) noexcept override {
    inner_->abort(code, message);
  }
  int32_t find_failed_rank() const noexcept override {
    return inner_->find_failed_rank();
  }
  void watch_launcher(std::function<void()> on_lost) override {
    inner_->watch_launcher(std::move(on_lost));
  }

 private:
  status relay(status code) const {
    if (code != status::ok)
      set_last_message(plugin_.last_message());
    return code;
  }

  const bootstrap_plugin &plugin_;
  std::unique_ptr<bootstrap> const inner_;
};

}  // namespace

result<std::unique_ptr<bootstrap>> bootstrap_pmix() {
  std::string message;
  const bootstrap_plugin *const plugin = backends::plugin_table<bootstrap_plugin>(
      bootstrap_file_name, bootstrap_plugin_symbol, bootstrap_plugin_abi, message);
  if (plugin == nullptr) {
    return fail(status::no_plugin,
                "a launcher that speaks PMIx started this process: joining its job needs libpmix2 "
                "(apt-get install libpmix2; libpmix-dev to build) and the plugin {}: {}",
                bootstrap_file_name,
                message);
  }
  std::unique_ptr<bootstrap> opened;
  if (status const code = plugin->open(opened, message); code != status::ok)
    return fail(code, "PMIx: {}", message);
  return std::unique_ptr<bootstrap>{
      std::make_unique<relayed_bootstrap>(*plugin, std::move(opened))};
}

}  // namespace tanada::seams
