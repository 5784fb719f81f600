// products/pool/client/call.hpp: the one template of client, for the files that hold its parts.
#pragma once

#include "core/base/log.hpp"
#include "products/pool/client/client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

template <class Request, class Reply>
status client::call(wire::pool::kind what, const Request &request, Reply &answer,
                    std::vector<iovec> sources, std::vector<iovec> targets, uint64_t *data_size) {
  TND_TRY(ready());
  tell_reads(what == wire::pool::kind::statistics);
  uint64_t const deadline_ns = deadline();
  status code = status::ok;
  bool done = false;
  uint64_t const tag =
      channel_->post(what, request, std::move(sources), std::move(targets), [&](const reply &come) {
        code = come.code;
        if (code == status::ok)
          code = wire::decode(come.body, answer);
        if (data_size != nullptr)
          *data_size = come.data_size;
        done = true;
      });
  while (!done) {
    bool const is_late = port::monotonic_clock().now_ns() >= deadline_ns;
    status const moved = is_late ? status::timed_out : channel_->progress(deadline_ns);
    if (done || moved == status::ok)
      continue;
    channel_->abandon(tag);
    // What such an answer brings later, a handle or a descriptor, would be nobody's.
    using enum wire::pool::kind;
    if (what == create || what == open || what == segment)
      channel_->end(moved);
    return fail(moved, "pool at %s: no answer in %.3f s", channel_->connection().peer().c_str(),
                double(settings_.timeout_ns) / 1e9);
  }
  if (code == status::peer_lost)
    return fail(code, "pool at %s: the connection has ended", where_.host.c_str());
  if (code == status::protocol)
    channel_->end(code);
  if constexpr (requires { request.name; })
    return named(code, request.name);
  else if constexpr (
      requires { request.set; } || requires { request.prefix; } || requires { request.only; })
    return named(code, {});
  else
    return code;
}

}  // namespace tanada::pool
