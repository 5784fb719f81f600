// cmd/tanada/pool_session.hpp: the connections, handles and reports that the commands of `tanada
// pool` share.
#pragma once

#include <tanada/pool.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "products/pool/address.hpp"
#include "products/pool/path_name.hpp"

namespace tanada::command {

struct pool_free {
  void operator()(tnd_pool *pool) const {
    tnd_pool_disconnect(pool);
  }
  void operator()(tnd_pool_object *object) const {
    tnd_pool_close(object);
  }
};
using pool_connection = std::unique_ptr<tnd_pool, pool_free>;
using pool_object = std::unique_ptr<tnd_pool_object, pool_free>;

// The results and errors of a command. Text is printed immediately; JSON is one document, printed
// at the end.
class command_report {
 public:
  explicit command_report(bool json) : json_{json} {}

  bool json() const noexcept {
    return json_;
  }
  nlohmann::json &document() {
    return document_;
  }

  // Reports an error about `subject`, with the library's last message on this thread or with
  // `message`.
  void fail(const std::string &subject, tnd_status code);
  void fail(const std::string &subject, tnd_status code, const std::string &message);
  bool has_failed() const noexcept {
    return has_failed_;
  }

  // Prints the document if JSON was requested. Returns the exit status: 0, or 1 after an error.
  int finish();

 private:
  bool const json_;
  bool has_failed_ = false;
  nlohmann::json document_ = nlohmann::json::object();
};

// Options of every command that connects.
struct pool_options {
  bool json = false;
  double timeout_s = 0;  // 0: TND_POOL_TIMEOUT, or the library's default
  std::string key_file;  // empty: TND_POOL_KEY_FILE, or none
};

// The connections of a command: one for each namespace it names.
class pool_session {
 public:
  pool_session(const pool_options &options, command_report &report);

  // Returns a connection that the session owns. nullptr: it failed, and the error was reported.
  tnd_pool *connect(const pool::address &address);

  const tnd_pool_config &config() const noexcept {
    return config_;
  }

  // Each connection with its URL, its path, why it has no better path, and the bytes transferred,
  // in total and by path.
  nlohmann::json connections_json() const;

 private:
  tnd_pool_config config_ = TND_POOL_CONFIG_INIT;
  std::string const key_file_;
  command_report &report_;
  std::map<std::string, pool_connection> connections_;
};

std::string object_url(const pool::address &address, const std::string &name);

// The bytes bound to the namespace; 0 if there is no such namespace.
tnd_status namespace_owned(tnd_pool *pool, const std::string &space, uint64_t &owned);

nlohmann::json connection_json(const std::string &url, const tnd_pool_connection &connection);
// The traffic by path; unused paths are left out.
nlohmann::json traffic_json(tnd_pool *pool);
const char *last_path_name(tnd_pool *pool);  // of the last transfer; "none"
nlohmann::json info_json(const tnd_pool_info &info);
const char *checksum_name(uint32_t kind);  // "none", "crc32c", "xxh3", or "unknown"
std::string flags_text(uint32_t flags);    // "evictable,durable"; "-" for none

// Formats a document as text and replaces invalid UTF-8.
std::string dump(const nlohmann::json &document, int indent);

}  // namespace tanada::command
