// products/poold/journal.hpp: the interface through which the catalog makes its changes durable.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "products/poold/cold_store.hpp"
#include "products/poold/object.hpp"

namespace tanada::poold {

struct change {
  enum class kind : uint8_t { put, remove, rename, set_flags };
  kind type = kind::put;
  uint64_t version = 0;        // of the object
  object_ref object;           // not of a removal
  std::string namespace_name;  // the namespace
  std::string name;            // the object's; rename: the new name
  std::string old_name;        // rename: the previous name
  uint64_t replaced_version =
      0;                    // put, rename: the version that had the name; 0: the name was free
  uint32_t flags = 0;       // put: at its commit; set_flags: the new flags
  bool is_replica = false;  // a change that another server of the cluster has made
  std::vector<uint64_t>
      stripe_versions{};  // put of a striped object: of its stripes, if all are here
  std::shared_ptr<cold_reader> reader{};  // of a cold object whose bytes may have to be copied
};

// Fill in the fields that all kinds of change have.
inline change make_change(change::kind type,
                          const object &target,
                          const std::string &namespace_name,
                          const std::string &name) {
  change created;
  created.type = type;
  created.version = target.metadata.version;
  created.namespace_name = namespace_name;
  created.name = name;
  return created;
}

// Called with the outcome of changes; empty: nobody waits for it.
class journal_callback {
 public:
  journal_callback() = default;
  template <class Function>
    requires std::is_invocable_v<Function, status>
  journal_callback(Function function, bool waits_for_disk = true)
      : function_{std::move(function)}, waits_for_disk_{waits_for_disk} {}

  explicit operator bool() const noexcept {
    return bool(function_);
  }
  void operator()(status code) const {
    function_(code);
  }

  // False: the changes need only be on the other servers of a cluster that hold them.
  bool waits_for_disk() const noexcept {
    return waits_for_disk_;
  }

 private:
  std::function<void(status)> function_;
  bool waits_for_disk_ = false;
};

// Whether a journal has what was appended to it.
struct journal_condition {
  bool is_whole = true;       // false: it differs from the catalog, because a change failed
  status cause = status::ok;  // of the last failure
};

// The name of an object.
struct object_place {
  std::string namespace_name, name;
  auto operator<=>(const object_place &) const = default;
};

// Thread-safe.
class journal {
 public:
  virtual ~journal() = default;

  // Make these changes durable, all or none of them, after all that were appended before. Does not
  // block. The caller holds the catalog's mutex, so `done` is called later, from another thread.
  // Until then the memory of `superseded` is not reused, because a crash brings those objects back.
  virtual void append(std::vector<change> changes,
                      std::vector<object_ref> superseded,
                      journal_callback done) = 0;

  // False: nothing outlives the daemon.
  virtual bool is_durable() const {
    return true;
  }

  // It is whole again once the names that differ were appended again, as by catalog::rewrite().
  virtual journal_condition condition() const {
    return {};
  }
  // At most so many of the names that differ.
  virtual std::vector<object_place> unwritten_places(size_t count_max) const {
    (void)count_max;
    return {};
  }

  // So many changes are outstanding that commits should wait for the journal.
  virtual bool is_congested() const = 0;
};

}  // namespace tanada::poold
