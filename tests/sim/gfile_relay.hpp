// A layer between gfile and the simulated store: operation ids that do not depend on addresses, so
// that a seed gives one trace, and faults that no store may have, to prove that the checks detect
// them.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "sim/store.hpp"

namespace gfile_sim {

using tanada::seams::store_completion;
using tanada::seams::store_op;
using tanada::seams::store_op_kind;
using tanada::status;

enum class plant {
  none,
  lost_write,      // a write returns ok and changed nothing
  hidden_error,    // a write that failed returns ok
  flipped_read,    // a read returns a wrong byte
  flipped_direct,  // the same, only for reads to the direct window
  stale_version,   // every file always has the same version
  jumping_clock,   // the device's clock jumps ahead now and then
  kept_page,       // a kernel does not unmap a page
};

class relay_queue final : public tanada::seams::store_queue {
 public:
  relay_queue(std::unique_ptr<store_queue> under,
              tanada::sim::world &world,
              plant planted,
              const tanada::seams::device_window &window)
      : under_{std::move(under)}, world_{world}, planted_{planted}, window_{window} {}

  status post(store_op op) override {
    posted mine{op.op_id, op.kind, op.buffers};
    op.op_id = next_id_++;
    uint64_t const id = op.op_id;
    status const code = under_->post(std::move(op));
    if (code == status::ok)
      posted_.emplace(id, std::move(mine));
    return code;
  }

  // Completions may come long after their effect, and in another order.
  size_t poll(std::span<store_completion> completions) override {
    store_completion fresh[16];
    for (size_t count = under_->poll(fresh); count > 0; count = under_->poll(fresh))
      for (size_t i = 0; i < count; i++)
        late_.push_back(std::move(fresh[i]));
    size_t count = 0;
    for (size_t i = 0; i < late_.size() && count < completions.size();) {
      if (world_.random.chance(50)) {
        i++;
        continue;
      }
      store_completion &done = completions[count++];
      done = std::move(late_[i]);
      late_.erase(late_.begin() + std::ptrdiff_t(i));
      posted const mine = posted_.extract(done.op_id).mapped();
      done.op_id = mine.op_id;
      spoil(mine, done);
    }
    return count;
  }

  size_t pending_count() const noexcept override {
    return under_->pending_count() + late_.size();
  }

 private:
  struct posted {
    uint64_t op_id;
    store_op_kind kind;
    std::vector<tanada::seams::store_buffer> buffers;
  };

  void spoil(const posted &op, store_completion &done) {
    if (planted_ == plant::hidden_error && op.kind == store_op_kind::write &&
        done.code != status::ok) {
      done.code = status::ok;
      done.size = 0;
      for (auto const &buffer : op.buffers)
        done.size += buffer.size;
    }
    bool const moves = op.kind == store_op_kind::read || op.kind == store_op_kind::open;
    bool const reads = moves && done.size > 0;
    bool const flips = planted_ == plant::flipped_direct
                           ? reads && window_.contains(op.buffers[0])
                           : planted_ == plant::flipped_read && reads && world_.random.chance(10);
    if (flips)
      op.buffers[0].addr[world_.random.below(std::min<uint64_t>(done.size, op.buffers[0].size))] ^=
          std::byte{0x40};
    if (planted_ == plant::stale_version) {
      done.stat.version = 1;
      done.stat.is_version_stable = true;
    }
  }

  std::unique_ptr<store_queue> under_;
  tanada::sim::world &world_;
  plant planted_;
  tanada::seams::device_window window_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, posted> posted_;
  std::vector<store_completion> late_;
};

class relay_store final : public tanada::seams::store {
 public:
  relay_store(tanada::sim::world &world, const tanada::sim::store_faults &faults, plant planted)
      : under{world, faults}, world_{world}, planted_{planted} {}

  std::string_view scheme() const noexcept override {
    return under.scheme();
  }

  tanada::result<std::unique_ptr<tanada::seams::store_queue>> queue_create(
      uint32_t depth) override {
    auto made = under.queue_create(depth);
    if (!made.ok())
      return made.error();
    return std::unique_ptr<tanada::seams::store_queue>{
        std::make_unique<relay_queue>(std::move(made).value(), world_, planted_, window_)};
  }

  void attach(const tanada::seams::device_window &window, bool compatible_too) override {
    store::attach(window, compatible_too);
    window_ = window;
  }

  tanada::seams::file_access access(tanada::seams::store_file) const override {
    return {.direct = offer_, .is_cached = is_cached};
  }

  tanada::sim::store under;
  bool is_cached = false;  // kernels may request lists of pages

 private:
  tanada::seams::device_window window_;
  tanada::sim::world &world_;
  plant planted_;
};

}  // namespace gfile_sim
