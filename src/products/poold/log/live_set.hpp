// products/poold/log/live_set.hpp: the live objects and names of a log, and the changes for which
// each of its files is still needed.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "products/poold/log/format.hpp"

namespace tanada::pool {

// Changes name the version that they create or remove, so the result does not depend on their
// order. Only of names and flags the last one counts. Files may therefore be removed in any order,
// each once none of its changes is needed any more. A file is needed for:
// - puts of live objects;
// - the last name and flags of an object whose put, in another file, has older ones;
// - removals of objects whose puts are still in another file.
// `collect_rewrites()` returns these changes for another file. Used by one thread at a time.
class live_set {
 public:
  void apply(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset);

  const live_object *find(uint64_t version) const;
  void visit(const std::function<void(const live_object &)> &visitor) const;
  bool contains(uint64_t version) const {
    return versions_.contains(version);
  }  // whether live or removed
  size_t count() const noexcept {
    return live_count_;
  }
  uint64_t highest_version() const noexcept {
    return highest_version_;
  }

  // The size of copies of a file's live objects, and of those of all files.
  uint64_t live_size(uint64_t file_sequence) const;
  uint64_t live_size() const noexcept {
    return live_size_;
  }
  // An estimate of the size of the other changes that `collect_rewrites()` returns.
  uint64_t rewrite_size(uint64_t file_sequence) const;

  // Changes that must be durable in another file before this one may be unlinked: puts (with up to
  // `size_max` bytes of data, but at least one), else amendments and removals. At most `count_max`
  // changes. Empty: `forget_file()` may be called.
  std::vector<log_entry> collect_rewrites(uint64_t file_sequence,
                                          uint64_t size_max,
                                          size_t count_max) const;
  void forget_file(uint64_t file_sequence);

 private:
  struct version_state {
    live_object object;  // of a removed one, only the version
    bool is_live = true;
    uint64_t removal_file = 0;  // of a removed one: the last file with its removal
    uint32_t put_count = 0;     // puts in existing files
  };
  struct file_use {
    uint64_t live_size = 0;      // bytes
    uint64_t removal_count = 0;  // the last removals of versions that still have puts in some file
    std::vector<uint64_t> puts, amends, removals;  // versions
  };

  void apply_put(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset);
  void apply_amend(const log_entry &entry, uint64_t file_sequence);
  void count_size(const live_object &object, bool add);
  void remove(uint64_t version, uint64_t file_sequence);
  void uncount_removal(const version_state &state);
  void collect_puts(uint64_t file_sequence,
                    const file_use &use,
                    uint64_t size_max,
                    size_t count_max,
                    std::vector<log_entry> &entries) const;
  void collect_amends(uint64_t file_sequence,
                      const file_use &use,
                      size_t count_max,
                      std::vector<log_entry> &entries) const;
  void collect_removals(uint64_t file_sequence,
                        const file_use &use,
                        size_t count_max,
                        std::vector<log_entry> &entries) const;

  std::unordered_map<uint64_t, version_state> versions_;  // by version
  std::unordered_map<uint64_t, file_use> files_;
  size_t live_count_ = 0;
  uint64_t live_size_ = 0;  // bytes
  uint64_t highest_version_ = 0;
};

// The version that has each name once all placed records are durable. Used by one thread at a time.
class name_index {
 public:
  // Rebuild the index from the durable objects only. If damage has left two objects with one name,
  // the one that got the name later wins, and `on_conflict` is called with both. It must not change
  // `live`.
  void build(
      const live_set &live,
      const std::function<void(const live_object &loser, const live_object &winner)> &on_conflict);

  // Apply a change in the order of the records, and set the version that it supersedes. A change of
  // an unknown version has no effect.
  void apply(log_entry &entry);

 private:
  struct holder {
    std::string namespace_name, name;
  };
  uint64_t assign_name(const std::string &namespace_name,
                       const std::string &name,
                       uint64_t version);
  void release_name(uint64_t version);

  std::unordered_map<std::string, uint64_t> names_;  // versions by namespace, NUL, name
  std::unordered_map<uint64_t, holder> holders_;
};

}  // namespace tanada::pool
