// products/pool/client/client.hpp: a client of the pool, which implements tanada/pool.h in C++.
#pragma once

#include <tanada/pool.h>

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "products/pool/bulk.hpp"
#include "products/pool/client/channel.hpp"
#include "products/pool/client/device_copy.hpp"
#include "products/pool/client/fabric_link.hpp"
#include "products/pool/client/segments.hpp"
#include "products/pool/client/traffic.hpp"
#include "products/pool/name_counters.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

// Connects to a server, by the deadline (absolute, of the client's clock).
using dialer = std::function<result<std::unique_ptr<seams::stream>>(const server_place &server,
                                                                    uint64_t deadline_ns)>;

// Opens the copies of a GPU, which connections may share.
using device_opener = std::function<result<std::shared_ptr<device_copy>>(uint32_t device_index)>;

struct client_settings {
  uint64_t timeout_ns = 30'000'000'000;
  std::optional<key> client_key;
  bool shared_memory = true;
  bool rings = true;  // requests go through shared memory where possible
  uint32_t device_index = 0;
  std::string fabric = {};                          // libfabric provider; empty: no fabric
  uint32_t version = wire::pool::protocol_version;  // of the protocol
  dialer dial = {};                                 // empty: sockets
  seams::clock *clock = &seams::monotonic_clock();  // outlives the client
  bool has_threads = true;  // transfers to several servers use several threads
  device_opener open_device = device_copy::for_process;
  // Returns whether the connecting thread is likely to send memory of the device.
  std::function<bool(uint32_t device_index)> uses_device = device_copy::is_used;
  bool prepares_device = true;  // if the process uses it
};

struct striped_object;
struct stripe_piece;
struct stripe_round;

// An open object. It is valid only for the connection that it was opened on, which `epoch`
// identifies.
struct open_object {
  uint64_t epoch = 0, handle = 0;
  std::string name = {};
  bool is_writer = false, in_set = false;
  wire::pool::info about;
  std::vector<wire::pool::pool_extent> pieces;
  // Written through the mapping, and not reported to the daemon yet.
  std::vector<wire::pool::range> written;
  uint64_t covered_size = 0;  // bytes from the beginning that were all written through the mapping
  std::shared_ptr<void> view_owner = {};  // keeps the view's memory alive
  void *view = nullptr;                   // of tnd_pool_map
  uint64_t view_size = 0;                 // bytes to unmap; 0: `view_owner` keeps it mapped
  uint32_t flags = 0;                     // of its creation, and its set
  std::string set = {};
  std::shared_ptr<striped_object> striped = {};  // null: the object lies on one server
};

// Returns true for a commit's status after which the object may be visible: nobody may write it.
inline bool ends_writing(status code) {
  return code == status::ok || code == status::io || code == status::no_space ||
         code == status::timed_out || code == status::peer_lost;
}

struct memory_range {
  void *addr;
  bool on_device;
};

// A connection to a namespace. Used by one thread at a time.
class client {
 public:
  static result<std::unique_ptr<client>> connect(const address &daemon, client_settings settings);
  ~client();

  status create(const std::string &name,
                uint64_t size,
                uint32_t flags,
                const std::string &set,
                open_object &opened);
  status open(const std::string &name, uint64_t version, open_object &opened);
  void close(open_object &object);
  status write(open_object &object, const tnd_pool_box &box, memory_range source);
  status resize(open_object &object, uint64_t size);
  status read(open_object &object, const tnd_pool_box &box, memory_range target);
  status read_some(open_object &object,
                   uint64_t offset,
                   uint64_t size,
                   memory_range target,
                   uint64_t &read_size);
  status map(open_object &object, const void *&addr, uint64_t &size);
  status commit(open_object &object, wire::pool::commit_terms terms, uint64_t &version);
  status set_commit(const std::string &set, uint64_t count, uint32_t flags);
  status put(const std::string &name,
             const void *source,
             uint64_t size,
             wire::pool::commit_terms terms);
  status get(const std::string &name,
             void *target,
             uint64_t capacity,
             wire::pool::info &about,
             bool verify);
  status stat(const std::string &name, uint64_t version, wire::pool::info &about);
  status list_some(const wire::pool::list_request &request, wire::pool::list_reply &listing);
  status rename(const std::string &name, const std::string &new_name, uint32_t flags);
  status remove(const std::string &name, uint32_t flags);
  status set_flags(const std::string &name, uint32_t flags);
  status statistics(wire::pool::statistics_reply &counters);
  status list_namespaces_some(const std::string &only,
                              const std::string &after,
                              wire::pool::namespaces_reply &listing);

