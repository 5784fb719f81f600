#include "backends/sockets/joint_descriptor.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "seams/os/poller.hpp"

namespace tanada::port {

namespace {

class joint_epoll final : public joint_descriptor {
 public:
  joint_epoll() : all_{epoll_create1(EPOLL_CLOEXEC)} {
    joint_epoll::add(event_.descriptor());
  }
  joint_epoll(const joint_epoll &) = delete;
  joint_epoll &operator=(const joint_epoll &) = delete;
  ~joint_epoll() override {
    if (all_ >= 0)
      ::close(all_);
  }
  bool is_good() const {
    return all_ >= 0 && event_.descriptor() >= 0;
  }

  int descriptor() const noexcept override {
    return all_;
  }
  void add(int other) noexcept override {
    epoll_event event{.events = EPOLLIN, .data = {.fd = other}};
    if (other >= 0)
      epoll_ctl(all_, EPOLL_CTL_ADD, other, &event);
  }
  void remove(int other) noexcept override {
    if (other >= 0)
      epoll_ctl(all_, EPOLL_CTL_DEL, other, nullptr);
  }
  void raise() noexcept override {
    event_.wake();
  }
  void lower() noexcept override {
    event_.clear();
  }

 private:
  waker event_;
  int const all_;
};

}  // namespace

result<std::unique_ptr<joint_descriptor>> joint_descriptor::create() {
  auto made = std::make_unique<joint_epoll>();
  if (!made->is_good())
    return fail(status::too_many_files, "no descriptor is left to wait by (see ulimit -n)");
  return std::unique_ptr<joint_descriptor>{std::move(made)};
}

}  // namespace tanada::port
