// seams/bootstrap/bootstrap.hpp: the seam to what starts a job's processes and lets them find one
// another. Implementations: alone (one process, nobody started it), PMIx (plugin.hpp; mpirun,
// prterun, srun), local (local.hpp: threads of one process, for tests), MPI (comex/mpi). One
// contract suite (tests/contract/bootstrap_contract.hpp) runs on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::port {

inline constexpr size_t bootstrap_value_size_max = 64 * 1024;  // bytes of one published value
inline constexpr size_t bootstrap_key_size_max = 64;           // characters

// One process's membership in a job, from open to destruction. The launcher takes a process that
// ends before the destruction, or by _exit, for one that has failed, and ends the others. A process
// may join again after it: as often as all the others.
//
// A collective that has failed leaves the ranks at different places: every later one fails too,
// with peer_lost if a rank is gone, else with bad_state.
//
// Thread safety: publish, exchange, lookup and barrier by one thread at a time; abort and lost by
// any.
class bootstrap {
 public:
  virtual ~bootstrap() = default;

  virtual const char *name() const noexcept = 0;  // "alone", "pmix", "local", "mpi"
  virtual int32_t rank() const noexcept = 0;      // 0 to count() - 1
  virtual int32_t count() const noexcept = 0;     // processes in the job
  virtual const std::string &job()
      const noexcept = 0;  // equal in all of them, and in no other job of this machine at this time

  // Ranks that the launcher put on this node, ascending, this one among them.
  virtual const std::vector<int32_t> &node_ranks() const noexcept = 0;

  // Keep a value under a key, for everybody after the next exchange. too_big past the sizes above;
  // exists for a key twice; invalid for no key.
  virtual status publish(std::string_view key, std::span<const std::byte> value) = 0;

  // Collective: what all have published before is there for all after it. Also a barrier.
  // timed_out; peer_lost if one died.
  virtual status exchange(uint64_t timeout_ns) = 0;

  // What `rank` published before the last exchange. no_entry, without a message, if nothing;
  // invalid: no such rank.
  virtual result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) = 0;

  // Collective. timed_out; peer_lost if one died.
  virtual status barrier(uint64_t timeout_ns) = 0;

  // End all processes of the job, with this exit code as far as the launcher can. It may return,
  // before the launcher ends this process too or when it has refused: the caller then ends itself,
  // with the code and without leaving (_exit).
  virtual void abort(int32_t code, const char *message) noexcept = 0;

  // A rank that the launcher has said to be gone without leaving; this rank itself if it is the
  // launcher that is gone; -1 while there is none. Cheap: polled by waits.
  virtual int32_t lost() const noexcept = 0;

  // Call `gone` once if the connection to the launcher is lost while this process lives, also after
  // this object's end: by a thread of the launcher's library, which must not be held up. Only one
  // such call is kept. Nothing happens where there is no launcher.
  virtual void watch_launcher(std::function<void()> gone) {
    static_cast<void>(gone);
  }
};

// A job of one process.
std::unique_ptr<bootstrap> bootstrap_alone();

// The job that this process was started in: by PMIx if a launcher that speaks it started us (its
// plugin is loaded at the first call), else alone; TND_BOOTSTRAP=alone or =pmix decides instead.
// no_plugin when a launcher did and the plugin is missing: the message names the package, and what
// to do about a launcher (several processes of srun or mpirun without PMIx) that would leave each
// process alone.
result<std::unique_ptr<bootstrap>> bootstrap_open();

}  // namespace tanada::port