  status cluster_status(wire::pool::cluster_status_reply &reply);
  status set_draining(const std::string &server, bool is_draining);
  status remove_server(const std::string &server, bool is_forced);
  status clear_losses();
  status set_erasure(const wire::pool::erasure_setting &setting);

  // Asynchronous requests, as in tnd_pool_post() and tnd_pool_poll().
  status post(const tnd_pool_request &request, const std::shared_ptr<open_object> &object);
  void poll(std::span<tnd_pool_completion> completions, uint64_t timeout_ns, uint32_t &count);

  // Registers memory, so that transfers need not do so; a no-op without a fabric.
  status register_memory(void *addr, uint64_t size, bool on_device);
  status unregister_memory(void *addr);

  tnd_pool_path path() const;
  tnd_pool_path device_path() const;
  const wire::pool::welcome_message &terms() const {
    TND_ASSERT(channel_ != nullptr);
    return channel_->terms();
  }
  const std::string &reason() const {
    return reason_;
  }
  // Connections that were made, the current one among them: handles are valid for one of them.
  uint64_t connection_count() const {
    return epoch_;
  }
  const traffic &transfers() const {
    return traffic_;
  }

 private:
  struct cached_object {
    std::string name;
    open_object object;
    uint64_t counter;
  };
  struct posted {
    tnd_pool_completion result;
    bool done = false;
    uint64_t posted_ns = 0;
    tnd_pool_path path = TND_POOL_PATH_NONE;  // of bytes that are sent with the request
    std::string name = {};                    // of a put or get
    std::shared_ptr<open_object> object{};    // of a read or write
    void *memory = nullptr;                   // of a put, get or read
    uint64_t offset = 0;                      // of a read
    bool is_striped = false;                  // of a get: the object is still to be read
    bool is_refused = false;                  // the server was lost, or is another one: repeat it
    wire::pool::commit_terms terms{};         // of a put
  };
  using posted_ptr = std::shared_ptr<posted>;

  posted_ptr make_operation(const tnd_pool_request &request) const;
  status post_operation(const tnd_pool_request &request,
                        const std::shared_ptr<open_object> &object,
                        const posted_ptr &operation);
  status post_put(const tnd_pool_request &request, const posted_ptr &operation);
  void post_get(const tnd_pool_request &request, const posted_ptr &operation);
  status post_move(const tnd_pool_request &request,
                   open_object &object,
                   const posted_ptr &operation);
  void move_at_once(const tnd_pool_request &request, open_object &object, posted &operation);
  status post_commit(const tnd_pool_request &request,
                     const std::shared_ptr<open_object> &object,
                     const posted_ptr &operation);
  void finish_striped_get(posted &operation);
  bool is_to_repeat(const posted &operation, status code) const;
  bool is_overtaken(const posted &operation) const;
  void repeat(posted &operation);
  void finish_oldest();
  status await_posted();
  bool is_striped_move(const tnd_pool_request &request, const open_object &object);
  void complete_info(posted &operation, const reply &received);
  void complete_size(posted &operation, const reply &received);
  void count_transfer(posted &operation, bool to_pool);
  client(address daemon, client_settings settings);
  status connect_once(uint64_t deadline_ns, bool reads_only);
  status adopt_channel(std::unique_ptr<channel> opened);
  // Connects to the server that serves the namespace, whichever of the cluster that is. While no
  // server does and `reads_only` is set, to one that has a copy.
  static bool may_end_soon(status code);
  result<std::unique_ptr<channel>> find_server(uint64_t deadline_ns, bool reads_only);
  struct search_round {
    bool is_redirected = false;          // a server named another one that has not been tried
    std::vector<server_place> answered;  // servers that do not serve the namespace
  };
  result<std::unique_ptr<channel>> try_servers(uint64_t deadline_ns, search_round &round);
  result<std::unique_ptr<channel>> try_backups(uint64_t deadline_ns, const search_round &round);
  result<std::unique_ptr<channel>> connect_channel(const server_place &server,
                                                   uint64_t deadline_ns,
                                                   bool reads_backup);
  result<std::unique_ptr<channel>> open_channel(std::unique_ptr<seams::stream> connection,
                                                uint64_t deadline_ns,
                                                bool reads_backup);
  // `is_closed`: there was a connection, and the peer closed it.
  result<std::unique_ptr<seams::stream>> dial(const server_place &server,
                                              uint64_t deadline_ns,
                                              bool &is_closed);
  // As dial(), but never to the UNIX socket.
  result<std::unique_ptr<seams::stream>> dial_remote(const server_place &server,
                                                     uint64_t deadline_ns) const;
  void locate(const server_place &server, uint64_t deadline_ns);
  // Ends the connection if its server has ended it.
  void notice_end();
  // A wait for replies begins.
  void begin_watch();
  // As channel::progress(). In a cluster it also ends the connection once another server has
  // replaced this one, which may be stopped or cut off.
  status progress_watched(uint64_t deadline_ns);
  bool is_replaced();
  void adopt_location(const wire::pool::locate_reply &location);
  bool is_cluster() const noexcept {
    return places_.size() > 1 || is_cluster_;
  }
  // Whether a server that has a copy of the namespace, and does not serve it, answers the request.
  static bool suits_backup(wire::pool::kind message_kind);
  static constexpr uint64_t cluster_retry_ns = 100'000'000;  // before servers are tried again
  static bool is_repeatable(wire::pool::kind message_kind);
  // Whether a request that had this status may be sent again: it had no effect, or reads only.
  bool may_repeat(wire::pool::kind message_kind, status code, bool has_handle);

