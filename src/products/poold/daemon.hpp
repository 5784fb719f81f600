// products/poold/daemon.hpp: a complete pool: memory, catalog, journal, fabric and server.
#pragma once

#include <memory>

#include "products/poold/cluster/node.hpp"
#include "products/poold/durable.hpp"
#include "products/poold/options.hpp"
#include "products/pool/web/web.hpp"

namespace tanada::poold {

class daemon {
 public:
  // Allocate the memory, restore the objects of the backing, and serve. On failure the message
  // gives the cause.
  static result<std::unique_ptr<daemon>> start(const daemon_options &options);
  ~daemon();

  uint16_t port() const noexcept {
    return server_->port();
  }
  uint16_t web_port() const noexcept;  // 0: the web page is disabled

  pool::pool_report report() const;

  // How objects become durable: "none", "log", or of a file "cache-flush" or "msync", and its
  // journal.
  const char *durability() const;

  // Apply the keys and quotas of `options`. On failure the previous ones stay in effect. Connected
  // clients keep the rights that their keys gave them. All other settings take effect at the next
  // start.
  status reload(const daemon_options &options);

  // Accept no more clients, and complete outstanding work within `drain_ns`. Then write remaining
  // commits within `write_behind_ns`.
  void stop();

 private:
  explicit daemon(daemon_options options) : options_{std::move(options)} {}
  status open_backing();
  status check_journal() const;
  status check_stripe() const;
  void limit_log(durable_options &keeping) const;
  result<std::vector<pool::key>> read_keys(const std::string &key_file) const;
  status open_fabric();
  status open_cluster();
  status open_coordinator(std::string &cluster_name);
  std::string log_folder() const;
  membership_options make_membership(const std::string &cluster_name) const;
  std::string advertised_address() const;
  status join_cluster();
  journal *top_journal();
  bool has_local_stripes() const;
  status restore_objects();
  void restore_stripes();
  status create_service();
  status start_server();
  status start_web();
  void report_cluster(pool::pool_report &current) const;
  void report_errors(pool::pool_report &current) const;
  void report_requests(pool::pool_report &current) const;
  void report_users(pool::pool_report &current, uint64_t now_ns) const;

  daemon_options options_;
  std::unique_ptr<pool_memory> memory_;
  std::unique_ptr<durable_journal> journal_;
  std::unique_ptr<seams::coordinator> coordinator_;
  std::unique_ptr<cluster_node> node_;  // null: a pool of one server
  std::unique_ptr<catalog> objects_;
  std::unique_ptr<local_stripes> stripes_;  // null: a cluster, or all objects stay in memory
  std::unique_ptr<data_mover> mover_;
  std::unique_ptr<service> service_;
  std::unique_ptr<server> server_;
  std::unique_ptr<backends::http_server> web_;
};

}  // namespace tanada::poold
