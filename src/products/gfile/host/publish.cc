#include "products/gfile/host/publish.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/gfile/host/stat_page.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::gfile {
namespace {

constexpr std::chrono::nanoseconds interval_min = std::chrono::milliseconds(250);
constexpr std::chrono::nanoseconds interval_max = std::chrono::seconds(2);
constexpr int rest_per_work =
    300;  // so that many files do not make it take more of a processor than 1 in 300

// The device's library is taken down by handlers of exit() that were registered before ours; after
// ours has run no publisher asks it for anything. Never destroyed.
struct end_of_process {
  tanada::mutex mutex;  // held while a publisher reads the device
  std::atomic<bool> is_near = false;
};

end_of_process &ending() {
  static end_of_process &instance = *new end_of_process;
  return instance;
}

void watch_for_the_end() {
  static int const once = std::atexit([] {
    bool locked = ending().mutex.try_lock();
    for (int i = 0; i < 1000 && !locked; i++) {  // a second: a hung device must not hold up exit()
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      locked = ending().mutex.try_lock();
    }
    ending().is_near = true;
    if (locked)
      ending().mutex.unlock();
  });
  (void)once;
}

}  // namespace

publisher::publisher(session &of, const tnd_gfile_config &settings,
                     std::unique_ptr<port::page_file> page)
    : session_{of},
      settings_{settings},
      page_{std::move(page)},
      created_ns_{port::monotonic_clock().now_ns()} {
  port::signals_blocked const blocked;
  thread_ = std::thread{[this] {
    run();
  }};
}

publisher::~publisher() {
  {
    lock_guard const lock{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

result<std::unique_ptr<publisher>> publisher::create(session &of,
                                                     const tnd_gfile_config &settings) {
  static constexpr std::string_view choices[] = {"off", "on"};
  uint32_t wanted = 1;
  if (status const code = environment_choice("TND_GFILE_PUBLISH", choices, wanted);
      code != status::ok)
    return code;
  if (wanted == 0)
    return std::unique_ptr<publisher>{};
  auto page = port::page_file::create(port::page_folder_path(), stat_page_kind);
  if (!page.ok()) {
    log(log_level::info, "counters are not published: %s", last_message().c_str());
    return std::unique_ptr<publisher>{};
  }
  watch_for_the_end();
  return std::unique_ptr<publisher>{new publisher{of, settings, std::move(page).value()}};
}

void publisher::run() {
  pthread_setname_np(pthread_self(), "tanada publish");
  unique_lock lock{mutex_};
  std::chrono::nanoseconds interval{0};
  do {
    lock.unlock();
    uint64_t const begin_ns = port::monotonic_clock().now_ns();
    bool const goes_on = publish();
    interval =
        std::chrono::nanoseconds{(port::monotonic_clock().now_ns() - begin_ns) * rest_per_work};
    interval = std::clamp(interval, interval_min, interval_max);
    lock.lock();
    if (!goes_on)
      return;
  } while (!changed_.wait_for(lock, interval, [this] { return stopping_; }));
}

// False: the device is lost, or the process ends. A full file system leaves the page as it is.
bool publisher::publish() {
  stat_page_header header{};
  std::vector<tnd_gfile_file> files;
  {
    lock_guard const lock{ending().mutex};
    if (ending().is_near)
      return false;
    if (session_.get_statistics(header.statistics) != status::ok ||
        session_.get_files(files) != status::ok)
      return false;
  }
  header.process = uint32_t(getpid());
  header.page_size = settings_.page_size;
  header.device_tier_size = settings_.device_tier_size;
  header.host_tier_size = settings_.host_tier_size;
  header.created_ns = created_ns_;
  header.now_ns = port::monotonic_clock().now_ns();
  header.service_threads = settings_.service_threads;
  header.file_total = uint32_t(files.size());
  std::strncpy(header.program, program_invocation_short_name, sizeof header.program - 1);
  (void)page_->publish(make_stat_page(header, files));
  return true;
}

}  // namespace tanada::gfile