 public:
  // Connects again, once, if the connection has ended. `reads_only`: the caller only reads, so that
  // in a cluster a server that has a copy is good enough.
  status ensure_connected(bool reads_only);
  // Ends the connection, and those for stripes; the daemons close the open handles.
  void disconnect();

 private:
  status open_once(const std::string &name, uint64_t version, open_object &opened);
  status check_usable(const open_object &object) const;
  static status refuse_handle();  // stale, with a message
  status check_range(const open_object &object, const tnd_pool_box &requested) const;
  status read_once(open_object &object, const tnd_pool_box &box, memory_range target);
  uint64_t deadline() const;
  seams::clock &clock() const {
    return *settings_.clock;
  }

  // Sends one request and waits for its reply.
  template <class Request, class Reply>
  status call(wire::pool::kind message_kind,
              const Request &request,
              Reply &answer,
              std::vector<iovec> sources = {},
              std::vector<iovec> targets = {},
              uint64_t *data_size = nullptr);
  template <class Request, class Reply>
  status call_once(wire::pool::kind message_kind,
                   const Request &request,
                   Reply &answer,
                   std::vector<iovec> sources,
                   std::vector<iovec> targets,
                   uint64_t *data_size);

  // Waits until `done`, which the reply's handler sets.
  status await_reply(wire::pool::kind message_kind,
                     uint64_t tag,
                     const bool &done,
                     uint64_t deadline_ns);

  // As with_url(), for the name in the request, if it has one.
  template <class Request>
  status with_url_of(status code, const Request &request) const;

  // Closes handles that only this library's cache holds, before a caller is refused one.
  template <class Request, class Reply>
  status call_for_handle(wire::pool::kind message_kind, const Request &request, Reply &answer);

  // Returns -ERANGE with a message, but logs nothing, because callers use the call to find the
  // size.
  status size_error(const std::string &name, uint64_t size, uint64_t capacity) const;

