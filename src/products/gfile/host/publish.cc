// products/gfile/host/publish.cc: periodically writes an instance's statistics page.
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
static_assert(interval_min < interval_max);
constexpr int idle_per_work =
    300;  // limits the thread to 1 in 300 of a processor, even with many files

// Handlers of exit() that were registered before ours shut down the device's library. After ours
// has run, no publisher calls the device. Never destroyed.
struct exit_state {
  tanada::mutex mutex;  // held while a publisher reads the device
  std::atomic<bool> is_exiting = false;
};

exit_state &process_exit() {
  static exit_state &instance = *new exit_state;
  return instance;
}

void register_exit_handler() {
  static int const once = std::atexit([] {
    bool locked = process_exit().mutex.try_lock();
    for (int i = 0; i < 1000 && !locked; i++) {  // a second: a hung device must not block exit()
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      locked = process_exit().mutex.try_lock();
    }
    process_exit().is_exiting = true;
    if (locked)
      process_exit().mutex.unlock();
  });
  (void)once;
}

}  // namespace

publisher::publisher(session &session,
                     const tnd_gfile_config &settings,
                     std::unique_ptr<seams::page_file> page)
    : session_{session},
      settings_{settings},
      page_{std::move(page)},
      created_ns_{seams::monotonic_clock().now_ns()} {
  seams::signals_blocked const blocked;
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

result<std::unique_ptr<publisher>> publisher::create(session &session,
                                                     const tnd_gfile_config &settings) {
  static constexpr std::string_view choices[] = {"off", "on"};
  uint32_t choice = 1;
  if (status const code = environment_choice("TND_GFILE_PUBLISH", choices, choice);
      code != status::ok)
    return code;
  if (choice == 0)
    return std::unique_ptr<publisher>{};
  auto page = seams::page_file::create(seams::page_folder_path(), stat_page_kind);
  if (!page.ok()) {
    log(log_level::info, "counters are not published: {}", last_message());
    return std::unique_ptr<publisher>{};
  }
  register_exit_handler();
  return std::unique_ptr<publisher>{new publisher{session, settings, std::move(page).value()}};
}

void publisher::run() {
  pthread_setname_np(pthread_self(), "tanada publish");
  unique_lock lock{mutex_};
  std::chrono::nanoseconds interval{0};
  do {
    lock.unlock();
    uint64_t const begin_ns = seams::monotonic_clock().now_ns();
    bool const continues = publish();
    interval =
        std::chrono::nanoseconds{(seams::monotonic_clock().now_ns() - begin_ns) * idle_per_work};
    interval = std::clamp(interval, interval_min, interval_max);
    lock.lock();
    if (!continues)
      return;
  } while (!changed_.wait_for(lock, interval, [this] {
    mutex_.assert_held();
    return stopping_;
  }));
}

// Returns false if the device is lost or the process ends. On a full file system the page stays as
// it is.
bool publisher::publish() {
  stat_page_header header{};
  std::vector<tnd_gfile_file> files;
  {
    lock_guard const lock{process_exit().mutex};
    if (process_exit().is_exiting)
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
  header.now_ns = seams::monotonic_clock().now_ns();
  header.service_threads = settings_.service_threads;
  header.file_total = uint32_t(files.size());
  std::strncpy(header.program, program_invocation_short_name, sizeof header.program - 1);
  (void)page_->publish(make_stat_page(header, files));
  return true;
}

}  // namespace tanada::gfile
