// products/poold/cluster/fragment_builder.hpp: makes fragments of this server from those of others.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/wire/pool_fragments.hpp"
#include "products/pool/checksum.hpp"
#include "products/pool/erasure_codec.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cluster/peer_channels.hpp"
#include "products/poold/cluster/repair_budget.hpp"

namespace tanada::poold {

/**
 * Reads K fragments of a group from other servers, part by part, and decodes the wanted one into
 * memory of the pool. The fragment becomes one of this server's if it has its checksum.
 *
 * **Thread safety** add() by any thread. All else by one thread at a time.
 */
class fragment_builder {
 public:
  struct options {
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t part_size = 1 << 20;  // bytes of each source that are read at a time
  };
  // The channels are progressed by their owner, and closed before this ends.
  fragment_builder(options settings,
                   peer_channels &channels,
                   catalog &objects,
                   repair_budget &budget);
  ~fragment_builder();

  // False: there is enough to do. Otherwise `done` is called once.
  bool add(const wire::pool::fragment_build_request &request, std::function<void(status)> done);

  // Does what is possible, without waiting except for a connection. True: answers are outstanding.
  bool progress();

  // Ends all work, before the catalog ends.
  void close();

 private:
  struct source {
    wire::pool::fragment_source place;
    std::vector<std::byte> bytes;  // the part that was read last
  };
  struct job {
    wire::pool::fragment_build_request request;
    std::function<void(status)> done;
    std::vector<source> sources;
    object_ref target;
    uint64_t namespace_id = 0;
    bool holds_namespace = false;
    uint64_t offset = 0;  // of the part that is built next
    size_t outstanding_count = 0;
    status code = status::ok;  // of its reads
    pool::checksum sum{pool::checksum_kind::xxh3};

    wire::pool::erasure_layout layout() const {
      return {request.scheme, request.size, request.fragment_size};
    }
    uint64_t size() const {
      return layout().size_of(request.target.index);
    }
  };
  using job_ptr = std::shared_ptr<job>;

  void begin(const job_ptr &started);
  bool advance(const job_ptr &running);
  void read_parts(const job_ptr &running);
  static std::vector<pool::erasure_codec::source> sources_of(const job &running);
  status decode_part(job &running);
  status complete(job &finished);
  void finish(job &finished, status code);

  options const options_;
  peer_channels &channels_;
  catalog &objects_;
  repair_budget &budget_;  // of what it reads
  mutex mutex_;
  std::deque<job_ptr> queue_ TND_GUARDED_BY(mutex_);
  std::vector<job_ptr> running_;
};

}  // namespace tanada::poold