  // Puts the object's URL before the daemon's message; for an empty name, the namespace's URL.
  status with_url(status code, const std::string &name) const;
  result<received_segment> fetch_segment(uint32_t segment);
  status report_written(open_object &object);
  // Transfers of rows that lie in the object; `to_pool` is the direction. move() chooses the path
  // and counts.
  uint64_t sum_of(uint32_t kind, const void *bytes, uint64_t size);
  void copy_parts(std::span<const iovec> parts, std::byte *memory, bool to_pool, checksum &sum);
  status move(open_object &object, const tnd_pool_box &box, memory_range memory, bool to_pool);
  status move_shared(open_object &object, const tnd_pool_box &box, std::byte *memory, bool to_pool);
  status move_shared_device(open_object &object,
                            const tnd_pool_box &box,
                            std::byte *memory,
                            bool to_pool,
                            bool &is_staged);
  // Records that the range was written through the mapping.
  status note_written(open_object &object, uint64_t offset, uint64_t size);
  // Computes the checksum that a commit requests, if this process can do so faster than the daemon.
  status sum_written(open_object &object, wire::pool::commit_terms &terms);
  // Rows that the GPU copies at a time.
  struct device_rows {
    std::vector<device_copy::part> parts;
    std::vector<wire::pool::range> ranges;
  };
  status copy_rows(open_object &object, device_rows &rows, bool to_pool, bool &is_staged);
  status move_staged(open_object &object, const tnd_pool_box &box, std::byte *memory, bool to_pool);
  // Rows of device memory that lie packed in `device_stage_`.
  struct staged_rows {
    std::vector<wire::pool::range> ranges;
    std::vector<std::byte *> addresses;  // in device memory
    uint64_t size = 0;                   // sum
  };
  status ensure_device_stage();
  status stage_row(open_object &object,
                   staged_rows &rows,
                   wire::pool::range row,
                   std::byte *memory,
                   bool to_pool);
  status flush_staged(open_object &object, staged_rows &rows, bool to_pool);
  status move_device(open_object &object, const tnd_pool_box &box, std::byte *memory, bool to_pool);
  bool uses_fabric(const tnd_pool_box &box, memory_range memory) const;
  status move_fabric(open_object &object,
                     const tnd_pool_box &box,
                     memory_range memory,
                     bool to_pool);
  status await_fabric(uint64_t tag, const bool &done, std::byte *memory, uint64_t size);
  void join_fabric();
  status prove_endpoint(const wire::pool::bytes32 &tag);
  tnd_pool_path stream_path() const;
  tnd_pool_path fabric_path() const;
  // Path of copies between memory and the mapping. `is_staged`: device memory was copied through
  // pinned memory.
  static transfer_path mapping_path(bool on_device, bool is_staged);
  void count_mapped(transfer_path via, uint64_t size, bool to_pool);
  // Reports reads through the mapping to the daemon, at most once a second unless `at_once` is set.
  void report_reads(bool at_once);
  status move_rows(open_object &object,
                   std::vector<wire::pool::range> ranges,
                   std::vector<iovec> memory,
                   bool to_pool);
  // Transfers over the connection's stream, in one request and without a handle.
  status put_inline(const std::string &name,
                    const void *source,
                    uint64_t size,
                    wire::pool::commit_terms terms,
                    uint64_t &version);
  status get_inline(const std::string &name,
                    void *target,
                    uint64_t capacity,
                    wire::pool::info &about,
                    bool verify);
  status put_shared(const std::string &name,
                    const void *source,
                    uint64_t size,
                    wire::pool::commit_terms &terms);
  status put_fabric(const std::string &name,
                    const void *source,
                    uint64_t size,
                    wire::pool::commit_terms &terms);
  status get_fabric(const std::string &name,
                    void *target,
                    uint64_t capacity,
                    wire::pool::info &about,
                    bool verify);
  status get_shared(const std::string &name,
                    void *target,
                    uint64_t capacity,
                    wire::pool::info &about,
                    bool verify);
  status copy_out(open_object &object, void *target, bool verify);
  // Striped objects; see striped_object.
  status create_whole(const std::string &name,
                      uint64_t size,
                      uint32_t flags,
                      const std::string &set,
                      open_object &opened);
  status create_head(const std::string &name,
                     uint64_t size,
                     uint32_t flags,
                     const std::string &set,
                     open_object &opened);
  status create_striped(const std::string &name,
                        uint64_t size,
                        uint32_t flags,
                        const std::string &set,
                        open_object &opened);
  status create_with_bytes(const std::string &name,
                           uint64_t size,
                           uint32_t flags,
                           const std::string &set,
                           open_object &opened);
  status copy_bytes(open_object &source, open_object &target, uint64_t size);
  status convert_to_striped(open_object &object, uint64_t size);
  // "host:port" of the server that it is, or was last, connected to.
  std::string server_name() const {
    return place_text(connected_);
  }
  std::shared_ptr<client> stripe_link(uint8_t partition, const std::string &hint);
  static status name_server(const client &link, status code);
  static status run_stripes(const striped_object &striped,
                            const std::vector<size_t> &indices,
                            bool is_sequential,
                            const std::function<status(size_t)> &work);
  // As run_stripes(); where a server is full, evicts objects of this size and tries again.
  status fill_stripes(const striped_object &striped,
                      std::vector<size_t> indices,
                      uint64_t size,
                      const std::function<status(size_t)> &work);
  bool may_stripe();
  status fetch_places(wire::pool::stripe_places_reply &places);
  status fetch_limits(wire::pool::stripe_places_reply &places);
  bool is_striped_size(uint64_t size);
  result<std::vector<size_t>> place_stripes(striped_object &striped, uint64_t size);
  status grow_striped(open_object &object, uint64_t size);
  static void drop_stripes(striped_object &striped, uint64_t size);
  status open_striped(open_object &object);
  status open_stripe(const striped_object &striped, size_t index, open_object &object);
  status reopen(open_object &object);
  template <class Read>
  status retry_read(open_object &object, const Read &read_bytes);
  status move_pieces(open_object &object,
                     std::span<const stripe_piece> pieces,
                     bool on_device,
                     bool to_pool);
  status move_many(open_object &object,
                   std::span<const stripe_piece> pieces,
                   bool on_device,
                   bool to_pool);
  status move_round(const open_object &object,
                    const stripe_round &round,
                    bool on_device,
                    bool to_pool);
  status move_striped(open_object &object,
                      const tnd_pool_box &box,
                      memory_range memory,
                      bool to_pool);
  status write_striped(open_object &object, const tnd_pool_box &box, memory_range source);
  status read_striped(open_object &object, const tnd_pool_box &box, memory_range target);
  status resize_stripes(striped_object &striped);
  status resize_striped(open_object &object, uint64_t size);
  status sum_striped(open_object &object, checksum &sum);
  status check_striped(open_object &object, wire::pool::commit_terms &terms);
  status commit_stripes(open_object &object, wire::pool::commit_terms &terms);
  status commit_head(open_object &object, wire::pool::commit_terms terms, uint64_t &version);
  status check_terms(const wire::pool::commit_terms &terms) const;
  status commit_striped(open_object &object, wire::pool::commit_terms terms, uint64_t &version);
  status sum_source(const std::string &name,
                    const void *source,
                    uint64_t size,
                    wire::pool::commit_terms &terms);
  status put_stripes(striped_object &striped,
                     const void *source,
                     uint64_t size,
                     const wire::pool::commit_terms &terms);
  static bool is_lost_put(const striped_object &striped, status code);
  status put_once(const std::string &name,
                  const void *source,
                  uint64_t size,
                  const wire::pool::commit_terms &terms,
                  open_object &created,
                  uint64_t &version);
  status put_striped(const std::string &name,
                     const void *source,
                     uint64_t size,
                     wire::pool::commit_terms terms,
                     uint64_t &version);
  status get_striped(const std::string &name,
                     void *target,
                     uint64_t capacity,
                     wire::pool::info &about,
                     bool verify);
  status get_opened(
      open_object &opened, void *target, uint64_t capacity, wire::pool::info &about, bool verify);
  static void close_stripes(open_object &object);
  // Striped objects of a pool that has one server; see local_stripes.cc.
  static status seal_stripe(striped_object &striped, size_t index);
  static status close_idle_stripes(striped_object &striped, size_t index);
  status begin_stripe(striped_object &striped, size_t index);
  status open_local_stripe(const open_object &object, size_t index, bool to_pool);
  status move_local_round(const open_object &object,
                          const stripe_round &round,
                          bool on_device,
                          bool to_pool);
  status resize_local_stripes(striped_object &striped);
  status commit_local_stripes(striped_object &striped);
  // Striped objects with an erasure code; see erasure.cc.
  std::shared_ptr<client> fragment_link(const std::string &address);
  static void begin_fragments(striped_object &striped,
                              const wire::pool::stripe_places_reply &places,
                              uint64_t size);
  result<std::vector<size_t>> place_fragments(striped_object &striped, uint64_t size);
  bool is_server_usable(const std::string &address);
  status place_group(striped_object &striped, uint64_t group);
  void add_place(striped_object &striped, const wire::pool::stripe_server &server);
  static void drop_fragments(striped_object &striped);
  status put_fragments(striped_object &striped,
                       const void *source,
                       uint64_t size,
                       const wire::pool::commit_terms &terms);
  static status check_fragments(const striped_object &striped);
  static status commit_fragments(striped_object &striped, uint32_t flags);
  struct parity_work;
  struct recovery;
  static status write_parity(striped_object &striped, uint64_t group, std::vector<checksum> &sums);
  static status read_for_parity(striped_object &striped,
                                parity_work &work,
                                std::vector<checksum> &sums);
  static status write_parity_part(striped_object &striped,
                                  parity_work &work,
                                  std::vector<checksum> &sums);
  status open_fragment(const striped_object &striped, size_t index, open_object &object);
  status move_fragment(striped_object &striped,
                       size_t index,
                       std::span<const stripe_piece> pieces,
                       bool on_device);
  status read_fragment(striped_object &striped,
                       size_t index,
                       std::span<const stripe_piece> pieces,
                       bool on_device);
  std::vector<size_t> read_direct(striped_object &striped,
                                  const std::vector<size_t> &indices,
                                  const stripe_round &round,
                                  bool on_device);
  status read_fragments(striped_object &striped, const stripe_round &round, bool on_device);
  status recover_pieces(striped_object &striped,
                        size_t index,
                        std::span<const stripe_piece> pieces,
                        bool on_device);
  status rebuild_range(striped_object &striped,
                       size_t index,
                       uint64_t offset,
                       std::span<std::byte> target);
  bool read_enough(striped_object &striped, recovery &work);
  std::vector<size_t> choose_sources(const striped_object &striped, recovery &work) const;
  void read_sources(striped_object &striped, const std::vector<size_t> &wanted, recovery &work);
  status locate_fragments(striped_object &striped, bool tries_again);
  bool is_avoided(const striped_object &striped, size_t index) const;
  cached_object *find_cached(const std::string &name);
  void evict_cached(std::list<cached_object>::iterator entry);
  void cache_object(const std::string &name, open_object object, uint64_t counter);
  void drop_connection();
  // Whether the object can be opened again where its server was lost.
  bool can_reopen(const open_object &object) const noexcept {
    return is_cluster() && !object.is_writer && object.about.version != 0;
  }
  void clear_segments();
  status ensure_device();
  void prepare_device();
  using device_mappings = std::vector<std::shared_ptr<device_mapping>>;
  device_mappings reserve_segments();
  device_mappings fetch_segments(const std::vector<uint32_t> &wanted);
  void note_reserved_used(const std::vector<wire::pool::pool_extent> &pieces);

