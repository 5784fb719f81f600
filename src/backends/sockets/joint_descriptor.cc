// backends/sockets/joint_descriptor.cc: an epoll descriptor over several descriptors and an event.
#include "backends/sockets/joint_descriptor.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "seams/os/poller.hpp"

namespace tanada::backends {

namespace {

class joint_epoll final : public joint_descriptor {
 public:
  joint_epoll() : epoll_{epoll_create1(EPOLL_CLOEXEC)} {
    joint_epoll::add(event_.descriptor());
  }
  joint_epoll(const joint_epoll &) = delete;
  joint_epoll &operator=(const joint_epoll &) = delete;
  ~joint_epoll() override {
    if (epoll_ >= 0)
      ::close(epoll_);
  }
  bool is_good() const {
    return epoll_ >= 0 && event_.descriptor() >= 0;
  }

  int descriptor() const noexcept override {
    return epoll_;
  }
  void add(int member) noexcept override {
    epoll_event event{.events = EPOLLIN, .data = {.fd = member}};
    if (member >= 0)
      epoll_ctl(epoll_, EPOLL_CTL_ADD, member, &event);
  }
  void remove(int member) noexcept override {
    if (member >= 0)
      epoll_ctl(epoll_, EPOLL_CTL_DEL, member, nullptr);
  }
  void raise() noexcept override {
    event_.wake();
  }
  void lower() noexcept override {
    event_.clear();
  }

 private:
  seams::waker event_;
  int const epoll_;
};

}  // namespace

result<std::unique_ptr<joint_descriptor>> joint_descriptor::create() {
  auto created = std::make_unique<joint_epoll>();
  if (!created->is_good())
    return fail(status::too_many_files, "cannot create a descriptor to wait on (see ulimit -n)");
  return std::unique_ptr<joint_descriptor>{std::move(created)};
}

}  // namespace tanada::backends
