#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "rival.hpp"
#include "server.hpp"
#include "socket.hpp"

namespace bench {
namespace {

// Requests of 256 KiB, eight in flight: the fastest of 256 KiB and 1 MiB with one to eight in
// flight.
constexpr uint64_t piece_size = 256 << 10;
constexpr unsigned depth = 8;

// One object written or read by requests, each of which posts the next one on completion.
class transfer {
 public:
  transfer(nfs_context *library, nfsfh *file, uint8_t *target, const uint8_t *source, uint64_t size)
      : library_{library}, file_{file}, target_{target}, source_{source}, size_{size} {}

  void run() {
    for (unsigned i = 0; i < depth; i++)
      ask();
    double const end = now_s() + 60;
    while (in_flight_ != 0) {
      pollfd waited{nfs_get_fd(library_), short(nfs_which_events(library_)), 0};
      (void)poll(&waited, 1, 1000);
      if (nfs_service(library_, waited.revents) < 0 || now_s() > end)
        throw std::runtime_error("NFS: the server is gone");
    }
    if (failed_)
      throw std::runtime_error(std::string("NFS: ") + nfs_get_error(library_));
  }

 private:
  struct piece {
    transfer *owner;
    uint64_t at, size;
  };

  void ask() {
    if (at_ >= size_ || failed_)
      return;
    piece *const wanted = new piece{this, at_, std::min(piece_size, size_ - at_)};
    int const status =
        source_ != nullptr
            ? nfs_pwrite_async(library_,
                               file_,
                               wanted->at,
                               wanted->size,
                               const_cast<uint8_t *>(source_) + at_,
                               came,
                               wanted)
            : nfs_pread_async(library_, file_, wanted->at, wanted->size, came, wanted);
    if (status != 0) {
      failed_ = true;
      delete wanted;
      return;
    }
    at_ += wanted->size;
    in_flight_++;
  }
  static void came(int size, nfs_context *, void *data, void *mine) {
    std::unique_ptr<piece> const done{static_cast<piece *>(mine)};
    transfer &owner = *done->owner;
    owner.in_flight_--;
    if (size < 0 || uint64_t(size) != done->size)
      owner.failed_ = true;
    else if (owner.source_ == nullptr)
      std::memcpy(owner.target_ + done->at, data, done->size);
    owner.ask();
  }

  nfs_context *library_;
  nfsfh *file_;
  uint8_t *target_;
  const uint8_t *source_;  // null: a read
  uint64_t size_, at_ = 0;
  unsigned in_flight_ = 0;
  bool failed_ = false;
};

class mounted final : public plain_client {
 public:
  explicit mounted(const std::string &folder) : library_{nfs_init_context()} {
    if (nfs_mount(library_, "127.0.0.1", folder.c_str()) != 0)
      fail("mount");
  }
  ~mounted() override {
    nfs_destroy_context(library_);
  }

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    nfsfh *file = nullptr;
    if (nfs_creat(library_, ("/" + key).c_str(), 0600, &file) != 0)
      fail("creat");
    transfer{library_, file, nullptr, source, size}.run();
    if (nfs_close(library_, file) != 0)
      fail("close");
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    nfsfh *file = nullptr;
    if (nfs_open(library_, ("/" + key).c_str(), O_RDONLY, &file) != 0)
      fail("open");
    transfer{library_, file, target, nullptr, size}.run();
    if (nfs_close(library_, file) != 0)
      fail("close");
  }

 private:
  [[noreturn]] void fail(const char *call) const {
    throw std::runtime_error(std::string("NFS ") + call + ": " + nfs_get_error(library_));
  }
  nfs_context *library_;
};

void mount_memory(const std::string &folder) {
  (void)mkdir(folder.c_str(), 0755);
  if (mount("none", folder.c_str(), "tmpfs", 0, nullptr) != 0)
    throw std::runtime_error("a tmpfs on " + folder + ": " + std::strerror(errno));
}

// nfs-ganesha on a tmpfs, NFSv3. Its ports and folders are fixed, so it runs only in this program's
// own network and mounts.
class ganesha final : public rival {
 public:
  explicit ganesha(const rival_options &options) {
    std::string const program = find_program("ganesha.nfsd"), binder = find_program("rpcbind");
    if (!options.is_isolated)
      throw not_here("NFS needs a network namespace, which this user may not make");
    // The program's run; this process's own mounts end with it.
    for (const char *folder : {"/run", "/var/lib/nfs/ganesha"})
      mount_memory(folder);
    for (const char *folder : {"/run/rpcbind", "/run/ganesha"})
      (void)mkdir(folder, 0755);
    mount_memory(scratch_.path());
    export_ = scratch_.path() + "/export";
    (void)mkdir(export_.c_str(), 0755);
    std::string const settings = scratch_.path() + "/settings", log = scratch_.path() + "/log";
    std::ofstream{settings}
        << "NFS_CORE_PARAM { Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP "
           "= false; }\n"
           "NFSV4 { Graceless = true; }\n"
           "EXPORT { Export_Id = 1; Path = "
        << export_
        << "; Pseudo = /pool; Access_Type = RW; Squash = No_root_squash;\n"
           "  SecType = sys; Protocols = 3; Transports = TCP; FSAL { Name = VFS; } }\n";
    binder_ = std::make_unique<server>(std::vector<std::string>{binder, "-f", "-w"}, log);
    binder_->wait_until([] { return socket_place{"", 111}.answers(); }, 10);
    daemon_ = std::make_unique<server>(
        std::vector<std::string>{
            program, "-F", "-f", settings, "-L", log, "-p", scratch_.path() + "/pid", "-N", "WARN"},
        log);
    daemon_->wait_until([this] { return is_there(); }, 20);
  }
  ~ganesha() override {
    daemon_.reset();
    (void)umount2(scratch_.path().c_str(), MNT_DETACH);
  }
  std::unique_ptr<client> connect() override {
    return std::make_unique<mounted>(export_);
  }

 private:
  bool is_there() {
    if (!socket_place{"", 2049}.answers())
      return false;
    try {
      (void)connect();
      return true;
    } catch (const std::runtime_error &) {
      return false;
    }
  }
  scratch_folder scratch_;
  std::string export_;
  std::unique_ptr<server> binder_, daemon_;
};

}  // namespace

std::unique_ptr<rival> nfs_rival(const rival_options &options) {
  return std::make_unique<ganesha>(options);
}

}  // namespace bench
