// products/nixl/engine.hpp: the engine of the NIXL plugin TANADA, whose OBJ segments are objects of
// a pool.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <backend/backend_engine.h>
#include "products/nixl/object_worker.hpp"

namespace tanada::nixl {

class object_engine final : public nixlBackendEngine {
 public:
  // Throws std::runtime_error with the reason if a parameter is malformed, or no pool answers.
  explicit object_engine(const nixlBackendInitParams *params);
  ~object_engine() override;

  bool supportsRemote() const override {
    return false;
  }
  bool supportsLocal() const override {
    return true;
  }
  bool supportsNotif() const override {
    return false;
  }
  nixl_mem_list_t getSupportedMems() const override {
    return segments();
  }
  static nixl_mem_list_t segments() {
    return {DRAM_SEG, VRAM_SEG, OBJ_SEG};
  }

  nixl_status_t registerMem(const nixlBlobDesc &segment,
                            const nixl_mem_t &kind,
                            nixlBackendMD *&registered) override;
  nixl_status_t deregisterMem(nixlBackendMD *registered) override;
  nixl_status_t connect(const std::string &) override {
    return NIXL_SUCCESS;
  }
  nixl_status_t disconnect(const std::string &) override {
    return NIXL_SUCCESS;
  }
  nixl_status_t loadLocalMD(nixlBackendMD *registered, nixlBackendMD *&loaded) override {
    loaded = registered;
    return NIXL_SUCCESS;
  }
  nixl_status_t unloadMD(nixlBackendMD *) override {
    return NIXL_SUCCESS;
  }
  nixl_status_t queryMem(const nixl_reg_dlist_t &segments,
                         std::vector<nixl_query_resp_t> &answers) const override;

  nixl_status_t prepXfer(const nixl_xfer_op_t &operation,
                         const nixl_meta_dlist_t &local,
                         const nixl_meta_dlist_t &remote,
                         const std::string &agent,
                         nixlBackendReqH *&handle,
                         const nixl_opt_b_args_t *options) const override;
  nixl_status_t postXfer(const nixl_xfer_op_t &operation,
                         const nixl_meta_dlist_t &local,
                         const nixl_meta_dlist_t &remote,
                         const std::string &agent,
                         nixlBackendReqH *&handle,
                         const nixl_opt_b_args_t *options) const override;
  nixl_status_t checkXfer(nixlBackendReqH *handle) const override;
  nixl_status_t releaseReqH(nixlBackendReqH *handle) const override;

 private:
  void register_on(object_worker &worker, struct segment &registered) const;
  bool is_immediate(const request &posted) const;
  void help(const std::shared_ptr<request> &posted, uint64_t size_max) const;

  worker_config config_;
  // For requests that the calling thread carries out.
  mutable mutex callers_mutex_;
  mutable std::unique_ptr<connection_table> callers_;
  mutable std::vector<std::unique_ptr<object_worker>> workers_;
};

}  // namespace tanada::nixl
