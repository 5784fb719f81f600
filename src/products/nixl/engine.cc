#include "products/nixl/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <stdexcept>
#include <unordered_map>

namespace tanada::nixl {

// Registered memory, or an object.
struct segment final : nixlBackendMD {
  segment() : nixlBackendMD{true} {}
  std::string name;          // of an object
  uint64_t object_size = 0;  // as registered
  void *memory = nullptr;
  uint64_t size = 0;
  uint32_t device = host_memory;
  std::vector<tnd_pool *> pools;  // where the memory is registered
};

struct request_handle final : nixlBackendReqH {
  std::shared_ptr<request> posted = std::make_shared<request>();
};

namespace {

// If the pool is on the caller's node, postXfer() carries out requests up to this size at once, and
// checkXfer() carries out this much of larger ones: that takes less time than waking a worker.
constexpr uint64_t immediate_size_max = 1 << 20;
constexpr uint32_t worker_count_max = 64;

nixl_status_t to_nixl(tnd_status status) {
  switch (status) {
    case TND_OK:
      return NIXL_SUCCESS;
    case -ENOENT:
      return NIXL_ERR_NOT_FOUND;
    case -EINVAL:
    case -ENAMETOOLONG:
      return NIXL_ERR_INVALID_PARAM;
    case -ERANGE:
      return NIXL_ERR_MISMATCH;
    case -EACCES:
      return NIXL_ERR_NOT_ALLOWED;
    case -EOPNOTSUPP:
      return NIXL_ERR_NOT_SUPPORTED;
    case -ECANCELED:
      return NIXL_ERR_CANCELED;
    default:
      return NIXL_ERR_BACKEND;
  }
}

std::string parameter(const nixlBackendInitParams &params, const char *name) {
  auto const known = params.customParams->find(name);
  return known == params.customParams->end() ? std::string{} : known->second;
}

bool flag_parameter(const nixlBackendInitParams &params, const char *name) {
  std::string const text = parameter(params, name);
  if (text == "true" || text == "1" || text == "on")
    return true;
  if (text.empty() || text == "false" || text == "0" || text == "off")
    return false;
  throw std::runtime_error{std::string{name} + "=" + text + ": use true or false"};
}

uint32_t worker_count(const nixlBackendInitParams &params) {
  std::string const text = parameter(params, "num_threads");
  if (text.empty())
    return std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  uint32_t count = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count == 0 ||
      count > worker_count_max)
    throw std::runtime_error{"num_threads=" + text + ": use 1 to 64"};
  return count;
}

worker_config config_from(const nixlBackendInitParams &params) {
  worker_config config{parameter(params, "url"), parameter(params, "key_file"), 0, false};
  if (config.url.empty())
    throw std::runtime_error{"the parameter url is missing: url=pool://HOST[:PORT]/NAMESPACE"};
  if (flag_parameter(params, "evictable"))
    config.flags |= TND_POOL_EVICTABLE;
  if (flag_parameter(params, "durable"))
    config.flags |= TND_POOL_DURABLE;
  return config;
}

// The task of an object and device. A new one is added at the end.
task &task_of(const segment &object,
              uint32_t device,
              bool is_write,
              std::vector<task> &tasks,
              std::unordered_map<std::string, size_t> &known) {
  std::string const key = object.name + '\0' + std::to_string(device);
  auto const [position, is_new] = known.emplace(key, tasks.size());
  if (is_new)
    tasks.push_back({object.name, object.object_size, device, is_write, {}});
  return tasks[position->second];
}

// As for NIXL's OBJ plugin: the metadata of a descriptor is the key, and its device ID otherwise.
std::string object_name(const nixlBlobDesc &described) {
  return described.metaInfo.empty() ? std::to_string(described.devId) : described.metaInfo;
}

}  // namespace

object_engine::object_engine(const nixlBackendInitParams *params)
    : nixlBackendEngine{params}, config_{config_from(*params)} {
  uint32_t const count = worker_count(*params);
  callers_ = std::make_unique<connection_table>(config_);
  tnd_pool *pool = nullptr;
  if (callers_->connect(host_memory, &pool) != TND_OK)
    throw std::runtime_error{tnd_last_message()};
  tnd_pool_connection connection{};
  connection.struct_size = sizeof(connection);
  if (tnd_pool_get_connection(pool, &connection) == TND_OK)
    config_.is_local = connection.path == TND_POOL_PATH_SHARED_MEMORY;
  for (uint32_t index = 0; index < count; ++index)
    workers_.push_back(std::make_unique<object_worker>(config_));
}

object_engine::~object_engine() = default;

// Registration with a fabric saves one per transfer. Without it transfers work all the same.
void object_engine::register_on(object_worker &worker, segment &registered) const {
  tnd_pool *pool = nullptr;
  if (worker.connections().connect(registered.device, &pool) != TND_OK)
    return;
  uint32_t const kind =
      registered.device == host_memory ? TND_POOL_MEMORY_HOST : TND_POOL_MEMORY_DEVICE;
  if (tnd_pool_register(pool, registered.memory, registered.size, kind) == TND_OK)
    registered.pools.push_back(pool);
}

nixl_status_t object_engine::registerMem(const nixlBlobDesc &described,
                                         const nixl_mem_t &kind,
                                         nixlBackendMD *&registered) {
  if (kind != DRAM_SEG && kind != VRAM_SEG && kind != OBJ_SEG)
    return NIXL_ERR_NOT_SUPPORTED;
  auto created = std::make_unique<segment>();
  if (kind == OBJ_SEG) {
    created->name = object_name(described);
    created->object_size = described.len;
    if (created->name.size() > TND_POOL_NAME_SIZE_MAX)
      return NIXL_ERR_INVALID_PARAM;
  } else {
    created->memory = reinterpret_cast<void *>(described.addr);
    created->size = described.len;
    if (kind == VRAM_SEG)
      created->device = static_cast<uint32_t>(described.devId);
    for (const auto &worker : workers_)
      register_on(*worker, *created);
  }
  registered = created.release();
  return NIXL_SUCCESS;
}

