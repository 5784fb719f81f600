// products/poold/log/live_set.hpp: which objects and names the records of a log leave, and what
// each of its files is still needed for.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "products/poold/log/format.hpp"

namespace tanada::pool {

// What the facts say does not hang on their order but for names and flags, of which the last one
// counts: each says which version it makes or ends, by number. So files may go in any order, each
// when nothing it says is needed any more:
// - puts of live objects;
// - the last name and the last flags of an object whose put, in another file, tells older ones;
// - that an object is gone whose put another file still has.
// carry() says these anew. Used by one thread at a time.
class live_set {
 public:
  void apply(const fact &what, uint64_t file_sequence, uint64_t record_offset);

  const live_object *find(uint64_t version) const;
  void visit(const std::function<void(const live_object &)> &visitor) const;
  bool knows(uint64_t version) const {
    return entries_.contains(version);
  }  // live or not
  size_t count() const noexcept {
    return live_count_;
  }
  uint64_t highest_version() const noexcept {
    return highest_version_;
  }

  // Bytes that copies of a file's live objects would take, and of all files'.
  uint64_t live_size(uint64_t file_sequence) const;
  uint64_t live_size() const noexcept {
    return live_size_;
  }
  // Of what else there is to carry, at most.
  uint64_t carry_size(uint64_t file_sequence) const;

  // What must be written elsewhere, and durable, before the file may be unlinked: puts (of whose
  // data up to `size_max` bytes, but one at least), amendments and removals, `count_max` at most.
  // Empty: file_removed() may follow.
  std::vector<fact> carry(uint64_t file_sequence, uint64_t size_max, size_t count_max) const;
  void file_removed(uint64_t file_sequence);

 private:
  struct entry {
    live_object object;  // of a dead one the version alone
    bool live = true;
    uint64_t removal_file = 0;  // of a dead one: the last file that says so
    uint32_t put_count = 0;     // puts in files that are there
  };
  struct file_use {
    uint64_t live_size = 0;  // bytes
    uint64_t removal_count =
        0;  // of removals, those that are the last word on a put that is somewhere
    std::vector<uint64_t> puts, amends, removals;  // versions
  };

  void apply_put(const fact &what, uint64_t file_sequence, uint64_t record_offset);
  void apply_amend(const fact &what, uint64_t file_sequence);
  void count_size(const live_object &object, bool add);
  void remove(uint64_t version, uint64_t file_sequence);
  void forget_removal(const entry &which);
  void carry_puts(uint64_t file_sequence, const file_use &use, uint64_t size_max, size_t count_max,
                  std::vector<fact> &facts) const;
  void carry_amends(uint64_t file_sequence, const file_use &use, size_t count_max,
                    std::vector<fact> &facts) const;
  void carry_removals(uint64_t file_sequence, const file_use &use, size_t count_max,
                      std::vector<fact> &facts) const;

  std::unordered_map<uint64_t, entry> entries_;  // by version
  std::unordered_map<uint64_t, file_use> files_;
  size_t live_count_ = 0;
  uint64_t live_size_ = 0;  // bytes
  uint64_t highest_version_ = 0;
};

// Who has which name once all records that were placed are durable. Used by one thread at a time.
class name_index {
 public:
  // From what is durable alone. Two objects with one name, which damage may leave, are settled in
  // favour of the later name: `lose` is told of the other and of the winner. It must not change
  // `live`.
  void build(const live_set &live,
             const std::function<void(const live_object &loser, const live_object &winner)> &lose);

  // A change takes its place among the records: names move, and the fact learns whom it supersedes.
  // What a change means that names a version that is not there is nothing.
  void place(fact &what);

 private:
  struct holder {
    std::string space, name;
  };
  uint64_t give(const std::string &space, const std::string &name, uint64_t version);
  void drop(uint64_t version);

  std::unordered_map<std::string, uint64_t> names_;  // versions by namespace, NUL, name
  std::unordered_map<uint64_t, holder> holders_;
};

}  // namespace tanada::pool
