// products/poold/log/live_set.hpp: the live objects and names of a log, and the changes for which
// each of its files is still needed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
//
// A pool may have millions of small objects, so an object takes some 180 bytes here, with its name.
class live_set {
 public:
  live_set() = default;
  live_set(live_set &&) = default;
  live_set &operator=(live_set &&) = default;

  void apply(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset);

  // Empty: no such live object.
  std::optional<live_object> find(uint64_t version) const;
  bool is_live(uint64_t version) const;
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

  // The live object that has the name; 0: none. If damage has left several, that which got the name
  // last.
  uint64_t find_name(std::string_view namespace_name, std::string_view name) const;
  // Call `visitor` with each live object whose name another one got later, and that one.
  void visit_conflicts(const std::function<void(const live_object &loser,
                                                const live_object &winner)> &visitor) const;

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
  // Of few objects: changes since the put, and several extents.
  struct amendment {
    uint64_t name_order = 0, flags_order = 0;
    uint64_t name_file = 0, flags_file = 0;
    std::vector<extent> extents;
  };
  enum class place_kind : uint8_t { empty, data, single_extent, several_extents };
  struct version_state;
  using version_entry = std::pair<const uint64_t, version_state>;  // by version
  using namespace_entry = std::pair<const std::string, uint64_t>;  // the number of live objects
  struct version_state {
    namespace_entry *space = nullptr;  // of a live one
    std::unique_ptr<char[]> name;
    version_entry *next_by_name = nullptr;  // in the same bucket
    std::unique_ptr<amendment> amended;
    uint64_t size = 0, created_ns = 0, checksum = 0;
    uint64_t put_order = 0;
    uint64_t file_sequence = 0;  // with the put; of a removed one: the last file with its removal
    uint64_t offset = 0;         // of the data in the file, or of the single extent
    uint32_t flags = 0;
    uint32_t put_count = 0;  // puts in existing files
    uint16_t name_size = 0;
    place_kind place = place_kind::empty;
    checksum_kind kind{};
    bool is_live = true;

    std::string_view name_text() const noexcept {
      return {name.get(), name_size};
    }
    uint64_t name_order() const noexcept {
      return amended != nullptr ? amended->name_order : put_order;
    }
    uint64_t flags_order() const noexcept {
      return amended != nullptr ? amended->flags_order : put_order;
    }
  };
  struct file_use {
    uint64_t live_size = 0;      // bytes
    uint64_t removal_count = 0;  // the last removals of versions that still have puts in some file
    std::vector<uint64_t> puts, amends, removals;  // versions
  };

  static live_object make_object(const version_entry &stored);
  static uint64_t copy_size(const version_state &state);
  static amendment &amend(version_state &state);
  static void set_place(version_state &state, const log_entry &put, uint64_t record_offset);
  void apply_put(const log_entry &entry, uint64_t file_sequence, uint64_t record_offset);
  void update_put(version_entry &stored,
                  const log_entry &entry,
                  uint64_t file_sequence,
                  uint64_t record_offset);
  void apply_amend(const log_entry &entry, uint64_t file_sequence);
  void count_size(const version_state &state, bool add);
  void remove(uint64_t version, uint64_t file_sequence);
  void uncount_removal(const version_state &state);
  void enter_namespace(version_state &state, const std::string &namespace_name);
  void leave_namespace(version_state &state);
  void bind_name(version_entry &stored, const std::string &name);
  void unbind_name(version_entry &stored);
  void grow_buckets();
  version_entry *&bucket(std::string_view namespace_name, std::string_view name);
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
  std::unordered_map<std::string, uint64_t> namespaces_;
  std::vector<version_entry *> buckets_;  // live objects by name; the size is a power of two
  std::unordered_map<uint64_t, file_use> files_;
  size_t live_count_ = 0;
  uint64_t live_size_ = 0;  // bytes
  uint64_t highest_version_ = 0;
};

// The version that has each name once all placed records are durable: the names of the live
// objects, and the changes of records that are not durable yet. Used by one thread at a time.
class name_index {
 public:
  explicit name_index(const live_set &live) : live_{live} {}

  // Apply a change of the record with this sequence number, in the order of the records, and set
  // the version that it supersedes. A change of an unknown version has no effect.
  void apply(log_entry &entry, uint64_t sequence);

  // The live objects have the changes of all records up to this one.
  void forget_durable(uint64_t sequence);

  // The records that are not durable have failed.
  void forget_all();

 private:
  struct object_name {
    std::string namespace_name, name;
    bool operator==(const object_name &) const = default;
  };
  struct pending_holder {
    uint64_t version = 0;  // 0: the name is free
    uint64_t sequence = 0;
  };
  struct pending_name {
    std::optional<object_name> name;  // empty: removed
    uint64_t sequence = 0;
  };
  struct pending_change {
    uint64_t sequence;
    std::string key;
    uint64_t version;
  };

  std::optional<object_name> name_of(uint64_t version) const;
  uint64_t holder_of(const object_name &name) const;
  uint64_t assign_name(const object_name &name, uint64_t version, uint64_t sequence);
  void release_name(uint64_t version, uint64_t sequence);
  void set_holder(const object_name &name, uint64_t version, uint64_t sequence);
  void set_name(uint64_t version, std::optional<object_name> name, uint64_t sequence);

  const live_set &live_;
  std::unordered_map<std::string, pending_holder> holders_;  // by namespace, NUL, name
  std::unordered_map<uint64_t, pending_name> names_;         // by version
  std::deque<pending_change> changes_;                       // by ascending sequence
};

}  // namespace tanada::pool
