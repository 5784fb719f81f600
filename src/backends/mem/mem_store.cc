// backends/mem/mem_store.cc: the store of mem://, whose operations complete inside post.
#include "backends/mem/mem_store.hpp"

#include <deque>

#include "backends/mem/mem_object.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_op_check.hpp"

namespace tanada::backends {
namespace {

constexpr std::string_view mem_scheme = "mem";
constexpr std::string_view mem_prefix = "mem://";

struct mem_file {
  std::shared_ptr<mem_object> object;
  bool writable;
};

using mem_files = seams::handle_table<mem_file>;

class mem_queue final : public seams::store_queue {
 public:
  mem_queue(std::shared_ptr<mem_files> files, uint32_t depth)
      : files_{std::move(files)}, depth_{depth} {}

  status post(seams::store_op op) override {
    if (done_.size() >= depth_)
      return status::again;
    TND_TRY(seams::op_check(op, mem_scheme));
    seams::store_completion completion;
    completion.op_id = op.op_id;
    bool const is_late =
        op.deadline_ns != ~uint64_t{0} && seams::monotonic_clock().now_ns() >= op.deadline_ns;
    completion.code = is_late ? status::timed_out : serve(op, completion);
    done_.push_back(std::move(completion));
    return status::ok;
  }

  size_t poll(std::span<seams::store_completion> completions) override {
    size_t count = 0;
    for (; count < completions.size() && !done_.empty(); count++) {
      completions[count] = std::move(done_.front());
      done_.pop_front();
    }
    return count;
  }

  bool try_perform(const seams::store_op &op, seams::store_completion &completion) override {
    completion.op_id = op.op_id;
    completion.code = seams::op_check(op, mem_scheme);
    if (completion.code == status::ok)
      completion.code = serve(op, completion);
    return true;
  }

  size_t pending_count() const noexcept override {
    return done_.size();
  }

 private:
  status serve(const seams::store_op &op, seams::store_completion &completion) {
    switch (op.kind) {
      case seams::store_op_kind::open:
        return open(op, completion);
      case seams::store_op_kind::unlink:
        return mem_names::process_instance().unlink(op.url);
      case seams::store_op_kind::list:
        completion.names = mem_names::process_instance().list(op.url);
        return status::ok;
      case seams::store_op_kind::sync_names:
        return status::ok;
      case seams::store_op_kind::close: {
        auto const file = files_->remove(op.file);
        if (!file)
          return status::bad_file;
        completion.stat = file->object->stat();
        return status::ok;
      }
      default: {
        status code = status::ok;
        bool const is_open = files_->visit(
            op.file, [&](mem_file &file) { code = serve_file(file, op, completion); });
        return is_open ? code : status::bad_file;
      }
    }
  }

  status open(const seams::store_op &op, seams::store_completion &completion) {
    if (op.url.size() <= mem_prefix.size())
      return fail(status::invalid, "{}: the name is missing; use mem://name", op.url);
    auto object = mem_names::process_instance().open(op.url, op.open_flags);
    if (!object.ok())
      return object.error();
    completion.stat = object.value()->stat();
    uint64_t const size = completion.stat.size;
    if (size <= seams::buffers_size(op.buffers) && object.value()->read(0, op.buffers) == size)
      completion.size = size;
    completion.file = files_->insert(
        std::make_shared<mem_file>(mem_file{std::move(object).value(), op.open_flags.write}));
    return status::ok;
  }

  static status serve_file(mem_file &file,
                           const seams::store_op &op,
                           seams::store_completion &completion) {
    bool const changes =
        op.kind == seams::store_op_kind::write || op.kind == seams::store_op_kind::truncate;
    if (changes && !file.writable)
      return status::bad_file;
    auto &object = *file.object;
    switch (op.kind) {
      case seams::store_op_kind::read:
        completion.size = object.read(op.offset, op.buffers);
        return status::ok;
      case seams::store_op_kind::write: {
        uint64_t const size = seams::buffers_size(op.buffers);
        TND_TRY(object.write(op.offset, op.buffers, size));
        completion.size = size;
        return status::ok;
      }
      case seams::store_op_kind::truncate:
        return object.truncate(op.size);
      case seams::store_op_kind::stat:
        completion.stat = object.stat();
        return status::ok;
      default:
        return status::ok;
    }
  }

  std::shared_ptr<mem_files> files_;
  std::deque<seams::store_completion> done_;
  size_t depth_;
};

class mem_store final : public seams::store {
 public:
  std::string_view scheme() const noexcept override {
    return mem_scheme;
  }

  result<std::unique_ptr<seams::store_queue>> queue_create(uint32_t depth) override {
    if (auto const code = seams::queue_depth_check(depth); code != status::ok)
      return code;
    return std::unique_ptr<seams::store_queue>{std::make_unique<mem_queue>(files_, depth)};
  }

  seams::file_access access(seams::store_file) const override {
    return {.direct = offer_, .is_cached = true};
  }

 private:
  std::shared_ptr<mem_files> files_ = std::make_shared<mem_files>();
};

}  // namespace

result<std::unique_ptr<seams::store>> mem_store_open() {
  uint64_t size_max = uint64_t{8} << 30;
  if (auto const code = environment_size("TND_MEM_STORE_SIZE_MAX", size_max); code != status::ok)
    return code;
  mem_names::process_instance().budget().limit_set(size_max);
  return std::unique_ptr<seams::store>{std::make_unique<mem_store>()};
}

}  // namespace tanada::backends
