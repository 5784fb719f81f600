// products/poold/durable.hpp: the journal over the pool's log: files on flash, or beside a backing
// file.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends/registry/store_registry.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/journal.hpp"
#include "products/poold/log/log.hpp"
#include "products/poold/log/reserve_file.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

struct durable_options {
  std::string folder;                          // of the log's files; made when it is not there
  bool with_data = true;                       // false: a journal beside the space's file
  uint64_t size_max = ~uint64_t{0};            // bytes of the log
  uint64_t behind_size = uint64_t{256} << 20;  // bytes waiting from which on commits wait
};

// Names of which the log tells other things than the catalog, because it failed.
//
// A transaction that fails counts as never made in the log, while the catalog goes on with it. So
// an object may not be in the log, or not under its name, and the log may keep under a name what
// the catalog has no more: whoever removes the name means that, too. The log knows objects by their
// versions: what it has under another name still moves where a rename sends it. A name's gap closes
// with the next object that the log takes under it. Used by one thread.
class gaps {
 public:
  // `order`: of the transaction among all that were appended. A failure may be told before the
  // outcome of earlier ones.
  void failed(const std::vector<change> &changes, uint64_t order, status why);

  // These are in the log. Fills in removals that must follow, before these hold: after all that was
  // appended in the meantime, which may move what they name. Not ok: one of them named an object
  // that is not there; this is why.
  status kept(const std::vector<change> &changes, uint64_t order, std::vector<change> &to_follow);

  // All before these removals, which follow the transaction at `order`, has its outcome: leaves
  // those still to be made, and takes them for made.
  void begin_following(std::vector<change> &removals, uint64_t order);

 private:
  struct gap {
    uint64_t unlogged = 0;    // the version that has the name, when it is not in the log under it
    uint64_t order = 0;       // of the transaction that should have put it there
    status why = status::ok;  // it is not
    std::string logged_as = {};  // the name of which it may be a ghost; empty: of none
    std::map<uint64_t, uint64_t> ghosts =
        {};  // versions that the log may have under the name; order of what failed to end that
  };
  using key = std::pair<std::string, std::string>;  // namespace, name

  void close(const key &of, uint64_t order, uint64_t version);
  void follow(const key &of, uint64_t order, std::vector<change> &to_follow);
  bool take_ghost(const key &of, uint64_t version);

  std::map<key, gap> all_;
};

// One thread drives the log, start()'s or the caller's own by turn(). What the catalog appends is
// written in that order, in the background.
class durable_journal final : public journal {
 public:
  // busy: another daemon has the folder. What the log's or the store's calls say, with a message.
  static result<std::unique_ptr<durable_journal>> open(space &memory,
                                                       const durable_options &options);

  // The same on any store and in any clock's time, which outlive it, and without a lock: nobody
  // else has settings.url.
  static result<std::unique_ptr<durable_journal>> open_on(port::store &store, port::clock &clock,
                                                          space &memory,
                                                          const durable_options &options,
                                                          pool::log_options settings);

  // Writes nothing any more: stop() or drain() first.
  ~durable_journal() override;

  // Bring the durable objects back into the catalog: their bytes into memory, or their pieces
  // claimed. An object whose bytes are damaged is kept aside, with a line in the log: it stays in
  // the store, and its name in the catalog without its bytes, until it is replaced or removed; an
  // evictable one is dropped. Before start(). no_space: the pool is smaller than what is to come
  // back. timed_out: the store does not answer.
  status restore(catalog &into);
  void start();
  // Until everything is written, or the deadline, in the clock's time, has passed.
  void stop(uint64_t deadline_ns);

  // Without start(): one look at what waits and at the log, which takes no time. Returns whether
  // anything was completed.
  bool turn();
  // Without start(): as stop(). timed_out: something is left.
  status drain(uint64_t deadline_ns);

  void append(std::vector<change> changes, std::vector<object_ref> superseded,
              journal_done done) override;
  bool is_behind() const override;

 private:
  struct entry {
    std::vector<change> changes;
    std::vector<object_ref> superseded;
    journal_done done;
    uint64_t size = 0, order = 0;
    uint64_t follows = 0;         // not 0: the order of a transaction that these removals complete
    pool::transaction made = {};  // for the log, once it was begun: it may have to be told again
  };

  struct held_object {
    object_ref object;
    uint64_t order;  // of the transaction that superseded it
  };

  durable_journal(port::clock &clock, space &memory, durable_options options)
      : clock_{clock}, memory_{memory}, options_{std::move(options)} {}
  status lock_folder();
  status close_to_others() const;
  status open_log(port::store &store, pool::log_options settings);
  void run();
  void push(std::shared_ptr<entry> one);
  status submit(const std::shared_ptr<entry> &one);
  status transaction_of(const entry &one, pool::transaction &changes);
  status put_of(const change &from, pool::change &to);
  void finished(entry &one, status code);
  status check_size(const std::vector<pool::live_object> &found) const;
  std::vector<uint64_t> reserve(catalog &into, const std::vector<pool::live_object> &found);
  using objects_by_version = std::map<uint64_t, result<object_ref>>;
  objects_by_version restore_large(catalog &into, const std::vector<pool::live_object> &found);
  result<object_ref> restore_object(catalog &into, const pool::live_object &found);
  bool set_aside(catalog &into, const pool::live_object &found, status why);
  status check_bytes(const pool::live_object &found, object &target);
  void hold_superseded(entry &one, bool is_kept);
  void note_flags(const entry &one, bool is_kept) const;
  status read_back(const pool::live_object &found, object &into);

  port::clock &clock_;
  space &memory_;
  durable_options const options_;
  int lock_ = -1;
  port::store_registry stores_;
  std::unique_ptr<pool::reserve_file> reserve_;
  std::unique_ptr<pool::durable_log> log_;
  gaps gaps_;  // of the thread that drives the log
  // Objects that the catalog has given up and the log, which failed, has not: a restart brings them
  // back, so that nothing else may take their memory. Of the same thread.
  std::vector<held_object> held_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<entry>> waiting_;
  uint64_t waiting_size_ = 0;  // of all that is not finished
  uint64_t unfinished_ = 0, last_order_ = 0;
  bool stopping_ = false;
  uint64_t stop_deadline_ns_ = ~uint64_t{0};
  std::thread thread_;
};

}  // namespace tanada::poold
