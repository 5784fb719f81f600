// The pool daemon: start from options, restore, reload, report and stop.
#include "products/poold/daemon.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <filesystem>

#include "backends/pmem/pmem_memory.hpp"
#include "backends/sockets/socket_stream.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t ring_poll_ns_max = 1'000'000'000;

}  // namespace

result<std::unique_ptr<daemon>> daemon::start(const daemon_options &options) {
  std::unique_ptr<daemon> instance{new daemon{options}};
  TND_TRY(instance->check_journal());
  TND_TRY(instance->check_stripe());
  TND_TRY(instance->open_backing());
  TND_TRY(instance->open_cluster());
  TND_TRY(instance->restore_objects());
  TND_TRY(instance->create_service());
  TND_TRY(instance->open_fabric());
  TND_TRY(instance->start_server());
  TND_TRY(instance->join_cluster());
  if (options.web)
    TND_TRY(instance->start_web());
  return instance;
}

// Create the catalog, with the objects of the backing.
status daemon::restore_objects() {
  TND_ASSERT(memory_ != nullptr && objects_ == nullptr);
  catalog_options settings;
  settings.quotas = options_.quotas;
  if (node_ != nullptr)
    settings.version_tag = node_->changes().version_tags();
  settings.cold = options_.backing.starts_with("flash:") ? journal_.get() : nullptr;
  settings.has_all_stripes = has_local_stripes();
  objects_ = std::make_unique<catalog>(*memory_, top_journal(), std::move(settings));
  if (node_ != nullptr)
    node_->attach(*objects_);
  if (journal_ == nullptr)
    return status::ok;
  TND_TRY(journal_->restore(*objects_));
  // Clients may know versions that the log does not have, because a commit did not reach it or a
  // removal has left it. Start above them: versions start at the clock's microseconds, and no
  // daemon commits more than once a microsecond.
  objects_->raise_version(seams::monotonic_clock().wall_ns() / 1000);
  restore_stripes();
  journal_->start();
  return status::ok;
}

// Objects larger than memory need a log that they leave memory for.
bool daemon::has_local_stripes() const {
  return node_ == nullptr && options_.backing.starts_with("flash:");
}

void daemon::restore_stripes() {
  TND_ASSERT(objects_ != nullptr && stripes_ == nullptr);
  if (!has_local_stripes())
    return;
  (void)objects_->set_aside_incomplete();
  stripes_ = std::make_unique<local_stripes>(
      local_stripes::options{.memory_size = options_.size, .stripe_size = options_.stripe_size},
      *objects_);
  stripes_->start();
}

status daemon::create_service() {
  TND_ASSERT(objects_ != nullptr && service_ == nullptr);
  service_.reset(new service{.memory = *memory_, .objects = *objects_, .keys = {}});
  service_->cluster = node_ != nullptr ? &node_->changes() : nullptr;
  service_->limits.ring_poll_ns = std::min(options_.ring_poll_ns, ring_poll_ns_max);
  service_->stripes = stripes_.get();
  service_->stripe_size = node_ != nullptr ? options_.stripe_size : 0;
  service_->version_max = options_.protocol;
  service_->started_ns = seams::monotonic_clock().now_ns();
  auto keys = read_keys(options_.key_file);
  if (!keys.ok())
    return keys.error();
  service_->keys.replace(std::move(keys).value());
  return status::ok;
}

status daemon::start_server() {
  TND_ASSERT(service_ != nullptr && server_ == nullptr);
  server_options const serving{.host = options_.listen,
                               .port = options_.port,
                               .worker_count = options_.worker_count,
                               .client_count_max = options_.client_count_max,
                               .lost_after_ns = options_.lost_after_ns,
                               .is_open = options_.is_open};
  auto served = server::start(serving, *service_);
  if (!served.ok())
    return served.error();
  server_ = std::move(served).value();
  return status::ok;
}

status daemon::start_web() {
  TND_ASSERT(server_ != nullptr && web_ == nullptr);
  backends::http_server_options serving;
  serving.address = options_.web_listen;
  serving.port = options_.web_port;
  if (!options_.web_token_file.empty()) {
    auto token = pool::web_token_read(options_.web_token_file);
    if (!token.ok())
      return token.error();
    serving.token = std::move(token).value();
  }
  auto web = pool::web_start(serving, [this] { return report(); });
  if (!web.ok())
    return web.error();
  web_ = std::move(web).value();
  return status::ok;
}

