// backends/linux/poller.cc: epoll, and an eventfd that wakes it.
#include "seams/os/poller.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

constexpr size_t event_count_max = 64;  // for one system call

epoll_event event_of(uint64_t word, interest wanted_events) {
  epoll_event event{};
  event.events = (wanted_events.to_receive ? uint32_t(EPOLLIN) : 0u) |
                 (wanted_events.to_send ? uint32_t(EPOLLOUT) : 0u);
  event.data.u64 = word;
  return event;
}

}  // namespace

waker::waker() : descriptor_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {}
waker::~waker() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

void waker::wake() noexcept {
  uint64_t const value = 1;
  (void)!write(descriptor_, &value, sizeof value);
}

void waker::clear() noexcept {
  uint64_t count;
  (void)!read(descriptor_, &count, sizeof count);
}

poller::poller() : descriptor_{epoll_create1(EPOLL_CLOEXEC)} {}
poller::~poller() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

status poller::ready() const noexcept {
  return descriptor_ >= 0 ? status::ok : status::too_many_files;
}

status poller::add(int descriptor, uint64_t word, interest wanted_events) {
  epoll_event event = event_of(word, wanted_events);
  if (epoll_ctl(descriptor_, EPOLL_CTL_ADD, descriptor, &event) == 0)
    return status::ok;
  return fail(errno == ENOMEM || errno == ENOSPC ? status::no_memory : status::invalid,
              "epoll: {}",
              std::strerror(errno));
}

void poller::change(int descriptor, uint64_t word, interest wanted_events) {
  epoll_event event = event_of(word, wanted_events);
  epoll_ctl(descriptor_, EPOLL_CTL_MOD, descriptor, &event);
}

size_t poller::wait(std::span<uint64_t> words, int timeout_ms) {
  epoll_event events[event_count_max];
  int const count =
      epoll_wait(descriptor_, events, int(std::min(words.size(), event_count_max)), timeout_ms);
  for (int i = 0; i < count; i++)
    words[size_t(i)] = events[i].data.u64;
  return count > 0 ? size_t(count) : 0;
}

}  // namespace tanada::seams
