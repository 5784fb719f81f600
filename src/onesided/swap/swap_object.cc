// Creating, opening and closing the swap objects of a node.
#include "onesided/swap/swap_object.hpp"

#include <sys/random.h>
#include <tanada/status.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::onesided::swap {

using seams::store_completion;
using seams::store_op;
using seams::store_op_kind;

namespace {

// A unique name that cannot be guessed: the process's number and a random one.
std::string unique_name() {
  uint64_t number = seams::monotonic_clock().now_ns();
  (void)!getrandom(&number, sizeof number, 0);
  char text[64];
  std::snprintf(text,
                sizeof text,
                "tanada-swap-%d-%016llx",
                int(getpid()),
                static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

result<std::unique_ptr<swap_objects>> swap_objects::create(seams::store &store,
                                                           const std::string &url,
                                                           uint32_t count,
                                                           uint32_t queue_depth,
                                                           uint64_t timeout_ns) {
  std::unique_ptr<swap_objects> objects{new swap_objects};
  objects->url_ = url;
  objects->timeout_ns_ = timeout_ns;
  auto queue = store.queue_create(queue_depth);
  if (!queue.ok())
    return queue.error();
  objects->queue_ = std::move(queue).value();
  std::string const base = (url.ends_with('/') ? url : url + '/') + unique_name();
  for (uint32_t i = 0; i < count; i++) {
    std::string const name = base + '-' + std::to_string(i);
    if (status const code = objects->open(name); code != status::ok) {
      return fail(
          code, "cannot create a swap object in {}: {}", url, tnd_status_text(tnd_status(code)));
    }
  }
  return objects;
}

// Once a pool's object is changed, its bytes are separate from its name. So truncate it before the
// name is removed.
status swap_objects::open(const std::string &name) {
  store_op op;
  op.kind = store_op_kind::open;
  op.url = name;
  op.open_flags = {.read = true,
                   .write = true,
                   .create = true,
                   .exclusive = true,
                   .direct = true,
                   .owner_only = true};
  auto const opened = perform(op);
  if (opened.code != status::ok)
    return opened.code;
  files_.push_back(opened.file);
  names_.push_back(name);
  op.kind = store_op_kind::truncate;
  op.file = opened.file;
  TND_TRY(perform(op).code);
  op.kind = store_op_kind::unlink;
  return perform(op).code;
}

store_completion swap_objects::perform(store_op op) {
  auto &time = seams::monotonic_clock();
  // A deadline would end only operations that have not begun. One that has begun may take any time,
  // so bound the wait here.
  uint64_t const deadline_ns = time.now_ns() + timeout_ns_;
  TND_ASSERT(queue_ != nullptr);
  store_completion completions[1];
  completions[0].code = queue_->post(std::move(op));
  if (completions[0].code != status::ok)
    return completions[0];
  while (queue_->poll(completions) == 0) {
    if (time.now_ns() > deadline_ns) {
      is_unresponsive_ = true;
      completions[0].code = status::timed_out;
      return completions[0];
    }
    time.sleep_ns(20'000);
  }
  return completions[0];
}

// A pool commits an object when it is closed. It is empty then, and its name is removed again.
void swap_objects::close(uint32_t index) {
  TND_ASSERT(files_.size() == names_.size() && index < files_.size());
  store_op op;
  op.file = files_[index];
  for (auto const kind : {store_op_kind::truncate, store_op_kind::close, store_op_kind::unlink}) {
    op.kind = kind;
    op.url = names_[index];
    if (!is_unresponsive_)
      (void)perform(op);
  }
}

swap_objects::~swap_objects() {
  if (queue_ == nullptr)
    return;
  is_unresponsive_ = is_unresponsive_ || queue_->pending_count() != 0;
  for (uint32_t i = 0; i < count(); i++)
    close(i);
}

}  // namespace tanada::onesided::swap
