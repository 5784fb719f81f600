// pool_call.hpp: runs a call over a connection without the GIL, with the connection's mutex, on a
// valid handle.
#pragma once

#include <unistd.h>

#include "pool.hpp"

namespace tanada::python {

inline bool is_foreign(const connection &over) {
  return over.process != getpid();
}

/// Throws the error of `call(tnd_pool *)`, which returns an outcome.
template <class Call>
void call_over(connection &over, Call &&call) {
  // A thread of the parent may have held the mutex when this process was forked.
  if (is_foreign(over))
    check({-TND_ESTATE, "the connection is the parent process's; connect in this one"});
  call_without_gil([&] {
    std::lock_guard const lock{over.mutex};
    return over.closed ? outcome{-TND_ESTATE, "the connection is closed"} : call(over.handle);
  });
}

/// Throws the error of `call(tnd_pool_object *)`, which returns an outcome.
template <class Call>
void call_on(opened &of, Call &&call) {
  call_over(*of.over, [&](tnd_pool *) {
    return of.closed ? outcome{-TND_ESTATE, "the object is closed"} : call(of.handle);
  });
}

}  // namespace tanada::python
