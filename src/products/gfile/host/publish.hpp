// products/gfile/host/publish.hpp: a thread that publishes an instance's counters and files for
// `tanada gfile stat`.
#pragma once

#include <memory>
#include <thread>

#include "core/base/mutex.hpp"
#include "products/gfile/host/session.hpp"
#include "seams/os/page_folder.hpp"

namespace tanada::gfile {

class publisher {
 public:
  // Null if TND_GFILE_PUBLISH=off, or if there is no place to publish at; the reason is logged at
  // level info, and the instance works without it. invalid: the variable is neither on nor off.
  // `session` outlives the publisher.
  static result<std::unique_ptr<publisher>> create(session &session,
                                                   const tnd_gfile_config &settings);
  // Removes the page.
  ~publisher();
  publisher(const publisher &) = delete;

 private:
  publisher(session &session,
            const tnd_gfile_config &settings,
            std::unique_ptr<seams::page_file> page);
  void run();
  bool publish();

  session &session_;
  tnd_gfile_config const settings_;
  std::unique_ptr<seams::page_file> page_;
  uint64_t const created_ns_;
  mutex mutex_;
  condition_variable changed_;
  bool stopping_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tanada::gfile