daemon::~daemon() {
  stop();
}

uint16_t daemon::web_port() const noexcept {
  return web_ != nullptr ? web_->port() : 0;
}

pool::pool_report daemon::report() const {
  pool::pool_report current;
  current.backing = options_.backing.substr(0, options_.backing.find(':'));
  current.durability = durability();
  memory_usage const usage = memory_->usage();
  current.capacity = objects_->stored_capacity();
  current.used = objects_->is_tiered() ? objects_->stored_size() : usage.used;
  current.memory_capacity = usage.capacity;
  current.memory_used = usage.used;
  current.owned = usage.owned;
  current.ring_size = service_->rings.size();
  auto const counted = objects_->statistics();
  current.object_count = counted.object_count;
  current.committed_size = counted.committed_size;
  current.commits = counted.commits;
  current.opens = counted.opens;
  current.evictions = counted.evictions;
  current.cold_count = counted.cold_count;
  current.cold_size = counted.cold_size;
  current.demotions = counted.demotions;
  current.promotions = counted.promotions;
  report_errors(current);
  report_cluster(current);
  uint64_t const now_ns = seams::monotonic_clock().now_ns();
  report_users(current, now_ns);
  for (size_t i = 0; i < current.transfers.size(); i++) {
    current.transfers[i] = {service_->counters.written.sizes[i], service_->counters.read.sizes[i]};
  }
  current.uptime_ns = now_ns - service_->started_ns;
  return current;
}

const char *daemon::durability() const {
  if (journal_ == nullptr)
    return "none";
  if (options_.backing.starts_with("flash:"))
    return "log";
  return memory_->is_persistent() ? "cache-flush" : "msync";
}

void daemon::report_errors(pool::pool_report &current) const {
  auto const &errors = service_->counters.errors;
  current.errors = errors.sum();
  for (size_t slot = 0; slot < error_counters::statuses.size(); slot++) {
    current.errors_by_status.emplace_back(
        tnd_status_name(tnd_status(error_counters::statuses[slot])), errors.count(slot));
  }
  current.errors_by_status.emplace_back("other", errors.other_count());
  current.refused = service_->counters.refused_count;
  report_requests(current);
}

namespace {

template <size_t BoundCount>
std::vector<uint64_t> counts_of(const histogram<BoundCount> &counted) {
  std::vector<uint64_t> counts(BoundCount + 1);
  for (size_t i = 0; i < counts.size(); i++)
    counts[i] = counted.count(i);
  return counts;
}

}  // namespace

void daemon::report_requests(pool::pool_report &current) const {
  auto const &requests = service_->counters.requests;
  auto const &durations = request_histogram::duration_bounds_ns;
  auto const &sizes = request_histogram::size_bounds;
  current.duration_bounds_ns.assign(durations.begin(), durations.end());
  current.size_bounds.assign(sizes.begin(), sizes.end());
  for (size_t slot = 0; slot < request_histogram::slot_count; slot++)
    current.requests.push_back({request_histogram::name_of(slot),
                                counts_of(requests.durations[slot]),
                                counts_of(requests.sizes[slot]),
                                requests.durations[slot].sum(),
                                requests.sizes[slot].sum()});
}

// Report the namespaces and the connected clients.
void daemon::report_users(pool::pool_report &current, uint64_t now_ns) const {
  for (auto const &entry : objects_->all_namespaces()) {
    if (wire::pool::is_hidden_namespace(entry.name))
      continue;
    current.spaces.push_back({entry.name,
                              entry.used,
                              entry.object_count,
                              entry.quota,
                              entry.owned,
                              entry.segment_count});
  }
  for (auto const &client : server_->clients()) {
    current.clients.push_back({client.peer,
                               client.namespace_name,
                               client.path,
                               client.written_size,
                               client.read_size,
                               now_ns - client.connected_ns});
  }
}

