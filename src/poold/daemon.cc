#include "poold/daemon.hpp"

#include "base/log.hpp"
#include "port/clock/clock.hpp"
#include "port/stream/socket_stream.hpp"

namespace tanada::poold {

result<std::unique_ptr<daemon>> daemon::start(const daemon_options &options) {
  std::unique_ptr<daemon> made{new daemon{options}};
  TND_TRY(made->open_backing());
  made->objects_ = std::make_unique<catalog>(*made->memory_, made->journal_.get(), catalog_options{.quotas = options.quotas});
  made->service_.reset(new service{.memory = *made->memory_, .objects = *made->objects_, .keys = {}});
  made->service_->started_ns = port::monotonic_clock().now_ns();
  TND_TRY(made->load_keys());
  TND_TRY(made->open_fabric());
  server_options const serving{options.listen, options.port, options.worker_count, options.client_count_max};
  auto served = server::start(serving, *made->service_);
  if (!served.ok()) return served.error();
  made->server_ = std::move(served).value();
  return made;
}

daemon::~daemon() { stop(); }

void daemon::stop() {
  if (server_ == nullptr) return;
  server_->stop(port::deadline_after(port::monotonic_clock().now_ns(), options_.drain_ns));
}

status daemon::open_backing() {
  if (options_.backing != "dram") {
    return fail(status::invalid, "backing %s: give dram, file:PATH or flash:DIR", options_.backing.c_str());
  }
  auto memory = space::create({options_.size, options_.segment_size, {}, options_.prefault});
  if (!memory.ok()) return memory.error();
  memory_ = std::move(memory).value();
  return status::ok;
}

status daemon::open_fabric() {
  if (options_.fabric.empty()) return status::ok;
  auto endpoint = port::fabric_open({options_.fabric, options_.fabric_node});
  if (!endpoint.ok()) return endpoint.error();
  auto started = mover::start(std::move(endpoint).value());
  if (!started.ok()) return started.error();
  mover_ = std::move(started).value();
  memory_->on_drop([this](const std::byte *addr, size_t size) { mover_->forget_memory(addr, size); });
  service_->fabric = mover_.get();
  return status::ok;
}

status daemon::load_keys() {
  if (options_.key_file.empty()) {
    if (port::is_loopback(options_.listen)) return status::ok;
    return fail(status::access, "without --key-file a pool listens on a loopback address only, not on %s", options_.listen.c_str());
  }
  auto keys = pool::keys_read(options_.key_file);
  if (!keys.ok()) return keys.error();
  service_->keys = std::move(keys).value();
  return status::ok;
}

}  // namespace tanada::poold
