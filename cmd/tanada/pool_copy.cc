// cmd/tanada/pool_copy.cc: copies the bytes of one object.
#include "pool_copy.hpp"

#include <vector>

#include "core/base/assert.hpp"
#include "products/pool/checksum.hpp"

namespace tanada::command {
namespace {

class object_source : public byte_source {
 public:
  object_source(std::string name,
                tnd_pool *pool,
                pool_object object,
                const tnd_pool_info &info,
                command_report &report)
      : name_{std::move(name)},
        pool_{pool},
        object_{std::move(object)},
        info_{info},
        report_{report},
        sum_{pool::checksum_kind(info.checksum_kind)} {
    TND_ASSERT(pool_ != nullptr && object_ != nullptr);
  }

  bool read(void *target, size_t size, size_t &got) override {
    uint64_t read_size = 0;
    tnd_status const code =
        tnd_pool_read(object_.get(), offset_, target, size, TND_POOL_MEMORY_HOST, &read_size);
    if (code != TND_OK) {
      report_.fail(name_, code);
      return false;
    }
    TND_ASSERT(read_size <= size);
    if (read_size > 0)
      path_ = last_path_name(pool_);
    sum_.add(target, read_size);
    offset_ += read_size;
    got = read_size;
    return true;
  }

  bool verify(copy_outcome &outcome) override {
    if (offset_ != info_.size) {
      report_.fail(name_,
                   -EIO,
                   "the object ended after " + std::to_string(offset_) + " of " +
                       std::to_string(info_.size) + " bytes");
      return false;
    }
    outcome.read_path = path_;
    if (sum_.kind() == pool::checksum_kind::none)
      return true;
    if (sum_.value() != info_.checksum) {
      report_.fail(name_, -TND_ECORRUPT, "the bytes do not match the object's checksum");
      return false;
    }
    outcome.checksum_kind = info_.checksum_kind;
    outcome.checksum = info_.checksum;
    outcome.version = info_.version;
    outcome.is_verified = true;
    return true;
  }

 private:
  std::string const name_;
  tnd_pool *const pool_;
  const char *path_ = "";
  pool_object const object_;
  tnd_pool_info const info_;
  command_report &report_;
  pool::checksum sum_;
  uint64_t offset_ = 0;
};

class object_target : public byte_target {
 public:
  object_target(std::string name,
                tnd_pool *pool,
                pool_object object,
                uint32_t commit_flags,
                command_report &report)
      : name_{std::move(name)},
        pool_{pool},
        object_{std::move(object)},
        commit_flags_{commit_flags},
        report_{report} {
    TND_ASSERT(pool_ != nullptr && object_ != nullptr);
  }

  bool write(const void *source, size_t size) override {
    tnd_status const code =
        tnd_pool_write(object_.get(), offset_, source, size, TND_POOL_MEMORY_HOST);
    if (code != TND_OK)
      report_.fail(name_, code);
    path_ = last_path_name(pool_);
    sum_.add(source, size);
    offset_ += size;
    return code == TND_OK;
  }

  bool finish(copy_outcome &outcome) override {
    tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
    options.flags = commit_flags_ | TND_POOL_VERIFY;
    options.checksum_kind = TND_POOL_CHECKSUM_XXH3;
    options.has_checksum = 1;
    options.checksum = sum_.value();
    tnd_status const code = tnd_pool_commit(object_.get(), &options, &outcome.version);
    if (code != TND_OK) {
      report_.fail(name_, code);
      return false;
    }
    outcome.write_path = path_;
    outcome.checksum_kind = TND_POOL_CHECKSUM_XXH3;
    outcome.checksum = options.checksum;
    outcome.is_verified = true;
    return true;
  }

 private:
  std::string const name_;
  tnd_pool *const pool_;
  const char *path_ = "";
  pool_object const object_;  // closing it before the commit drops the object
  uint32_t const commit_flags_;
  command_report &report_;
  pool::checksum sum_{pool::checksum_kind::xxh3};
  uint64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<byte_source> object_source_open(const location &source,
                                                const copy_options &settings,
                                                pool_session &session,
                                                command_report &report) {
  tnd_pool *const pool = session.connect(source.address);
  if (pool == nullptr)
    return nullptr;
  tnd_pool_object *opened = nullptr;
  tnd_pool_info info{};
  tnd_status code = tnd_pool_open(pool, source.address.object.c_str(), settings.version, &opened);
  pool_object object{opened};
  if (code == TND_OK)
    code = tnd_pool_get_info(opened, &info);
  if (code == TND_OK && !pool::is_checksum_kind(info.checksum_kind)) {
    report.fail(
        source.text(), -EPROTO, "this version of Tanada does not support the kind of its checksum");
    return nullptr;
  }
  if (code != TND_OK) {
    report.fail(source.text(), code);
    return nullptr;
  }
  return std::make_unique<object_source>(source.text(), pool, std::move(object), info, report);
}

std::unique_ptr<byte_target> object_target_open(const copy_item &item,
                                                const copy_options &settings,
                                                pool_session &session,
                                                command_report &report) {
  location const &destination = item.target;
  if (destination.address.object.empty()) {
    report.fail(destination.text(), -EINVAL, "the URL names no object");
    return nullptr;
  }
  tnd_pool *const pool = session.connect(destination.address);
  if (pool == nullptr)
    return nullptr;
  uint32_t const flags =
      settings.object_flags | (settings.replace ? 0 : uint32_t(TND_POOL_EXCLUSIVE));
  tnd_pool_object *created = nullptr;
  if (tnd_status const code = tnd_pool_create(
          pool, destination.address.object.c_str(), item.size, flags, nullptr, &created);
      code != TND_OK) {
    report.fail(destination.text(), code);
    return nullptr;
  }
  return std::make_unique<object_target>(
      destination.text(), pool, pool_object{created}, settings.commit_flags, report);
}

bool copy_item_bytes(const copy_item &item,
                     const copy_options &settings,
                     pool_session &session,
                     command_report &report,
                     const copy_progress &progress,
                     copy_outcome &outcome) {
  auto const source = source_open(item.source, settings, session, report);
  if (source == nullptr)
    return false;
  auto const target = target_open(item, settings, session, report);
  if (target == nullptr)
    return false;
  static std::vector<std::byte> chunk(copy_chunk_size);
  for (;;) {
    size_t got = 0;
    if (!source->read(chunk.data(), chunk.size(), got))
      return false;
    TND_ASSERT(got <= chunk.size());
    if (got == 0)
      break;
    if (!target->write(chunk.data(), got))
      return false;
    outcome.size += got;
    progress(got);
  }
  return source->verify(outcome) && target->finish(outcome);
}

}  // namespace tanada::command
