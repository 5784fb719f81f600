// products/gfile/host/publish.hpp: a thread that writes an instance's counters and files where
// `tanada gfile stat` reads them.
#pragma once

#include <memory>
#include <thread>

#include "core/base/mutex.hpp"
#include "products/gfile/host/session.hpp"
#include "seams/os/page_folder.hpp"

namespace tanada::gfile {

class publisher {
 public:
  // Null where TND_GFILE_PUBLISH=off, and where there is no place to publish at, which the log says
  // at level info; an instance works without. invalid: the variable is neither on nor off. `of`
  // outlives the publisher.
  static result<std::unique_ptr<publisher>> create(session &of, const tnd_gfile_config &settings);
  // Removes the page.
  ~publisher();
  publisher(const publisher &) = delete;

 private:
  publisher(session &of, const tnd_gfile_config &settings, std::unique_ptr<port::page_file> page);
  void run();
  bool publish();

  session &session_;
  tnd_gfile_config const settings_;
  std::unique_ptr<port::page_file> page_;
  uint64_t const created_ns_;
  mutex mutex_;  // guards stopping_
  condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tanada::gfile
