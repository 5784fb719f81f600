// products/poold/log/reserve_file.hpp: a reserve in the form of an allocated file beside the log
// files.
#pragma once

#include <string>

#include "products/poold/log/reserve.hpp"

namespace tanada::pool {

class reserve_file final : public space_reserve {
 public:
  // `folder` must exist.
  reserve_file(std::string folder, uint64_t size)
      : folder_{std::move(folder)}, path_{folder_ + "/reserve"}, size_{size} {}

  status acquire() override;
  status release() override;
  uint64_t size() const override {
    return size_;
  }
  uint64_t free_size() const override;

 private:
  std::string const folder_, path_;
  uint64_t const size_;
};

// The size of the file system that holds the folder, in bytes; ~0: unknown.
uint64_t file_system_size(const std::string &folder);

}  // namespace tanada::pool
