// products/poold/testing/journal_fixture.hpp: a catalog and its journal, whose log is in a
// simulated store.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "products/poold/catalog.hpp"
#include "products/poold/durable.hpp"
#include "products/poold/testing/sizes.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::poold {

class journal_fixture : public testing::Test {
 protected:
  journal_fixture() {
    settings_.url = "sim://log/";
  }
  // Ends what runs, and opens the log with what it has.
  void open_log(durable_options keeping, catalog_options limits) {
    objects_.reset();
    journal_.reset();
    memory_.reset();
    memory_ = pool_memory::create(room_).value();
    keeping.folder = settings_.url;
    keeping.with_data = settings_.with_data;
    journal_ = durable_journal::open_with(store_, clock_, *memory_, keeping, settings_).value();
    if (keeping.is_tiered)
      limits.cold = journal_.get();
    objects_ = std::make_unique<catalog>(*memory_, journal_.get(), limits);
  }
  void drain() {
    ASSERT_EQ(journal_->drain(clock_.now_ns() + 10'000'000'000), status::ok);
  }
  void fail_writes(bool on) {
    sim::store_faults faults;
    if (on)
      faults.errors[size_t(seams::store_op_kind::write)] = {100, status::io};
    store_.faults_set(faults);
  }

  memory_options room_{.capacity = 4 * mib, .segment_size = 2 * mib, .prefault = false};
  pool::log_options settings_;
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store store_{world_};
  std::unique_ptr<pool_memory> memory_;
  std::unique_ptr<durable_journal> journal_;
  std::unique_ptr<catalog> objects_;
  uint64_t space_ = 0;  // a namespace
};

}  // namespace tanada::poold