  address const daemon_;
  std::vector<server_place> places_;                // servers, the likeliest one first
  server_place connected_;                          // of the last connection
  bool is_cluster_ = false, is_to_backup_ = false;  // the connection
  std::string primary_;     // of the namespace, when the connection was made; empty: unknown
  uint64_t map_epoch_ = 0;  // of the cluster's map then
  uint64_t watch_ns_ = 0;   // when a wait for a reply next asks whether the primary is another one
  // Connections to the hidden namespaces of stripes, by partition.
  std::map<uint8_t, std::shared_ptr<client>> stripe_links_;
  std::map<std::string, std::shared_ptr<client>> fragment_links_;  // by address
  bool is_fragment_link_ = false;            // to one server, which has no successor
  uint64_t timeout_ns_ = 0;                  // of requests: that of the settings, or less
  uint64_t avoid_until_ns_ = 0;              // a server that has not answered
  std::optional<uint64_t> stripe_size_max_;  // larger objects are striped, 0: none; unknown yet
  client_settings const settings_;
  std::unique_ptr<channel> channel_;
  uint64_t epoch_ = 0;
  bool shared_ = false;
  std::string reason_, dial_reason_;  // why memory is not shared; the reason found by dial()
  segments segments_;
  seams::team helpers_{bulk_helper_count_max};
  const name_counters *counters_ = nullptr;
  std::list<cached_object> cache_;  // most recently used first
  std::unordered_map<std::string, std::list<cached_object>::iterator> cached_;
  uint64_t cached_size_ = 0;
  std::deque<posted_ptr> posted_;
  std::shared_ptr<device_copy> device_;
  std::unique_ptr<pinned_buffer> device_stage_;  // for streams
  // Held by the only connection of the process that reserves memory of the namespace in advance.
  std::shared_ptr<void> namespace_claim_;
  std::unordered_set<uint32_t> reserved_segments_;  // reserved segments that no write has used
  size_t reserved_used_count_ =
      0;  // reserved segments that writes have used since the last reservation
  std::unique_ptr<fabric_link> fabric_;
  traffic traffic_;
  wire::pool::mapped_reads_note unreported_reads_;  // reads that the daemon does not know of yet
  uint64_t unreported_count_ = 0, reported_ns_ = 0;
};

