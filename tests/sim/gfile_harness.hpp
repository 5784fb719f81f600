// All of gfile in one thread and from one seed: a session without service threads, the host
// executor inline, a simulated store and clock. The tests choose a setting; the run draws the rest
// from the seed.
#pragma once

#include <tanada/device/gfile.cuh>

#include <cstdio>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "gfile_model.hpp"
#include "gfile_relay.hpp"
#include "products/gfile/host/session.hpp"
#include "sim/clock.hpp"

namespace gfile_sim {

enum class weather {
  fair,    // only delays and reordering
  errors,  // calls to the store fail, except writes: nothing may be lost
  losses,  // writes fail, tear, or find no space
  stalls,  // the store stalls for a while; calls have short time limits
};

struct setting {
  uint64_t seed = 0;
  weather sky = weather::fair;
  plant planted = plant::none;
  bool told = false;   // print every call of a kernel
  bool alone = false;  // one thread
};

enum class group_kind { thread, warp, block };

enum class file_kind { shared, own, foreign };

// Where an actor keeps one descriptor.
struct slot {
  file_kind kind;
  u32 file;
  int fd = -1;
  int flags = 0;
  std::shared_ptr<std::string> inode = nullptr;  // own
  bool joinable = false;                         // own: its name still stands for it
};

enum class action { open, close, read, write, sync, truncate, unlink, prefetch, map, stat, rows };

struct step {
  action what;
  u32 slot;
  int flags;
  u64 offset, size;
  u32 stamp;
};

// One group of threads: its script and its open files. Only the leader changes it.
struct actor {
  u32 index = 0;
  std::vector<slot> slots;
  std::vector<step> script;
  std::vector<u8> buffer;
  private_file own;
};

class gfile_run {
 public:
  explicit gfile_run(const setting &given);
  ~gfile_run();

  // Empty: no error.
  const std::string &run();
  // The same for one script, run by the first actor.
  const std::string &run(std::vector<step> script);
  uint64_t trace() {
    return world_.trace();
  }
  tnd_gfile_statistics statistics();

  // ---- for the kernels (gfile_actor.hpp); only leaders

  struct started {
    u64 at_ns = 0;
    std::vector<size_t> floor;
    u64 size_floor = 0;
  };

  void fail(const std::string &what);
  // The limit of gopen and gunlink, which wait while the table of files is full; others have
  // timeout_ns_.
  u64 name_timeout_ns() const {
    return name_timeout_ns_;
  }
  // A gopen that creates or truncates the file, or its gunlink, was not answered in time: the host
  // may carry it out at any later time, or never.
  void doubt(const std::string &url) {
    doubted_.insert(url);
  }
  bool in_doubt(const std::string &url) const {
    return doubted_.count(url) != 0;
  }
  bool lossy() const {
    return setting_.sky == weather::losses || setting_.sky == weather::stalls;
  }
  u64 now_ns() {
    return world_.now_ns();
  }
  // Whether the call may return this status now. `expected`: without faults. True: it is one of
  // `expected`.
  bool judge(const char *call,
             const std::string &url,
             status code,
             std::initializer_list<status> expected,
             u64 began_ns);
  shared_file &shared(u32 index) {
    return shared_[index];
  }
  foreign_file &foreign() {
    return foreign_;
  }
  actor &actor_at(u32 index) {
    return actors_[index];
  }
  bool keeps_page() {
    return setting_.planted == plant::kept_page && world_.random.chance(20);
  }
  void tell(const char *call, u32 actor_index, u32 slot_index, u64 first, u64 second) {
    if (setting_.told)
      std::printf("%12llu ns   %s by actor %u, slot %u: %llu %llu\n",
                  now_ns(),
                  call,
                  actor_index,
                  slot_index,
                  first,
                  second);
  }
  void note(u64 value) {
    world_.note(value);
  }

 private:
  void draw_faults();
  void draw_shape();
  void create_session();
  void create_files();
  void put(const std::string &url, const std::string &bytes);
  void write_script(actor &who);
  step draw_step(actor &who);
  void phase();
  void launch();
  void between();
  void write_foreign();
  void close_rest();
  void end();
  void check_contents();
  void check_leaks();
  u64 kernel_now_ns();

  setting setting_;
  tanada::sim::world world_;
  tanada::sim::clock clock_{world_};
  tanada::sim::store_faults faults_;
  relay_store *store_ = nullptr;
  std::unique_ptr<tanada::gfile::session> session_;
  std::unique_ptr<tanada::seams::store_queue> outside_;  // of another node

  tnd_gfile_config config_ = TND_GFILE_CONFIG_INIT;
  group_kind group_ = group_kind::thread;
  u32 blocks_ = 1, threads_ = 1, groups_a_block_ = 1;
  u32 preempt_permille_ = 200, resident_blocks_ = 4;
  u64 timeout_ns_ = 0, name_timeout_ns_ = 0;
  u32 stamp_ = 1;

  std::vector<shared_file> shared_;
  std::vector<actor> actors_;
  foreign_file foreign_;
  tanada::seams::store_file foreign_handle_ = tanada::seams::no_store_file;
  bool foreign_busy_ = false, foreign_writes_ = false;
  u64 foreign_next_ns_ = 0;
  std::string foreign_bytes_;

  u64 turns_ = 0, stall_ns_ = 0, heal_ns_ = 0, clock_skew_ns_ = 0;
  std::set<std::string> reported_;  // URLs with a reported error
  std::set<std::string> doubted_;   // URLs, see doubt()
  bool reported_all_ = false;       // the session returned an error, which may stand for any
  std::string why_;
};

// Statuses that the simulated store invents, a different one for each operation.
inline constexpr status open_error = status::access, close_error = status::stale,
                        read_error = status::io, write_error = status::corrupt,
                        stat_error = status::peer_lost, truncate_error = status::not_supported,
                        sync_error = status::read_only, unlink_error = status::not_permitted,
                        torn_error = status::interrupted;

}  // namespace gfile_sim
