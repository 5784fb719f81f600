// tests/sim/pool_harness.hpp: a pool and its clients in one thread and from one seed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "products/pool/client/client.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/session.hpp"
#include "sim/stream.hpp"
#include "sim/world.hpp"

namespace tanada::test {

enum class weather { fair, cuts, full };

// A mistake that a check must find.
enum class plant { none, torn_object, lost_commit, stale_object };

struct pool_setting {
  uint64_t seed = 1;
  weather sky = weather::fair;
  plant planted = plant::none;
};

// Every client writes names of its own, version after version, and reads those of all clients. A
// version's bytes follow from its name and number, so every reader can identify them. Checks: a get
// returns one whole version. It is neither older than the last acknowledged one when the get began,
// nor one that was not written yet. A list shows what get would return. At the end all of the
// pool's memory is free.
class pool_run {
 public:
  explicit pool_run(const pool_setting &setting);
  ~pool_run();

  // Empty, or the error.
  std::string run(uint32_t step_count);
  uint64_t trace() {
    return world_.trace();
  }

 private:
  struct name_state {
    uint64_t posted = 0,
             acknowledged = 0;  // versions: odd ones are objects, even ones mean no object
  };
  struct request {
    std::string name;
    tnd_pool_request_kind kind;
    uint64_t version;  // put
    uint64_t low;      // get: acknowledged when it was posted
    std::vector<char> bytes;
  };
  struct actor {
    std::unique_ptr<pool::client> client;
    std::map<uint64_t, request> out;
    uint64_t next_context = 1;
  };

  result<std::unique_ptr<seams::stream>> dial();
  bool pump();
  void step(size_t index);
  void post_put(actor &who, const std::string &name);
  void post_get(actor &who, const std::string &name);
  void remove(actor &who, const std::string &name);
  void write_in_parts(actor &who, const std::string &name);
  void list(actor &who);
  void settle(actor &who, const tnd_pool_completion &done);
  void check_get(const request &asked, const tnd_pool_completion &done);
  void reap(actor &who, bool waits);
  std::vector<char> contents(const std::string &name, uint64_t version);
  void wrong(std::string what);
  std::string random_name(size_t owner);
  bool is_excused(status code) const;

  pool_setting const setting_;
  sim::world world_;
  std::unique_ptr<poold::pool_memory> memory_;
  std::unique_ptr<poold::catalog> objects_;
  uint64_t space_ = 0;  // the namespace of all
  std::unique_ptr<poold::service> service_;
  std::shared_ptr<poold::mailbox> mailbox_ = std::make_shared<poold::mailbox>();
  std::vector<std::unique_ptr<poold::session>> sessions_;
  std::vector<actor> actors_;
  std::map<std::string, name_state> names_;
  uint64_t next_session_ = 1, pump_count_ = 0;
  std::string wrong_;
};

}  // namespace tanada::test
