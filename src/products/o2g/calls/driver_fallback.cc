// products/o2g/calls/driver_fallback.cc: passes calls to the driver, and replaces it if it cannot
// read the first socket.
#include "products/o2g/calls/driver_fallback.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "products/o2g/calls/receiver.hpp"

namespace tanada::o2g::calls {

driver_fallback::driver_fallback(uint32_t socket_count_max, std::unique_ptr<driver> first)
    : socket_count_max_{socket_count_max}, driver_{std::move(first)} {}

template <class Function>
auto driver_fallback::call(Function function) const {
  receive_service *service = decided_.load(std::memory_order_acquire);
  if (service != nullptr)
    return function(*service);
  lock_guard lock{mutex_};
  service = decided_.load(std::memory_order_relaxed);
  return function(service != nullptr ? *service : *driver_);
}

status driver_fallback::add_socket(int socket, int rank) {
  if (receive_service *const service = decided_.load(std::memory_order_acquire); service != nullptr)
    return service->add_socket(socket, rank);
  lock_guard lock{mutex_};
  if (receive_service *const service = decided_.load(std::memory_order_relaxed); service != nullptr)
    return service->add_socket(socket, rank);
  {
    message_deferral deferral;
    status const code = driver_->add_socket(socket, rank);
    if (code == status::ok)
      decided_.store(driver_.get(), std::memory_order_release);
    if (code != status::not_supported)
      return code;
    std::string const reason = deferral.take(code);
    log(log_level::info, "o2g: this process receives, and not the driver: {}", reason.c_str());
  }
  TND_TRY(replace());
  return receiver_->add_socket(socket, rank);
}

// Gives everything that the program has put into the driver to a receiver.
status driver_fallback::replace() {
  TND_ASSERT(mutex_.is_held());
  TND_ASSIGN(std::unique_ptr<receive_service> created, receiver::create(socket_count_max_));
  if (!dump_area_.empty())
    TND_TRY(created->set_dump_area(dump_area_));
  TND_TRY(created->start_threads(thread_count_));
  for (queue_entry *const entry : driver_->take_queue()) {
    status const code = created->put(*entry);
    TND_ASSERT(code == status::ok);  // it has no message, and no connection that could have ended
  }
  driver_.reset();
  receiver_ = std::move(created);
  decided_.store(receiver_.get(), std::memory_order_release);
  return status::ok;
}

status driver_fallback::set_dump_area(std::span<std::byte> memory) {
  return call([&](receive_service &service) {
    TND_TRY(service.set_dump_area(memory));
    if (decided_.load(std::memory_order_relaxed) == nullptr) {
      mutex_.assert_held();
      dump_area_ = memory;
    }
    return status::ok;
  });
}

status driver_fallback::start_threads(uint32_t count) {
  return call([&](receive_service &service) {
    TND_TRY(service.start_threads(count));
    if (decided_.load(std::memory_order_relaxed) == nullptr) {
      mutex_.assert_held();
      thread_count_ += count;
    }
    return status::ok;
  });
}

status driver_fallback::put(queue_entry &entry) {
  return call([&](receive_service &service) { return service.put(entry); });
}

status driver_fallback::cancel(queue_entry &entry) {
  return call([&](receive_service &service) { return service.cancel(entry); });
}

status driver_fallback::free(queue_entry &entry) {
  return call([&](receive_service &service) { return service.free(entry); });
}

status driver_fallback::find(queue_entry &request, queue_entry *&match) {
  return call([&](receive_service &service) { return service.find(request, match); });
}

queue_entry *driver_fallback::next(const queue_entry *after) {
  return call([&](receive_service &service) { return service.next(after); });
}

uint64_t driver_fallback::sequence() const noexcept {
  return call([](receive_service &service) { return service.sequence(); });
}

uint32_t driver_fallback::flags(queue_entry &entry) noexcept {
  return call([&](receive_service &service) { return service.flags(entry); });
}

// Without a socket it does not wait.
status driver_fallback::poll(uint64_t *event_count, uint64_t timeout_ns) {
  return call([&](receive_service &service) { return service.poll(event_count, timeout_ns); });
}

status driver_fallback::rank_status(int rank) {
  return call([&](receive_service &service) { return service.rank_status(rank); });
}

void driver_fallback::count(o2g_statistics &statistics) {
  call([&](receive_service &service) { service.count(statistics); });
}

namespace {

result<service_choice> choose_receiver(uint32_t socket_count_max, const std::string &reason) {
  TND_ASSIGN(std::unique_ptr<receive_service> created, receiver::create(socket_count_max));
  return service_choice{std::move(created),
                        "o2g: this process receives, and not the driver: " + reason};
}

}  // namespace

result<service_choice> create_service(uint32_t socket_count_max,
                                      const char *setting,
                                      const char *path) {
  std::string_view const choice = setting == nullptr || *setting == '\0' ? "auto" : setting;
  if (choice == "off")
    return choose_receiver(socket_count_max, "TND_O2G_DRIVER=off");
  bool const is_required = choice == "required";
  message_deferral deferral;
  auto created = driver::create(socket_count_max, path);
  if (!created.ok()) {
    std::string const reason = deferral.take(created.error());
    if (is_required)
      return fail(created.error(), "TND_O2G_DRIVER=required: {}", reason.c_str());
    return choose_receiver(socket_count_max, reason);
  }
  std::unique_ptr<driver> first = std::move(created).value();
  std::unique_ptr<receive_service> service;
  if (is_required)
    service = std::move(first);
  else
    service = std::make_unique<driver_fallback>(socket_count_max, std::move(first));
  return service_choice{std::move(service), std::string{"o2g: the driver "} + path + " receives"};
}

}  // namespace tanada::o2g::calls
