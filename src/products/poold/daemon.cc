#include "products/poold/daemon.hpp"

#include <tanada/status.h>

#include "backends/sockets/socket_stream.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

result<std::unique_ptr<daemon>> daemon::start(const daemon_options &options) {
  std::unique_ptr<daemon> made{new daemon{options}};
  TND_TRY(made->open_backing());
  made->objects_ = std::make_unique<catalog>(*made->memory_, made->journal_.get(),
                                             catalog_options{.quotas = options.quotas});
  if (made->journal_ != nullptr) {
    TND_TRY(made->journal_->restore(*made->objects_));
    // What was committed and did not reach the log, or was removed and has left it, had versions,
    // too, that somebody may know. They began where the clock stood, and no daemon commits once a
    // microsecond.
    made->objects_->restore_version(port::monotonic_clock().wall_ns() / 1000);
    made->journal_->start();
  }
  made->service_.reset(
      new service{.memory = *made->memory_, .objects = *made->objects_, .keys = {}});
  made->service_->started_ns = port::monotonic_clock().now_ns();
  auto keys = made->read_keys(options.key_file);
  if (!keys.ok())
    return keys.error();
  made->service_->keys.replace(std::move(keys).value());
  TND_TRY(made->open_fabric());
  server_options const serving{.host = options.listen,
                               .port = options.port,
                               .worker_count = options.worker_count,
                               .client_count_max = options.client_count_max,
                               .lost_after_ns = options.lost_after_ns,
                               .is_open = options.is_open};
  auto served = server::start(serving, *made->service_);
  if (!served.ok())
    return served.error();
  made->server_ = std::move(served).value();
  if (options.web) {
    auto web = pool::web_start(options.web_port, [one = made.get()] { return one->report(); });
    if (!web.ok())
      return web.error();
    made->web_ = std::move(web).value();
  }
  return made;
}

daemon::~daemon() {
  stop();
}

uint16_t daemon::web_port() const noexcept {
  return web_ != nullptr ? web_->port() : 0;
}

pool::pool_report daemon::report() const {
  pool::pool_report now;
  now.backing = options_.backing.substr(0, options_.backing.find(':'));
  space_usage const usage = memory_->usage();
  now.capacity = usage.capacity;
  now.used = usage.used;
  now.owned = usage.owned;
  auto const counted = objects_->statistics();
  now.object_count = counted.object_count;
  now.committed_size = counted.committed_size;
  now.commits = counted.commits;
  now.opens = counted.opens;
  now.evictions = counted.evictions;
  now.errors = service_->counters.errors.sum();
  auto const &errors = service_->counters.errors;
  for (size_t slot = 0; slot < error_counters::statuses.size(); slot++) {
    now.errors_by_status.emplace_back(tnd_status_name(tnd_status(error_counters::statuses[slot])),
                                      errors.count(slot));
  }
  now.errors_by_status.emplace_back("other", errors.other_count());
  now.refused = service_->counters.refused;
  for (auto const &one : objects_->all_spaces()) {
    now.spaces.push_back(
        {one.name, one.used, one.object_count, one.quota, one.owned, one.segment_count});
  }
  uint64_t const now_ns = port::monotonic_clock().now_ns();
  for (auto const &one : server_->clients()) {
    now.clients.push_back({one.peer, one.space_name, one.path, one.written_size, one.read_size,
                           now_ns - one.connected_ns});
  }
  for (size_t i = 0; i < now.transfers.size(); i++) {
    now.transfers[i] = {service_->counters.written.of[i], service_->counters.read.of[i]};
  }
  now.uptime_ns = now_ns - service_->started_ns;
  return now;
}

void daemon::stop() {
  if (server_ == nullptr)
    return;
  web_.reset();
  uint64_t const deadline_ns =
      port::deadline_after(port::monotonic_clock().now_ns(), options_.drain_ns);
  server_->stop(deadline_ns);
  if (journal_ == nullptr)
    return;
  // Commits that nobody waits for are written behind, and a clean end does not lose them.
  uint64_t const now_ns = port::monotonic_clock().now_ns();
  journal_->stop(port::deadline_after(now_ns, options_.write_behind_ns));
}

status daemon::open_backing() {
  std::string const &backing = options_.backing;
  std::string const kind = backing.substr(0, backing.find(':'));
  std::string const path =
      kind.size() < backing.size() ? backing.substr(kind.size() + 1) : std::string{};
  bool const on_file = kind == "file", on_flash = kind == "flash";
  bool const good = backing == "dram" || ((on_file || on_flash) && path.starts_with('/'));
  if (!good)
    return fail(status::invalid, "backing %s: give dram, file:/PATH or flash:/FOLDER",
                backing.c_str());
  durable_options keeping;
  keeping.with_data = on_flash;
  keeping.folder = on_file ? path + ".journal" : path;
  if (on_flash)
    keeping.size_max = options_.log_size != 0 ? options_.log_size : 4 * options_.size;
  auto memory = space::create(
      {options_.size, options_.segment_size, on_file ? path : std::string{}, options_.prefault});
  if (!memory.ok())
    return memory.error();
  memory_ = std::move(memory).value();
  if (backing == "dram")
    return status::ok;
  auto opened = durable_journal::open(*memory_, keeping);
  if (!opened.ok())
    return opened.error();
  journal_ = std::move(opened).value();
  return status::ok;
}

status daemon::open_fabric() {
  if (options_.fabric.empty())
    return status::ok;
  auto endpoint = port::fabric_open({options_.fabric, options_.fabric_node});
  if (!endpoint.ok())
    return endpoint.error();
  auto started = mover::start(std::move(endpoint).value());
  if (!started.ok())
    return started.error();
  mover_ = std::move(started).value();
  memory_->on_drop([this](const std::byte *addr, size_t size, uint64_t timeout_ns) {
    return mover_->forget_memory(addr, size, timeout_ns);
  });
  service_->fabric = mover_.get();
  return status::ok;
}

result<std::vector<pool::key>> daemon::read_keys(const std::string &key_file) const {
  if (!key_file.empty())
    return pool::keys_read(key_file);
  auto is_loopback = port::is_loopback(options_.listen);
  if (!is_loopback.ok())
    return is_loopback.error();
  if (is_loopback.value())
    return std::vector<pool::key>{};
  return fail(status::access,
              "without --key-file a pool listens on a loopback address only, not on %s",
              options_.listen.c_str());
}

status daemon::reload(const daemon_options &options) {
  auto keys = read_keys(options.key_file);
  if (!keys.ok())
    return keys.error();
  daemon_options fixed = options;
  fixed.key_file = options_.key_file;
  fixed.quotas = options_.quotas;
  if (fixed != options_)
    log(log_level::warning,
        "pool: settings other than keys and quotas changed: they take effect at the next start");
  service_->keys.replace(std::move(keys).value());
  objects_->replace_quotas(options.quotas);
  options_.key_file = options.key_file;
  options_.quotas = options.quotas;
  return status::ok;
}

}  // namespace tanada::poold
