// The striped objects of a pool that has one server: their limits, and the removal of stripes.
#include "products/poold/local_stripes.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/assert.hpp"
#include "products/pool/auth.hpp"

namespace tanada::poold {

using namespace wire::pool;

namespace {

constexpr uint64_t stripe_alignment = 4096;
// A larger object could not be in memory beside others, or grow there. A writer or reader has few
// stripes in memory at a time, so several of them have room.
constexpr uint64_t objects_per_memory = 4, stripes_per_memory = 16;
constexpr uint64_t stripe_size_min = 16 << 10;

stripe_limits_reply limits_for(const local_stripes::options &settings) {
  uint64_t const share = settings.memory_size / stripes_per_memory;
  uint64_t const size = std::min(settings.stripe_size, share) / stripe_alignment * stripe_alignment;
  if (size < stripe_size_min)
    return {};
  return {settings.memory_size / objects_per_memory, size};
}

}  // namespace

local_stripes::local_stripes(const options &settings, catalog &objects)
    : options_{settings},
      objects_{objects},
      limits_{limits_for(settings)},
      search_ns_{settings.clock->now_ns()} {
  TND_ASSERT(options_.page_size > 0);
  run_ = options_.run;
  if (run_ == 0) {
    pool::bytes32 const random = pool::random_bytes();
    std::memcpy(&run_, random.data(), sizeof run_);
  }
}

local_stripes::~local_stripes() {
  stop();
}

void local_stripes::progress() {
  stripe_ledger &ledger = *objects_.striped();
  if (options_.clock->now_ns() >= search_ns_) {
    search_ns_ = options_.clock->now_ns() + options_.period_ns;
    search();
  }
  for (const striped_key &key : ledger.take_dropped())
    ledger.add_suspect(key);
  for (const striped_key &key : ledger.take_suspects())
    if (!ledger.contains(key))
      objects_.remove_stripes(key);
}

// Suspect every object that has stripes and is not in the ledger.
void local_stripes::search() {
  stripe_ledger &ledger = *objects_.striped();
  catalog::object_place position;
  auto const has_stripes = [](const std::string &name) {
    return stripe_space_parse(name).has_value();
  };
  for (bool more = true; more;) {
    size_t count = 0;
    more =
        objects_.visit_objects(has_stripes,
                               position,
                               options_.page_size,
                               [&](const catalog::object_place &place, const object_ref &) {
                                 position = place;
                                 count++;
                                 auto const space = stripe_space_parse(place.namespace_name);
                                 auto const id = stripe_name_parse(place.name);
                                 if (space && id && !ledger.contains({space->namespace_name, *id}))
                                   ledger.add_suspect({space->namespace_name, *id});
                                 return true;
                               });
    more = more && count > 0;
  }
}

void local_stripes::start() {
  TND_ASSERT(!thread_.joinable());
  objects_.striped()->set_wake([this] {
    lock_guard lock{mutex_};
    is_woken_ = true;
    changed_.notify_all();
  });
  thread_ = std::thread{[this] {
    run();
  }};
}

void local_stripes::stop() {
  if (!thread_.joinable())
    return;
  objects_.striped()->set_wake({});
  {
    lock_guard lock{mutex_};
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void local_stripes::run() {
  for (;;) {
    progress();
    unique_lock lock{mutex_};
    changed_.wait_for(lock, std::chrono::nanoseconds{options_.period_ns}, [this] {
      mutex_.assert_held();
      return is_woken_ || is_ending_;
    });
    if (is_ending_)
      return;
    is_woken_ = false;
  }
}

}  // namespace tanada::poold
