#include <fcntl.h>
#include <glusterfs/api/glfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../common/report.hpp"
#include "dfs_rivals.hpp"

namespace bench {
namespace {

[[noreturn]] void fail(const char *call) {
  throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

// gluster://HOST/VOLUME/PATH
struct volume {
  glfs_t *fs = nullptr;
  std::string path;

  explicit volume(const std::string &url) {
    size_t const host = std::strlen("gluster://"), host_end = url.find('/', host),
                 end = url.find('/', host_end + 1);
    if (end == std::string::npos)
      throw std::runtime_error(url + ": not gluster://HOST/VOLUME/PATH");
    path = url.substr(end);
    fs = glfs_new(url.substr(host_end + 1, end - host_end - 1).c_str());
    if (fs == nullptr)
      fail("glfs_new");
    (void)glfs_set_logging(fs, "/dev/null", 1);
    if (glfs_set_volfile_server(fs, "tcp", url.substr(host, host_end - host).c_str(), 24007) != 0)
      fail("glfs_set_volfile_server");
    if (glfs_init(fs) != 0)
      fail("glfs_init");
  }
  glfs_fd_t *open() const {
    glfs_fd_t *const file = glfs_open(fs, path.c_str(), O_RDONLY);
    if (file == nullptr)
      fail("glfs_open");
    return file;
  }
};

uint64_t size_of(const std::string &url) {
  volume const where{url};
  struct stat found{};
  if (glfs_stat(where.fs, where.path.c_str(), &found) != 0)
    fail("glfs_stat");
  return uint64_t(found.st_size);
}

bool read_piece(glfs_fd_t *file, uint8_t *target, uint64_t at, uint64_t end) {
  while (at < end) {
    ssize_t const got = glfs_pread(file, target + at, end - at, off_t(at), 0, nullptr);
    if (got <= 0)
      return false;
    at += uint64_t(got);
  }
  return true;
}

// One descriptor with `depth` asynchronous reads in flight: each completion posts the next piece.
class asynchronous {
 public:
  asynchronous(glfs_fd_t *file, uint8_t *target, uint64_t size, uint64_t piece_size)
      : file_{file}, target_{target}, size_{size}, piece_size_{piece_size} {}

  bool read(unsigned depth) {
    left_ = depth;
    for (unsigned i = 0; i < depth; i++)
      ask_next();
    for (unsigned now = left_.load(); now != 0; now = left_.load())
      left_.wait(now);
    return !failed_;
  }

 private:
  struct piece {
    asynchronous *owner;
    uint64_t at, end;
  };

  void ask_next() {
    uint64_t const at = next_.fetch_add(piece_size_);
    if (at >= size_)
      return end_one();
    ask(new piece{this, at, std::min(at + piece_size_, size_)});
  }
  void ask(piece *wanted) {
    if (glfs_pread_async(file_,
                         target_ + wanted->at,
                         wanted->end - wanted->at,
                         off_t(wanted->at),
                         0,
                         came,
                         wanted) == 0)
      return;
    failed_ = true;
    delete wanted;
    end_one();
  }
  void end_one() {
    if (left_.fetch_sub(1) == 1)
      left_.notify_one();
  }
  static void came(glfs_fd_t *, ssize_t got, struct glfs_stat *, struct glfs_stat *, void *data) {
    piece *const done = static_cast<piece *>(data);
    asynchronous &owner = *done->owner;
    if (got > 0 && done->at + uint64_t(got) < done->end) {
      done->at += uint64_t(got);
      return owner.ask(done);
    }
    if (got <= 0)
      owner.failed_ = true;
    delete done;
    owner.ask_next();
  }

  glfs_fd_t *file_;
  uint8_t *target_;
  uint64_t size_, piece_size_;
  std::atomic<uint64_t> next_{0};
  std::atomic<unsigned> left_{0};
  std::atomic<bool> failed_{false};
};

dfs_time read(const std::string &url, uint8_t *target, uint64_t size, const dfs_loop &loop) {
  volume const where{url};
  std::vector<glfs_fd_t *> files(loop.asynchronous ? 1 : loop.threads);
  for (glfs_fd_t *&file : files) {
    file = where.open();
    if (!read_piece(file, target, 0, std::min<uint64_t>(size, 4096)))
      fail("the first glfs_pread");  // it connects
  }
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  dfs_clock const clock;
  if (loop.asynchronous) {
    asynchronous all{files[0], target, size, loop.piece_size};
    failed = !all.read(loop.threads);
  } else {
    std::vector<std::thread> threads;
    for (glfs_fd_t *const file : files)
      threads.emplace_back([&, file] {
        for (uint64_t at = next.fetch_add(loop.piece_size); at < size;
             at = next.fetch_add(loop.piece_size))
          if (!read_piece(file, target, at, std::min(at + loop.piece_size, size)))
            failed = true;
      });
    for (auto &thread : threads)
      thread.join();
  }
  dfs_time const took = clock.stop();
  if (failed)
    throw std::runtime_error(url + ": a read failed");
  for (glfs_fd_t *const file : files)
    (void)glfs_close(file);
  return took;  // the volume is closed at the end of the process
}

}  // namespace

dfs_rival gluster_rival() {
  return {"gluster", true, size_of, read};
}

}  // namespace bench
