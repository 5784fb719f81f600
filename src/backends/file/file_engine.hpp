// backends/file/file_engine.hpp: files through blocking system calls.
#pragma once

#include <memory>
#include <string>

#include "backends/file/ring_engine.hpp"
#include "seams/store/handle_table.hpp"

namespace tanada::backends {

// The path of a file URL, or a plain path. invalid: a host other than localhost, or an empty path.
result<std::string> file_path(const std::string &url);

class file_engine final : public ring_engine {
 public:
  explicit file_engine(file_direct direct) : ring_engine{direct} {}

  const char *scheme() const noexcept override {
    return "file";
  }
  status open(const std::string &url,
              seams::store_open_flags flags,
              seams::store_file &file,
              seams::store_stat &stat) override;
  status close(seams::store_file file, seams::store_stat &stat) override;
  status read(seams::store_file file,
              uint64_t offset,
              std::span<const seams::store_buffer> buffers,
              uint64_t &size) override;
  status write(seams::store_file file,
               uint64_t offset,
               std::span<const seams::store_buffer> buffers,
               uint64_t &size) override;
  status stat(seams::store_file file, seams::store_stat &stat) override;
  status truncate(seams::store_file file, uint64_t size) override;
  status sync(seams::store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;
  status sync_names(const std::string &url) override;

  std::shared_ptr<local_file> find(seams::store_file file) const override {
    return files_.find(file);
  }
  bool try_perform(const seams::store_op &op, seams::store_completion &completion) override;
  bool try_read_each(seams::store_file file, std::span<seams::store_read> reads) override;

 private:
  status adopt(int fd,
               seams::store_open_flags flags,
               const char *path,
               seams::store_completion &opened);
  status close_reader(seams::store_file file);
  static status close_last(std::shared_ptr<local_file> handle);
  bool try_open(const seams::store_op &op, seams::store_completion &completion);
  static uint64_t read_whole(const local_file &file, const seams::store_op &op, uint64_t size);

  seams::handle_table<local_file> files_;
};

}  // namespace tanada::backends
