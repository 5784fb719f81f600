#include "pool/log/log_state.hpp"

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
  for (const auto &[file_sequence, file] : files) stored_size += file->size;
}

void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_url(store_op_kind::unlink, file->url), [&state, file, done](const auto &unlinked) {
    if (unlinked.code != status::ok && unlinked.code != status::no_entry) return done(unlinked.code);
    state.io.post(on_url(store_op_kind::sync_names, state.options.url), [done](const auto &synced) { done(synced.code); });
  });
}

void cut_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_file(store_op_kind::truncate, file->handle, file->size), [&state, file, done](const auto &cut) {
    if (cut.code != status::ok) return done(cut.code);
    state.io.post(on_file(store_op_kind::sync, file->handle), [done](const auto &synced) { done(synced.code); });
  });
}

void close_unused(log_state &state, log_file &file) {
  if (!file.gone || file.user_count != 0 || file.handle == port::no_store_file) return;
  auto const handle = std::exchange(file.handle, port::no_store_file);
  state.io.post(on_file(store_op_kind::close, handle), [](const auto &) {});
}

}  // namespace tanada::pool
