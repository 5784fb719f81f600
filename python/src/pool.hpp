// pool.hpp: a connection to the memory pool, its objects and their mappings, owned by Python
// objects.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>
#include <tanada/pool.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "buffers.hpp"
#include "error.hpp"

namespace tanada::python {

/// The shared state of a connection, its objects and its mappings. Each call holds `mutex` while it
/// runs, with the GIL released. The library runs only one call of a connection at a time anyway,
/// and this keeps calls away from handles that another thread closes.
struct connection {
  ~connection();
  void end_if_unused();  // call with the mutex held

  pid_t process = 0;  // the process that connected; a forked child must not use the connection
  std::mutex mutex;   // guards the members below
  tnd_pool *handle = nullptr;
  bool closed = false;       // closed for Python; the connection ends with the last mapping
  size_t mapping_count = 0;  // of all objects
};

struct opened {
  ~opened();
  void end_if_unused();  // call with the connection's mutex held

  std::shared_ptr<connection> over;
  tnd_pool_object *handle = nullptr;
  bool closed = false;
  size_t mapping_count = 0;
};

struct commit_choice {
  uint32_t flags = 0;
  uint32_t checksum_kind = TND_POOL_CHECKSUM_NONE;
  std::optional<uint64_t> checksum;

  tnd_pool_commit_options options() const;
};

/// A committed object's bytes in the pool's memory. Exports Python's buffer protocol.
class mapping {
 public:
  mapping(std::shared_ptr<opened> of, const void *addr, uint64_t size)
      : of_{std::move(of)}, addr_{addr}, size_{size} {}
  ~mapping();
  mapping(const mapping &) = delete;
  mapping &operator=(const mapping &) = delete;

  const void *addr() const {
    return addr_;
  }
  uint64_t size() const {
    return size_;
  }

 private:
  std::shared_ptr<opened> of_;
  const void *addr_;
  uint64_t size_;
};

class object {
 public:
  explicit object(std::shared_ptr<opened> of) : of_{std::move(of)} {}

  void close();
  bool is_closed() const;
  nanobind::tuple info() const;
  void write(uint64_t offset, nanobind::handle source);
  void write_box(uint64_t offset, nanobind::handle source, const std::vector<uint64_t> &strides);
  void resize(uint64_t size);
  nanobind::bytes read(uint64_t offset, uint64_t size);
  uint64_t read_into(uint64_t offset, nanobind::handle target);
  void read_box(uint64_t offset, nanobind::handle target, const std::vector<uint64_t> &strides);
  uint64_t commit(const commit_choice &choice);
  std::unique_ptr<mapping> map();

  uint64_t size() const;  // bytes
  void write_region(uint64_t offset, const region &source);
  uint64_t read_region(uint64_t offset, const region &target);
  const std::shared_ptr<opened> &of() const {
    return of_;
  }

 private:
  std::shared_ptr<opened> of_;
};

struct pool_settings {
  std::optional<uint64_t> timeout_ns;
  std::optional<nanobind::bytes> key_file, fabric;
  std::optional<bool> shared_memory;
  std::optional<uint32_t> device_index;
};

/// A request of post(). Its kind uses those of the fields that pool.h describes.
struct posted {
  uint32_t kind = 0, flags = 0, checksum_kind = TND_POOL_CHECKSUM_NONE;
  std::optional<nanobind::bytes> name;
  const object *target = nullptr;
  uint64_t offset = 0;
  nanobind::handle memory;
};

/// Any Python thread may call these functions, also concurrently. Each releases the GIL while it
/// may block.
class pool {
 public:
  pool(const nanobind::bytes &url, const pool_settings &settings);
  ~pool();
  pool(const pool &) = delete;
  pool &operator=(const pool &) = delete;

  void close();
  bool is_closed() const;
  nanobind::dict connection_info();
  nanobind::dict statistics();
  nanobind::dict traffic();

  std::unique_ptr<object> create(const nanobind::bytes &name,
                                 uint64_t size,
                                 uint32_t flags,
                                 const std::optional<nanobind::bytes> &set);
  std::unique_ptr<object> open(const nanobind::bytes &name, uint64_t version);
  void put(const nanobind::bytes &name, nanobind::handle source, const commit_choice &choice);
  nanobind::bytes get(const nanobind::bytes &name, uint32_t flags);
  uint64_t get_into(const nanobind::bytes &name, nanobind::handle target, uint32_t flags);
  nanobind::tuple stat(const nanobind::bytes &name, uint64_t version);
  nanobind::list entries(const nanobind::bytes &prefix,
                         const nanobind::bytes &delimiter,
                         uint64_t count_max);
  void rename(const nanobind::bytes &name, const nanobind::bytes &new_name, uint32_t flags);
  void remove(const nanobind::bytes &name, uint32_t flags);
  void set_flags(const nanobind::bytes &name, uint32_t flags);
  void set_commit(const nanobind::bytes &set, uint64_t count, uint32_t flags);

  // Returns the number of the request, which poll() returns again. Its memory stays alive until
  // then.
  uint64_t post(const posted &request);
  // [(number, status, kind, size, version)]; empty if none completed in time or none is
  // outstanding. Ctrl-C ends the wait.
  nanobind::list poll(uint64_t timeout_ns);

 private:
  struct pending {
    region memory;
    std::shared_ptr<opened> target;
  };

  std::shared_ptr<connection> over_;
  std::map<uint64_t, pending> pending_;  // guarded by the GIL
  uint64_t next_number_ = 1;
};

void bind_pool(nanobind::module_ &module);

}  // namespace tanada::python
