// seams/bootstrap/bootstrap.hpp: the seam to the launcher, which starts a job's processes and lets
// them find one another. Implementations: alone (one process, without a launcher), PMIx
// (bootstrap_plugin.hpp; mpirun, prterun, srun), local (local.hpp: threads of one process, for
// tests), MPI (comex/mpi). One contract suite (tests/contract/bootstrap_contract.hpp) runs on all
// of them.
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

namespace tanada::seams {

inline constexpr size_t bootstrap_value_size_max = 64 * 1024;  // bytes of one published value
inline constexpr size_t bootstrap_key_size_max = 64;           // characters

// One process's membership in a job, from open to destruction. If a process ends before the
// destruction, or by _exit, the launcher treats it as failed and ends the others. A process may
// join again afterwards, as often as all the others.
//
// A failed collective leaves the ranks in different states. Every later one fails too: with
// peer_lost if a rank has failed, else with bad_state.
//
// Thread safety: publish, exchange, lookup and barrier by one thread at a time; abort and
// find_failed_rank by any.
class bootstrap {
 public:
  virtual ~bootstrap() = default;

  virtual const char *name() const noexcept = 0;  // "alone", "pmix", "local", "mpi"
  virtual int32_t rank() const noexcept = 0;      // 0 to count() - 1
  virtual int32_t count() const noexcept = 0;     // processes in the job
  // Equal in all processes of the job, and in no other job of this machine at this time.
  virtual const std::string &job() const noexcept = 0;

  // Ranks that the launcher put on this node, ascending, including this one.
  virtual const std::vector<int32_t> &node_ranks() const noexcept = 0;

  // Keeps a value under a key, for all processes after the next exchange. too_big: larger than the
  // sizes above. exists: the key was published before. invalid: the key is empty.
  virtual status publish(std::string_view key, std::span<const std::byte> value) = 0;

  // Collective, and also a barrier. Values that were published before it are visible to all
  // processes after it. timed_out; peer_lost if a process died.
  virtual status exchange(uint64_t timeout_ns) = 0;

  // The value that `rank` published before the last exchange. no_entry, without a message: it
  // published none. invalid: there is no such rank.
  virtual result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) = 0;

  // Collective. timed_out; peer_lost if a process died.
  virtual status barrier(uint64_t timeout_ns) = 0;

  // Ends all processes of the job, with this exit code if the launcher can pass it on. It may
  // return before the launcher ends this process, or when the launcher has refused. The caller then
  // ends itself, with the code and without finalizing (_exit).
  virtual void abort(int32_t code, const char *message) noexcept = 0;

  // A rank that the launcher reports as failed, or this rank if the launcher itself has failed; -1
  // otherwise. Cheap: waits poll it.
  virtual int32_t find_failed_rank() const noexcept = 0;

  // Calls `on_lost` once if the connection to the launcher is lost while this process lives, even
  // after this object's end. A thread of the launcher's library makes the call and must not be
  // blocked. Only one such function is kept. A no-op without a launcher.
  virtual void watch_launcher(std::function<void()> on_lost) {
    static_cast<void>(on_lost);
  }
};

// A job of one process.
std::unique_ptr<bootstrap> bootstrap_alone();

// The job that this process was started in. It is PMIx's if a launcher that supports PMIx started
// the process (the plugin is loaded at the first call), else a job of one process.
// TND_BOOTSTRAP=alone or =pmix decides instead. no_plugin: such a launcher started the process, and
// the plugin is missing. The message names the package. It also explains what to do about a
// launcher that would leave each process in a job of its own, such as srun or mpirun without PMIx.
result<std::unique_ptr<bootstrap>> bootstrap_open();

}  // namespace tanada::seams