nixl_status_t object_engine::deregisterMem(nixlBackendMD *registered) {
  std::unique_ptr<segment> const freed{static_cast<segment *>(registered)};
  nixl_status_t result = NIXL_SUCCESS;
  if (freed == nullptr)
    return result;
  for (tnd_pool *pool : freed->pools) {
    if (tnd_pool_unregister(pool, freed->memory) != TND_OK)
      result = NIXL_ERR_BACKEND;
  }
  return result;
}

nixl_status_t object_engine::queryMem(const nixl_reg_dlist_t &queried,
                                      std::vector<nixl_query_resp_t> &answers) const {
  answers.assign(static_cast<size_t>(queried.descCount()), std::nullopt);
  tnd_pool *pool = nullptr;
  tnd_status status = callers_->connect(host_memory, &pool);
  for (size_t index = 0; index < answers.size() && status == TND_OK; ++index) {
    tnd_pool_info info{};
    status = tnd_pool_stat(pool, object_name(queried[index]).c_str(), 0, &info);
    if (status == TND_OK)
      answers[index] = nixl_b_params_t{{"size", std::to_string(info.size)}};
    else if (status == -ENOENT)
      status = TND_OK;
  }
  return to_nixl(status);
}

nixl_status_t object_engine::prepXfer(const nixl_xfer_op_t &operation,
                                      const nixl_meta_dlist_t &local,
                                      const nixl_meta_dlist_t &remote,
                                      const std::string &,
                                      nixlBackendReqH *&handle,
                                      const nixl_opt_b_args_t *) const {
  bool const is_device = local.getType() == VRAM_SEG;
  if ((local.getType() != DRAM_SEG && !is_device) || remote.getType() != OBJ_SEG ||
      local.descCount() != remote.descCount())
    return NIXL_ERR_INVALID_PARAM;
  auto created = std::make_unique<request_handle>();
  std::vector<task> &tasks = created->posted->tasks;
  std::unordered_map<std::string, size_t> known;  // the index of an object's task
  for (size_t index = 0; index < static_cast<size_t>(local.descCount()); ++index) {
    auto const *object = static_cast<const segment *>(remote[index].metadataP);
    if (object == nullptr || local[index].len != remote[index].len)
      return NIXL_ERR_INVALID_PARAM;
    uint32_t const device = is_device ? static_cast<uint32_t>(local[index].devId) : host_memory;
    task &pieced = task_of(*object, device, operation == NIXL_WRITE, tasks, known);
    pieced.pieces.push_back(
        {remote[index].addr, reinterpret_cast<void *>(local[index].addr), local[index].len});
  }
  handle = created.release();
  return NIXL_SUCCESS;
}

// Writes of parts are left to the worker of their object, which orders them.
bool object_engine::is_immediate(const request &posted) const {
  return config_.is_local && posted.byte_count() <= immediate_size_max &&
         std::all_of(posted.tasks.begin(), posted.tasks.end(), [](const task &entry) {
           return entry.is_whole_in_host_memory();
         });
}

// Carry out tasks that no worker has begun, of up to size_max bytes, but one at least.
void object_engine::help(const std::shared_ptr<request> &posted, uint64_t size_max) const {
  unique_lock<mutex> const lock{callers_mutex_, std::try_to_lock};
  if (!lock)
    return;
  std::vector<posted_task> batch;
  uint64_t size = 0;
  for (size_t index = 0; index < posted->tasks.size() && size < size_max; ++index) {
    if (!posted->tasks[index].is_whole_in_host_memory() || !posted->claim(index))
      continue;
    size += posted->tasks[index].byte_count();
    batch.push_back({posted, index});
  }
  carry_out(*callers_, config_, batch);
}

nixl_status_t object_engine::postXfer(const nixl_xfer_op_t &,
                                      const nixl_meta_dlist_t &,
                                      const nixl_meta_dlist_t &,
                                      const std::string &,
                                      nixlBackendReqH *&handle,
                                      const nixl_opt_b_args_t *) const {
  if (handle == nullptr)
    return NIXL_ERR_INVALID_PARAM;
  auto const &posted = static_cast<request_handle *>(handle)->posted;
  posted->start();
  if (is_immediate(*posted)) {
    help(posted, immediate_size_max + 1);
    if (posted->is_done())
      return to_nixl(posted->status.load(std::memory_order_relaxed));
  }
  for (size_t index = 0; index < posted->tasks.size(); ++index) {
    size_t const hash = std::hash<std::string>{}(posted->tasks[index].name);
    workers_[hash % workers_.size()]->post({posted, index});
  }
  return NIXL_IN_PROG;
}

nixl_status_t object_engine::checkXfer(nixlBackendReqH *handle) const {
  if (handle == nullptr)
    return NIXL_ERR_INVALID_PARAM;
  auto const &posted = static_cast<request_handle *>(handle)->posted;
  if (config_.is_local && !posted->is_done())
    help(posted, immediate_size_max);
  if (!posted->is_done())
    return NIXL_IN_PROG;
  return to_nixl(posted->status.load(std::memory_order_relaxed));
}

nixl_status_t object_engine::releaseReqH(nixlBackendReqH *handle) const {
  std::unique_ptr<request_handle> const released{static_cast<request_handle *>(handle)};
  if (released != nullptr)
    cancel(*released->posted);
  return NIXL_SUCCESS;
}

}  // namespace tanada::nixl
