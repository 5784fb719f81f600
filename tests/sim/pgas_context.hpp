// tests/sim/pgas_context.hpp: contexts of either kind for programs under simulation, and a queue
// that carries out requests as late as permitted.
#pragma once

#include <cstring>
#include <vector>

#include "onesided/job/staging.hpp"
#include "seams/fabric/update_word.hpp"
#include "sim/world.hpp"

namespace tanada::test {

struct sim_context {
  using pe_index = onesided::pe_index;
  using place = onesided::symmetric_address;
  virtual ~sim_context() = default;
  virtual status put(pe_index pe, place to, const void *source, size_t size) = 0;
  virtual status put_nbi(pe_index pe, place to, const void *source, size_t size) = 0;
  virtual status get(pe_index pe, void *target, place from, size_t size) = 0;
  virtual status get_nbi(pe_index pe, void *target, place from, size_t size) = 0;
  virtual status update(pe_index pe,
                        place to,
                        const onesided::remote_context::atomic &what,
                        void *result) = 0;
  virtual status update_nbi(pe_index pe,
                            place to,
                            const onesided::remote_context::atomic &what,
                            void *result) = 0;
  virtual status accumulate(
      pe_index pe, place to, seams::fabric_element element, const void *source, size_t size) = 0;
  virtual status put_signal(pe_index pe,
                            place to,
                            const void *source,
                            size_t size,
                            const onesided::remote_context::signal &then) = 0;
  virtual status put_signal_nbi(pe_index pe,
                                place to,
                                const void *source,
                                size_t size,
                                const onesided::remote_context::signal &then) = 0;
  virtual void fence() = 0;
  virtual status quiet() = 0;
};

template <class Context>
class sim_context_of final : public sim_context {
 public:
  template <class Owner>
  explicit sim_context_of(Owner &owner) : is_{owner} {}

  status put(pe_index pe, place to, const void *source, size_t size) override {
    return is_.put(pe, to, source, size);
  }
  status put_nbi(pe_index pe, place to, const void *source, size_t size) override {
    return is_.put_nbi(pe, to, source, size);
  }
  status get(pe_index pe, void *target, place from, size_t size) override {
    return is_.get(pe, target, from, size);
  }
  status get_nbi(pe_index pe, void *target, place from, size_t size) override {
    return is_.get_nbi(pe, target, from, size);
  }
  status update(pe_index pe,
                place to,
                const onesided::remote_context::atomic &what,
                void *result) override {
    return is_.update(pe, to, what, result);
  }
  status update_nbi(pe_index pe,
                    place to,
                    const onesided::remote_context::atomic &what,
                    void *result) override {
    return is_.update_nbi(pe, to, what, result);
  }
  status accumulate(pe_index pe,
                    place to,
                    seams::fabric_element element,
                    const void *source,
                    size_t size) override {
    if constexpr (requires { is_.accumulate(pe, to, element, source, size); })
      return is_.accumulate(pe, to, element, source, size);
    else
      return status::not_supported;
  }
  status put_signal(pe_index pe,
                    place to,
                    const void *source,
                    size_t size,
                    const onesided::remote_context::signal &then) override {
    return is_.put_signal(pe, to, source, size, then);
  }
  status put_signal_nbi(pe_index pe,
                        place to,
                        const void *source,
                        size_t size,
                        const onesided::remote_context::signal &then) override {
    return is_.put_signal_nbi(pe, to, source, size, then);
  }
  void fence() override {
    is_.fence();
  }
  status quiet() override {
    return is_.quiet();
  }

 private:
  Context is_;
};

// A request without a wait is carried out during a later wait, in any order that order() permits;
// the source of a copy is read then.
class late_queue final : public seams::device_queue {
 public:
  explicit late_queue(sim::world &world) : world_{world} {}
  ~late_queue() override = default;

  status put(void *target, const void *source, size_t size) override {
    auto const *const from = static_cast<const std::byte *>(source);
    due_.push_back({static_cast<std::byte *>(target), nullptr, {from, from + size}, size, {}});
    return status::ok;
  }
  status get(void *target, const void *source, size_t size) override {
    perform(ordered_);
    std::memcpy(target, source, size);
    return status::ok;
  }
  status copy(void *target, const void *source, size_t size) override {
    due_.push_back(
        {static_cast<std::byte *>(target), static_cast<const std::byte *>(source), {}, size, {}});
    return status::ok;
  }
  status copy_rows(void *, const void *, const seams::row_shape &) override {
    return status::not_supported;
  }
  status update(void *target, const seams::word_update &what, uint64_t *before) override {
    if (before == nullptr) {
      due_.push_back({static_cast<std::byte *>(target), nullptr, {}, 0, what});
      return status::ok;
    }
    perform(ordered_);
    *before = update_now(target, what);
    return status::ok;
  }
  // As for a stream: it carries out nothing.
  status order() override {
    perform(ordered_);
    ordered_ = due_.size();
    return status::ok;
  }
  status wait(uint64_t deadline_ns) override {
    perform(ordered_);
    if (deadline_ns == 0 && !due_.empty() && world_.random.chance(75))
      return status::timed_out;
    perform(due_.size());
    return status::ok;
  }

 private:
  // The first `count`, in any order.
  void perform(size_t count) {
    ordered_ = 0;
    for (; count != 0; count--) {
      auto const at = due_.begin() + ptrdiff_t(world_.random.below(count));
      auto const next = std::move(*at);
      due_.erase(at);
      if (next.size == 0)
        update_now(next.target, next.what);
      else
        std::memcpy(
            next.target, next.source != nullptr ? next.source : next.bytes.data(), next.size);
    }
  }

  struct due {
    std::byte *target;
    const std::byte *source;
    std::vector<std::byte> bytes;
    size_t size;  // 0: an update
    seams::word_update what;
  };

  static uint64_t update_now(void *target, const seams::word_update &what) {
    if (what.element == seams::fabric_element::u64)
      return seams::update_word(
          what.kind, static_cast<uint64_t *>(target), what.operand, what.compare);
    return seams::update_word(
        what.kind, static_cast<uint32_t *>(target), uint32_t(what.operand), uint32_t(what.compare));
  }

  sim::world &world_;
  std::vector<due> due_;
  size_t ordered_ = 0;  // of them, before all later ones
};

}  // namespace tanada::test
