// bench/pool/rows.hpp: the groups of rows, each in its own file.
#pragma once

#include "contest.hpp"

namespace bench {

// The names of contestants in a field.
namespace id {
inline constexpr const char *pool_local = "pool_local", *pool_tcp = "pool_tcp",
                            *pool_fabric = "pool_fabric";
inline constexpr const char *memcpy = "memcpy", *tcp = "tcp", *nfs = "nfs", *mooncake = "mooncake";
inline constexpr const char *memcached_unix = "memcached_unix", *memcached_tcp = "memcached_tcp";
inline constexpr const char *mooncake_engine = "mooncake_engine", *redis_unix = "redis_unix",
                            *redis_tcp = "redis_tcp";
inline constexpr const char *nixl = "nixl", *nfs_rdma = "nfs_rdma";
}  // namespace id

// One contestant against another; `bar` as in a row of the report.
struct duel {
  const char *mine, *theirs;
  std::optional<double> bar;
};

// Puts and gets of 64 MiB, GB/s.
void bulk_rows(report &out, field &all);

// Gets and puts of 4 KiB, microseconds.
void small_rows(report &out, field &all);

// 4 KiB objects put and committed by four clients at once, per second.
void rate_rows(report &out, field &all);

// Sizes from 1 MiB to `size_max` bytes, against NFS, GB/s.
void size_rows(report &out, field &all, uint64_t size_max);

// Sizes from 4 KiB to `size_max` bytes over a link, against NFS over the same link, GB/s.
void link_rows(report &out, field &all, uint64_t size_max);

// A row `what`: GB/s of objects of `size` bytes, or microseconds of a call if `size` is 0. `theirs`
// may be null: the rival was skipped, or does not exist if `rival` is empty.
row compare(const std::string &what,
            const timings &mine,
            const std::string &rival,
            const timings *theirs,
            uint64_t size);

}  // namespace bench
