// tests/e2e/pool/load_client.hpp: a client of a real cluster that does random calls, and records
// them.
#pragma once

#include <tanada/pool.h>

#include <array>
#include <string>
#include <vector>

#include "load_record.hpp"
#include "sim/world.hpp"

namespace tanada::test {

struct load_options {
  std::string url;  // without a namespace
  std::string key_file;
  uint64_t seed = 1, timeout_ns = 30'000'000'000, pause_ns = 5'000'000;
  uint32_t writer_count = 4, reader_count = 4;
  bool is_durable = false;  // some commits are
};

class load_client {
 public:
  static constexpr int space_count = 4;
  load_client(load_record &record, const load_options &options, uint32_t index);
  ~load_client();
  load_client(const load_client &) = delete;
  load_client &operator=(const load_client &) = delete;

  // One random call.
  void act();

  // The values of all names of all namespaces. False: not all were read before the deadline
  // (absolute, monotonic_clock).
  bool read_all(std::vector<name_observation> &present, uint64_t deadline_ns);

 private:
  // A name in a namespace.
  struct place {
    int space;
    std::string name;
    std::string full() const;
  };
  place random_place(const char *prefix, int count);
  tnd_pool *pool_of(int space);
  bool is_writer() const {
    return index_ < options_.writer_count;
  }
  void change();
  void read();
  void put(const place &target, bool is_large);
  void put_by_handle(const place &target, bool is_large);
  void remove(const place &target);
  void rename();
  void commit_set();
  observation get(const place &target, tnd_status &code);
  void stat(const place &target);
  void list();
  uint32_t durable_flag();
  tnd_status write_and_commit(tnd_pool_object *object,
                              const std::vector<char> &bytes,
                              uint32_t flags,
                              uint64_t *version);
  tnd_status prepare_set(tnd_pool *pool,
                         const std::string &set,
                         const std::vector<value_id> &values,
                         std::vector<tnd_pool_object *> &opened);

  load_record &record_;
  load_options const options_;
  uint32_t const index_;
  uint64_t set_number_ = 0;
  sim::prng random_;
  std::vector<char> buffer_;
  std::array<tnd_pool *, space_count> pools_{};
};

}  // namespace tanada::test
