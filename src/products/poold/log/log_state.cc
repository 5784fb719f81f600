#include "products/poold/log/log_state.hpp"

#include <tanada/status.h>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using port::store_op_kind;

log_state::log_state(const log_options &options_, store_io &io_, recovered_log recovered)
    : options{options_},
      io{io_},
      files{std::move(recovered.files)},
      live{std::move(recovered.live)},
      names{std::move(recovered.names)},
      identity{recovered.identity},
      next_sequence{recovered.next_sequence},
      next_file_sequence{recovered.next_file_sequence},
      durable_sequence{recovered.next_sequence - 1},
      marked_sequence{recovered.durable_sequence},
      content_sequence{recovered.content_sequence} {
  for (const auto &[file_sequence, file] : files)
    stored_size += file->size;
}

void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_url(store_op_kind::unlink, file->url),
                [&state, file, done](const auto &unlinked) {
                  if (unlinked.code != status::ok && unlinked.code != status::no_entry)
                    return done(unlinked.code);
                  state.io.post(on_url(store_op_kind::sync_names, state.options.url),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void cut_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_file(store_op_kind::truncate, file->handle, file->size),
                [&state, file, done](const auto &cut) {
                  if (cut.code != status::ok)
                    return done(cut.code);
                  state.io.post(on_file(store_op_kind::sync, file->handle),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void release_reserve(log_state &state) {
  room_reserve *const reserve = state.options.reserve;
  if (reserve == nullptr || state.is_full)
    return;
  state.is_full = true;
  auto const code = reserve->release();
  log(log_level::error,
      "%s: the file system is full: puts are refused until it has room for the reserve of %llu "
      "bytes (%s); remove objects",
      state.options.url.c_str(), static_cast<unsigned long long>(reserve->size()),
      code == status::ok ? "released to removals" : tnd_status_name(tnd_status(code)));
}

bool acquire_reserve(log_state &state, uint64_t now_ns) {
  if (!state.is_full)
    return true;
  if (now_ns < state.reserve_retry_ns)
    return false;
  auto const code = state.options.reserve->acquire();
  if (code == status::ok) {
    log(log_level::info, "%s: the file system has room again: puts are taken",
        state.options.url.c_str());
    state.is_full = false;
    return true;
  }
  state.reserve_retry_ns = port::deadline_after(now_ns, state.options.retry_delay_ns);
  return false;
}

void close_unused(log_state &state, log_file &file) {
  if (!file.gone || file.user_count != 0 || file.handle == port::no_store_file)
    return;
  auto const handle = std::exchange(file.handle, port::no_store_file);
  state.io.post(on_file(store_op_kind::close, handle), [](const auto &) {});
}

}  // namespace tanada::pool