// In a cluster, another server may serve the namespace now.
template <class Request, class Reply>
status client::call(wire::pool::kind message_kind,
                    const Request &request,
                    Reply &answer,
                    std::vector<iovec> sources,
                    std::vector<iovec> targets,
                    uint64_t *data_size) {
  constexpr bool has_handle = requires { request.handle; };
  if (!is_cluster())
    return call_once(
        message_kind, request, answer, std::move(sources), std::move(targets), data_size);
  uint64_t const deadline_ns = deadline();
  std::optional<message_silence> silence;  // the first attempt was logged
  for (;;) {
    status const code = call_once(message_kind, request, answer, sources, targets, data_size);
    if (code == status::ok || clock().now_ns() >= deadline_ns ||
        !may_repeat(message_kind, code, has_handle))
      return code;
    if (!silence)
      silence.emplace();
  }
}

template <class Request, class Reply>
status client::call_once(wire::pool::kind message_kind,
                         const Request &request,
                         Reply &answer,
                         std::vector<iovec> sources,
                         std::vector<iovec> targets,
                         uint64_t *data_size) {
  uint64_t const used_epoch = epoch_;
  TND_TRY(ensure_connected(suits_backup(message_kind)));
  // A handle means nothing, or another object, to a new connection.
  if constexpr (requires { request.handle; })
    if (epoch_ != used_epoch)
      return refuse_handle();
  report_reads(message_kind == wire::pool::kind::statistics);
  uint64_t const deadline_ns = deadline();
  status code = status::ok;
  bool done = false;
  uint64_t const tag = channel_->post(
      message_kind, request, std::move(sources), std::move(targets), [&](const reply &received) {
        code = received.code;
        if (code == status::ok)
          code = wire::decode(received.body, answer);
        if (data_size != nullptr)
          *data_size = received.data_size;
        done = true;
      });
  TND_TRY(await_reply(message_kind, tag, done, deadline_ns));
  if (code == status::peer_lost)
    return fail(code, "pool at {}: the connection has ended", daemon_.host);
  if (code == status::protocol)
    channel_->end(code);
  return with_url_of(code, request);
}

template <class Request, class Reply>
status client::call_for_handle(wire::pool::kind message_kind,
                               const Request &request,
                               Reply &answer) {
  status const code = call(message_kind, request, answer);
  if (code != status::too_many_files || cache_.empty())
    return code;
  while (!cache_.empty())
    evict_cached(cache_.begin());
  return call(message_kind, request, answer);
}

// In a cluster, an object that is open for reading is opened again where its server was lost.
template <class Read>
status client::retry_read(open_object &object, const Read &read_bytes) {
  uint64_t const deadline_ns = deadline();
  for (;;) {
    status const code = read_bytes();
    bool const is_lost = code == status::stale || code == status::peer_lost;
    if (!is_lost || !can_reopen(object) || clock().now_ns() >= deadline_ns)
      return code;
    TND_TRY(reopen(object));
  }
}

template <class Request>
status client::with_url_of(status code, const Request &request) const {
  if constexpr (requires { request.name; })
    return with_url(code, request.name);
  else if constexpr (
      requires { request.set; } || requires { request.prefix; } ||
      requires { request.name_filter; })
    return with_url(code, {});
  else
    return code;
}

}  // namespace tanada::pool
