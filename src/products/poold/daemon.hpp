// products/poold/daemon.hpp: a whole pool: memory, catalog, what keeps it, and the server.
#pragma once

#include <memory>

#include "products/poold/durable.hpp"
#include "products/poold/options.hpp"
#include "products/pool/web/web.hpp"

namespace tanada::poold {

class daemon {
 public:
  // Sets the memory aside, brings back what the backing holds, and serves. On failure the message
  // says what was asked for.
  static result<std::unique_ptr<daemon>> start(const daemon_options &options);
  ~daemon();

  uint16_t port() const noexcept {
    return server_->port();
  }
  uint16_t web_port() const noexcept;  // 0: there is no page

  pool::pool_report report() const;

  // Takes keys and quotas of `options`, both or neither: on failure those before stay. Clients that
  // are connected keep the rights that their keys gave them. All other settings take effect at the
  // next start.
  status reload(const daemon_options &options);

  // Let no more in; what is under way gets `drain_ns` of the options.
  void stop();

 private:
  explicit daemon(daemon_options options) : options_{std::move(options)} {}
  status open_backing();
  result<std::vector<pool::key>> read_keys(const std::string &key_file) const;
  status open_fabric();

  daemon_options options_;
  std::unique_ptr<space> memory_;
  std::unique_ptr<durable_journal> journal_;
  std::unique_ptr<catalog> objects_;
  std::unique_ptr<mover> mover_;
  std::unique_ptr<service> service_;
  std::unique_ptr<server> server_;
  std::unique_ptr<port::http_server> web_;
};

}  // namespace tanada::poold
