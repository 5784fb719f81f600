// backends/file/file_engine.hpp: files by system calls that block.
#pragma once

#include <memory>
#include <string>

#include "backends/file/ring_engine.hpp"
#include "seams/store/handle_table.hpp"

namespace tanada::port {

// The path of a file URL or plain path; invalid for a host other than localhost or an empty path.
result<std::string> file_path(const std::string &url);

class file_engine final : public ring_engine {
 public:
  explicit file_engine(file_direct direct) : ring_engine{direct} {}

  const char *scheme() const noexcept override {
    return "file";
  }
  status open(const std::string &url, store_open_flags flags, store_file &file,
              store_stat &stat) override;
  status close(store_file file, store_stat &stat) override;
  status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) override;
  status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
               uint64_t &size) override;
  status stat(store_file file, store_stat &stat) override;
  status truncate(store_file file, uint64_t size) override;
  status sync(store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;
  status sync_names(const std::string &url) override;

  std::shared_ptr<local_file> find(store_file file) const override {
    return files_.find(file);
  }
  bool try_perform(const store_op &op, store_completion &completion) override;

 private:
  status adopt(int fd, store_open_flags flags, const char *path, store_completion &opened);
  status close_reader(store_file file);
  static status close_last(std::shared_ptr<local_file> handle);
  bool try_open(const store_op &op, store_completion &completion);
  static uint64_t read_whole(const local_file &file, const store_op &op, uint64_t size);

  handle_table<local_file> files_;
};

}  // namespace tanada::port