void daemon::stop() {
  if (server_ == nullptr)
    return;
  web_.reset();
  uint64_t const deadline_ns =
      seams::deadline_after(seams::monotonic_clock().now_ns(), options_.drain_ns);
  // While requests are still answered, so that clients find the servers that take over.
  if (node_ != nullptr)
    (void)node_->leave(std::min(options_.drain_ns, options_.lease_ns));
  server_->stop(deadline_ns);
  if (node_ != nullptr)
    node_->stop();
  if (stripes_ != nullptr)
    stripes_->stop();
  if (journal_ == nullptr)
    return;
  // Commits that no client waits for are written in the background. A clean stop does not lose
  // them.
  uint64_t const now_ns = seams::monotonic_clock().now_ns();
  journal_->stop(seams::deadline_after(now_ns, options_.write_behind_ns));
}

std::string daemon::log_folder() const {
  if (!options_.journal.empty())
    return options_.journal;
  std::string const path = options_.backing.substr(options_.backing.find(':') + 1);
  return options_.backing.starts_with("file:") ? path + ".journal" : path;
}

// Of a log that objects leave memory for.
void daemon::limit_log(durable_options &keeping) const {
  keeping.size_max = options_.log_size != 0 ? options_.log_size : 4 * options_.size;
  keeping.is_tiered = true;
  keeping.checks_cold = !options_.cluster.empty();
  // Commits wait before objects that are being written fill the memory.
  keeping.congestion_size = std::min(keeping.congestion_size, options_.size / 4);
}

// The folder beside a device is in memory, and lost at a restart of the machine.
status daemon::check_journal() const {
  std::string const &backing = options_.backing;
  bool const on_file = backing.starts_with("file:");
  bool const is_good = options_.journal.empty() || (on_file && options_.journal.starts_with('/'));
  if (!is_good)
    return fail(status::invalid,
                "--journal {}: give the absolute path of a folder, with --backing file:PATH",
                options_.journal);
  if (!on_file || !options_.journal.empty())
    return status::ok;
  std::string const path = backing.substr(backing.find(':') + 1);
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return fail(status::invalid, "{} is a folder: name a file in it, or give flash:{}", path, path);
  bool const is_device =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  if (!is_device)
    return status::ok;
  return fail(status::invalid,
              "{} is a device: give --journal FOLDER, on a file system that keeps it",
              path);
}

status daemon::open_backing() {
  std::string const &backing = options_.backing;
  std::string const kind = backing.substr(0, backing.find(':'));
  std::string const path =
      kind.size() < backing.size() ? backing.substr(kind.size() + 1) : std::string{};
  bool const on_file = kind == "file", on_flash = kind == "flash";
  bool const good = backing == "dram" || ((on_file || on_flash) && path.starts_with('/'));
  if (!good)
    return fail(status::invalid, "backing {}: give dram, file:/PATH or flash:/FOLDER", backing);
  durable_options keeping;
  keeping.with_data = on_flash;
  keeping.folder = log_folder();
  if (on_flash)
    limit_log(keeping);
  auto memory = pool_memory::create({.capacity = options_.size,
                                     .segment_size = options_.segment_size,
                                     .file = on_file ? path : std::string{},
                                     .prefault = options_.prefault,
                                     .persistent = &backends::pmem_memory()});
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
  auto endpoint = seams::fabric_open({options_.fabric, options_.fabric_node});
  if (!endpoint.ok())
    return endpoint.error();
  auto started = data_mover::start(std::move(endpoint).value());
  if (!started.ok())
    return started.error();
  mover_ = std::move(started).value();
  memory_->set_drop_hook([this](const std::byte *addr, size_t size, uint64_t timeout_ns) {
    return mover_->unregister_memory(addr, size, timeout_ns);
  });
  service_->fabric = mover_.get();
  return status::ok;
}

result<std::vector<pool::key>> daemon::read_keys(const std::string &key_file) const {
  if (!key_file.empty())
    return pool::keys_read(key_file);
  auto is_loopback = backends::is_loopback(options_.listen);
  if (!is_loopback.ok())
    return is_loopback.error();
  if (is_loopback.value())
    return std::vector<pool::key>{};
  return fail(status::access,
              "without --key-file a pool listens on a loopback address only, not on {}",
              options_.listen);
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
