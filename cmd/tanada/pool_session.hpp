// cmd/tanada/pool_session.hpp: what the commands of `tanada pool` share: connections, handles,
// and how they answer.
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

// What a command found out, and what failed. Text goes out as it comes; JSON is one document, at
// the end.
class answer {
 public:
  explicit answer(bool json) : json_{json} {}

  bool json() const noexcept {
    return json_;
  }
  nlohmann::json &document() {
    return document_;
  }

  // Tell that something about `what` failed, in the library's words of this thread or in `words`.
  void fail(const std::string &what, tnd_status code);
  void fail(const std::string &what, tnd_status code, const std::string &words);
  bool has_failed() const noexcept {
    return has_failed_;
  }

  // Prints the document where it was asked for. The exit status: 0, or 1 after a failure.
  int finish();

 private:
  bool const json_;
  bool has_failed_ = false;
  nlohmann::json document_ = nlohmann::json::object();
};

// Options of every command that connects.
struct pool_options {
  bool json = false;
  double timeout_s = 0;  // 0: TND_POOL_TIMEOUT, or what the library has
  std::string key_file;  // empty: TND_POOL_KEY_FILE, or none
};

// The connections of a command: one for each namespace it names.
class pool_session {
 public:
  pool_session(const pool_options &options, answer &told);

  // Owned by the session. nullptr: it failed, and was told.
  tnd_pool *connect(const pool::address &at);

  // Each connection: its URL, its path, why not a better one, and the bytes it moved, all and by
  // path.
  nlohmann::json connections_json() const;

 private:
  tnd_pool_config config_ = TND_POOL_CONFIG_INIT;
  std::string const key_file_;
  answer &told_;
  std::map<std::string, pool_connection> connections_;
};

std::string object_url(const pool::address &at, const std::string &name);

// Bytes that are bound to the namespace; 0: it has none.
tnd_status namespace_owned(tnd_pool *pool, const std::string &space, uint64_t &owned);

nlohmann::json connection_json(const std::string &url, const tnd_pool_connection &of);
// What moved, a name a path; paths by which nothing moved are left out.
nlohmann::json traffic_json(tnd_pool *pool);
const char *last_path_name(tnd_pool *pool);  // of the last transfer; "none"
nlohmann::json info_json(const tnd_pool_info &info);
const char *checksum_name(uint32_t kind);  // "none", "crc32c", "xxh3", or "unknown"
std::string flags_text(uint32_t flags);    // "evictable,durable"; "-" for none

// A document as one text; names that are no UTF-8 are mended.
std::string dump(const nlohmann::json &document, int indent);

}  // namespace tanada::command
