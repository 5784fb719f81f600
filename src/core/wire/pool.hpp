// core/wire/pool.hpp: the protocol between a client of the pool and its daemon, over one stream.
//
// A frame is a header, a body (one message) and data (bytes of objects). Client and server first
// perform a handshake: hello, challenge, proof, welcome (products/pool/auth.hpp); `identify` may
// precede it. Each later request is answered by one frame with the same kind and tag, in any order.
// `close`, `note`, `mapped_reads` and `replica_settled` have no reply. A reply with a status other
// than 0 has a text as its body.
#pragma once

#include <compare>
#include <optional>

#include "core/wire/codec.hpp"
#include "core/wire/pool_erasure.hpp"
#include "core/wire/status_code.hpp"

namespace tanada::wire::pool {

// A client of version 5 cannot read striped objects. All else is the same. The servers of a cluster
// agree on a version, see poold::membership, and use what is new in one once all of them have it.
// So a message between servers may change only for connections of a new version.
inline constexpr uint32_t protocol_version = 7, protocol_version_min = 5;
inline constexpr uint32_t striping_version = 6;       // the first one with striped objects
inline constexpr uint32_t replica_fetch_version = 7;  // the first one with replica_fetch
inline constexpr uint32_t frame_magic = 0x31444E54;   // "TND1"
inline constexpr size_t body_size_max = 65536;
inline constexpr size_t name_size_max = 512;
inline constexpr size_t range_count_max = 2048;   // in one message
inline constexpr size_t extent_count_max = 2048;  // in one object
inline constexpr uint64_t object_size_max = uint64_t{1} << 46;
inline constexpr uint64_t fabric_proof_ns =
    10'000'000'000;  // time limit from naming an endpoint to its proof

enum class kind : uint16_t {
  hello = 1,
  challenge,
  proof,
  welcome,
  identify,
  create = 16,
  open,
  resize,
  write,
  read,
  note,
  commit,
  close,
  put,
  get,
  stat,
  list,
  rename,
  remove,
  set_flags,
  set_commit,
  segment,
  statistics,
  fabric,
  rma_write,
  rma_read,
  fabric_proof,
  mapped_reads,
  reserve,
  namespaces,
  locate,
  replica_begin,
  replica_list,
  replica_apply,
  replica_mark,
  cluster_status,
  cluster_drain,
  read_backup,
  replica_settled,
  ring,
  create_striped,
  stripe_places,
  stripe_check,
  stripe_hint,
  stripe_evict,
  cluster_remove,
  cluster_clear,
  cluster_erasure,
  fragment_places,
  fragment_report,
  fragment_build,
  fragment_read,
  replica_fetch,
  stripe_limits,
};
inline constexpr kind last_kind = kind::stripe_limits;

struct frame {
  uint32_t magic = frame_magic;
  uint16_t kind = 0;  // kind
  uint16_t reserved = 0;
  uint32_t body_size = 0;  // bytes
  int32_t code = 0;        // replies: tnd_status
  uint64_t tag = 0;        // chosen by the client; returned in the reply
  uint64_t data_size = 0;  // bytes after the body
};
static_assert(sizeof(frame) == 32 && offsetof(frame, tag) == 16 &&
              offsetof(frame, data_size) == 24);

// protocol: not a frame, or larger than the limits.
status frame_check(const frame &head);

using wire::status_of;

using bytes32 = std::array<uint8_t, 32>;

struct range {
  uint64_t offset = 0, size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.offset) && f(m.size);
  }
};

// The location of a part of an object in the pool.
struct pool_extent {
  uint32_t segment = 0;
  uint64_t offset = 0, size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.segment) && f(m.offset) && f(m.size);
  }
};

struct info {
  uint64_t size = 0, version = 0, created_ns = 0, checksum = 0;
  uint32_t checksum_kind = 0, flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.size) && f(m.version) && f(m.created_ns) && f(m.checksum) && f(m.checksum_kind) &&
           f(m.flags);
  }
};

struct hello_message {
  uint32_t version = protocol_version;
  std::string namespace_name, key_id;  // if the namespace is empty, only `namespaces` may follow
  bytes32 nonce{};
  static bool fields(auto &f, auto &m) {
    return f(m.version) && f(m.namespace_name) && f(m.key_id) && f(m.nonce);
  }
};

// Reply to `identify`, sent at most once and before the hello. It identifies the daemon to a client
// that reaches it by two transports.
struct identity_reply {
  bytes32 id{};
  static bool fields(auto &f, auto &m) {
    return f(m.id);
  }
};

struct challenge_message {
  uint32_t version = protocol_version;
  bytes32 nonce{}, proof{};
  static bool fields(auto &f, auto &m) {
    return f(m.version) && f(m.nonce) && f(m.proof);
  }
};

struct proof_message {
  bytes32 proof{};
  static bool fields(auto &f, auto &m) {
    return f(m.proof);
  }
};

// welcome_message::is_durable of a pool of one server whose objects may be larger than its memory:
// it has stripe_limits.
inline constexpr uint8_t durable_and_striped = 2;

// With `shares_memory`, the descriptor of the counters is passed along; see
// products/pool/name_counters.hpp.
struct welcome_message {
  uint8_t can_write = 0, is_durable = 0, shares_memory = 0, is_cluster = 0;
  std::string reason;  // why memory is not shared
  static bool fields(auto &f, auto &m) {
    return f(m.can_write) && f(m.is_durable) && f(m.shares_memory) && f(m.is_cluster) &&
           f(m.reason);
  }
};

struct create_request {
  std::string name, set;
  uint64_t size = 0;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.set) && f(m.size) && f(m.flags);
  }
};

struct open_request {  // open, stat
  std::string name;
  uint64_t version = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.version);
  }
};

struct object_reply {  // create, open, resize; `extents` only where memory is shared
  uint64_t handle = 0;
  info object_info;
  std::vector<pool_extent> extents;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.object_info) && f(m.extents);
  }
};

struct resize_request {
  uint64_t handle = 0, size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.size);
  }
};

// write: the data follows, range by range. read: the reply has the data. note: ranges that were
// written through the mapping.
struct ranges_request {
  uint64_t handle = 0;
  std::vector<range> ranges;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.ranges);
  }
};

struct handle_request {  // close
  uint64_t handle = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.handle);
  }
};

struct commit_terms {
  uint32_t flags = 0, checksum_kind = 0;
  uint8_t has_checksum = 0;
  uint64_t checksum = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.flags) && f(m.checksum_kind) && f(m.has_checksum) && f(m.checksum);
  }
};

struct commit_request {
  uint64_t handle = 0;
  commit_terms terms;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.terms);
  }
};

struct put_request {  // the data of the frame is the object
  std::string name;
  commit_terms terms;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.terms);
  }
};

// commit, put, stat, get. For get, the data of the frame is the object, or empty if it is larger
// than the capacity
struct info_reply {
  info object_info;
  static bool fields(auto &f, auto &m) {
    return f(m.object_info);
  }
};

struct get_request {
  std::string name;
  uint64_t capacity = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.capacity);
  }
};

struct list_request {
  // Names greater than `after`. With a delimiter, the names that contain it after the prefix are
  // one entry for all that are equal up to it, and `after` may be such an entry.
  std::string prefix, after, delimiter;
  static bool fields(auto &f, auto &m) {
    return f(m.prefix) && f(m.after) && f(m.delimiter);
  }
};

struct list_entry {
  std::string name;
  info object_info;
  uint8_t is_prefix = 0;  // `name` is what several names begin with; `object_info` is empty
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.object_info) && f(m.is_prefix);
  }
};

struct list_reply {
  std::vector<list_entry> entries;
  uint8_t more = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.entries) && f(m.more);
  }
};

// Lists the namespaces that the key of the client can access, by name.
struct namespaces_request {
  // `name_filter`: restricts the list to this one, unless it is empty; names greater than `after`
  std::string name_filter, after;
  static bool fields(auto &f, auto &m) {
    return f(m.name_filter) && f(m.after);
  }
};

struct namespace_entry {
  std::string namespace_name;
  uint64_t used = 0, owned = 0, segment_count = 0, object_count = 0, quota = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.used) && f(m.owned) && f(m.segment_count) &&
           f(m.object_count) && f(m.quota);
  }
};

struct namespaces_reply {
  std::vector<namespace_entry> entries;
  uint8_t more = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.entries) && f(m.more);
  }
};

struct rename_request {
  std::string name, new_name;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.new_name) && f(m.flags);
  }
};

struct flags_request {  // remove, set_flags
  std::string name;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.flags);
  }
};

struct set_commit_request {
  std::string set;
  uint64_t count = 0;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.set) && f(m.count) && f(m.flags);
  }
};

struct segment_request {
  uint32_t segment = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.segment);
  }
};

struct segment_reply {  // its descriptor is passed along
  uint64_t size = 0, file_offset = 0;
  uint8_t writable = 0, has_huge_pages = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.size) && f(m.file_offset) && f(m.writable) && f(m.has_huge_pages);
  }
};

// The reply to `ring`: a descriptor of the connection's rings in shared memory is passed along, and
// everything after the reply travels through them. The client sends nothing between the two. See
// backends/sockets/ring_stream.hpp.
struct ring_reply {
  uint64_t size = 0;  // bytes
  static bool fields(auto &f, auto &m) {
    return f(m.size);
  }
};

// Reserves the segments that the next objects of the namespace use first, so that a client can map
// them in advance.
struct reserve_request {
  uint64_t size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.size);
  }
};

struct reserve_reply {
  std::vector<uint32_t> segments;
  static bool fields(auto &f, auto &m) {
    return f(m.segments);
  }
};

// Where a namespace is served. Sent before the hello, like `identify`, or as any request.
struct locate_request {
  std::string namespace_name;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name);
  }
};

// `read_backup`, an empty message before the hello: the connection is for reads only, and any
// server that has a copy of the namespace may answer them.

struct server_address {
  std::string text;  // "host:port"
  static bool fields(auto &f, auto &m) {
    return f(m.text);
  }
};

// `servers`: the namespace's primary first. `members`: all servers of the cluster. Both are empty
// in a pool of one server.
struct locate_reply {
  uint64_t epoch = 0;
  std::vector<server_address> servers, members;
  static bool fields(auto &f, auto &m) {
    return f(m.epoch) && f(m.servers) && f(m.members);
  }
};

enum class server_state : uint8_t { up, draining, away };

// A server of the cluster, and how many partitions it is primary of, has a copy of, and is being
// copied, and how many fragments it has. `away`: it holds partitions and does not run.
struct cluster_server {
  std::string name, address, domain;
  uint8_t state = 0;  // server_state
  uint32_t primary_count = 0, copy_count = 0, joining_count = 0, fragment_count = 0;
  std::string problem = {};  // of the link from the server that answers; empty: none
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.address) && f(m.domain) && f(m.state) && f(m.primary_count) &&
           f(m.copy_count) && f(m.joining_count) && f(m.fragment_count) && f(m.problem);
  }
};
inline constexpr size_t cluster_server_count_max = 256;  // in a reply

// The erasure code of a namespace's striped objects.
struct erasure_setting {
  std::string namespace_name;
  erasure_scheme scheme;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.scheme);
  }
};
inline constexpr size_t erasure_setting_count_max = 64;  // in a cluster

// missing: copies and fragments that should be there and are not. offline: partitions without a
// running copy. lost: partitions whose copies were all lost, and which began again empty.
struct cluster_status_reply {
  uint64_t epoch = 0;
  uint32_t copies = 0, partition_count = 0, missing_count = 0, offline_count = 0, lost_count = 0;
  uint64_t silence_ns = 0;  // since etcd confirmed this; 0: it is new
  std::vector<cluster_server> servers;
  std::vector<erasure_setting> erasure;
  static bool fields(auto &f, auto &m) {
    return f(m.epoch) && f(m.copies) && f(m.partition_count) && f(m.missing_count) &&
           f(m.offline_count) && f(m.lost_count) && f(m.silence_ns) && f(m.servers) && f(m.erasure);
  }
};

// Moves all partitions to other servers, or lets the server have some again.
struct cluster_drain_request {
  std::string server;
  uint8_t is_draining = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.server) && f(m.is_draining);
  }
};

// Forgets a server that does not run.
struct cluster_remove_request {
  std::string server;
  uint8_t is_forced = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.server) && f(m.is_forced);
  }
};

// Of a striped object. Never reused in a cluster.
struct striped_id {
  uint64_t run = 0, number = 0;
  auto operator<=>(const striped_id &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.run) && f(m.number);
  }
};

// In info::flags of a striped object.
inline constexpr uint32_t flag_striped = 4;

inline constexpr uint32_t stripe_partition_count = 256;
inline constexpr size_t stripe_count_max = size_t{1} << 20;
inline constexpr size_t local_stripe_count_max = stripe_count_max / 9;  // a place and a version
inline constexpr uint64_t stripe_manifest_magic = 0x4550495254444E54;   // "TNDTRIPE"

// A run of a server that has fragments. Another run has them only if the server's pool is durable.
struct fragment_server {
  std::string address;  // "host:port", which is also its name
  uint64_t run = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.address) && f(m.run);
  }
};

// The bytes of a striped object in its own namespace. Stripe i has the bytes from i * stripe_size
// on, and lies in the hidden namespace of partitions[i]. With an erasure code there are no
// partitions: a stripe is a data fragment, and fragment i was put on servers[places[i]].
struct stripe_manifest {
  uint64_t magic = stripe_manifest_magic;
  striped_id id;
  uint64_t size = 0, stripe_size = 0;  // bytes
  uint64_t checksum = 0;               // of all bytes
  uint32_t checksum_kind = 0;
  std::vector<uint8_t> partitions;
  erasure_scheme erasure;
  std::vector<fragment_server> servers;
  std::vector<uint8_t> places;
  std::vector<uint64_t> sums;  // XXH3 of each fragment; of a pool's only server, see versions
  static bool fields(auto &f, auto &m) {
    return f(m.magic) && f(m.id) && f(m.size) && f(m.stripe_size) && f(m.checksum) &&
           f(m.checksum_kind) && f(m.partitions) && f(m.erasure) && f(m.servers) && f(m.places) &&
           f(m.sums);
  }
  erasure_layout layout() const {
    return {erasure, size, stripe_size};
  }
  // Of the stripes, in a pool that has one server; empty if each was put once, and in a cluster. A
  // disk that fails may lose the last version of a stripe, and not an earlier one.
  std::vector<uint64_t> &versions() noexcept {
    return sums;
  }
  const std::vector<uint64_t> &versions() const noexcept {
    return sums;
  }
  uint64_t size_of(size_t index) const {
    uint64_t const offset = index * stripe_size;
    return offset >= size ? 0 : size - offset < stripe_size ? size - offset : stripe_size;
  }
};
inline constexpr size_t stripe_manifest_size_max = stripe_count_max + 128;

// Whether the stripes or fragments cover the size exactly.
bool is_valid(const stripe_manifest &manifest);

// Stripes of the namespace's objects lie in hidden namespaces, one for each partition. Their names
// have a '/', which other namespaces cannot have.
struct stripe_space {
  std::string namespace_name;  // of the striped objects
  uint32_t partition = 0;
};
std::string stripe_space_name(const std::string &namespace_name, uint32_t partition);
std::optional<stripe_space> stripe_space_parse(const std::string &name);

// Each server has a hidden namespace for the fragments that it has of the namespace's objects.
// These are not replicated.
std::string fragment_space_name(const std::string &namespace_name);
bool is_fragment_space(const std::string &name);
// The namespace whose stripes or fragments the hidden namespace is for; null: it is for none.
std::optional<std::string> hidden_space_owner(const std::string &name);
inline bool is_hidden_namespace(const std::string &name) {
  return name.find('/') != std::string::npos;
}

// The names of an object's stripes have a common prefix.
inline constexpr size_t stripe_prefix_size = 33;
std::string stripe_prefix(const striped_id &id);
std::string stripe_name(const striped_id &id, size_t index);
std::optional<striped_id> stripe_name_parse(const std::string &name);
// The index in a name for which stripe_name_parse() has an id.
std::optional<uint64_t> stripe_index_parse(const std::string &name);

// Begins a striped object of this size. Its manifest is written with the handle.
struct create_striped_request {
  std::string name, set;
  uint64_t size = 0;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.name) && f(m.set) && f(m.size) && f(m.flags);
  }
};

struct create_striped_reply {
  uint64_t handle = 0;
  striped_id id;
  info object_info;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.id) && f(m.object_info);
  }
};

struct stripe_server {
  std::string address;  // "host:port"
  uint64_t weight = 1;
  uint64_t run = 0;         // see fragment_server
  std::string domain = {};  // its failure domain; empty: one of its own
  uint8_t is_draining = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.address) && f(m.weight) && f(m.run) && f(m.domain) && f(m.is_draining);
  }
};
inline constexpr uint8_t no_stripe_server = 255;  // also the largest number of servers

// Where stripes can be put: the servers of each partition, as indices of `servers`.
struct stripe_places_reply {
  uint64_t stripe_size = 0;  // larger objects are striped; 0: none
  std::vector<stripe_server> servers;
  std::vector<uint8_t> primaries, backups;
  erasure_scheme erasure;  // of the namespace
  static bool fields(auto &f, auto &m) {
    return f(m.stripe_size) && f(m.servers) && f(m.primaries) && f(m.backups) && f(m.erasure);
  }
};

// From a server that has stripes to the primary of their objects: which of these objects exist? An
// object that does not exist will never exist again. stale, again: the receiver is not the primary,
// or not ready.
struct stripe_ids_request {  // stripe_check, stripe_hint
  std::string namespace_name;
  std::vector<striped_id> ids;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.ids);
  }
};
inline constexpr size_t stripe_id_count_max = 1024;  // in a request

// Evicts striped objects of the namespace, the least recently used first, until these had so many
// bytes: a server has no space for a stripe. The reply has the bytes that were evicted; the memory
// is free some time later.
struct stripe_evict_request {
  uint64_t size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.size);
  }
};
using stripe_evict_reply = stripe_evict_request;

struct stripe_check_reply {
  std::vector<uint8_t> is_known;
  static bool fields(auto &f, auto &m) {
    return f(m.is_known);
  }
};

struct empty_message {
  static bool fields(auto &, auto &) {
    return true;
  }
};

struct text_message {  // the body of a reply with an error
  std::string text;
  static bool fields(auto &f, auto &m) {
    return f(m.text);
  }
};

struct statistics_reply {
  uint64_t client_count = 0, capacity = 0, used = 0, object_count = 0;
  uint64_t namespace_used = 0, namespace_object_count = 0, namespace_quota = 0;
  uint64_t written_size = 0, read_size = 0, commits = 0, opens = 0, evictions = 0, errors = 0,
           uptime_ns = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.client_count) && f(m.capacity) && f(m.used) && f(m.object_count) &&
           f(m.namespace_used) && f(m.namespace_object_count) && f(m.namespace_quota) &&
           f(m.written_size) && f(m.read_size) && f(m.commits) && f(m.opens) && f(m.evictions) &&
           f(m.errors) && f(m.uptime_ns);
  }
};

// The client and the daemon exchange the addresses of their endpoints. The daemon then sends a
// fabric_challenge over the fabric to the endpoint of the client, which returns the secret over the
// stream. Until then, the daemon neither reads nor writes there.
struct fabric_request {
  std::string provider, address;
  static bool fields(auto &f, auto &m) {
    return f(m.provider) && f(m.address);
  }
};

struct fabric_reply {
  std::string provider, address;
  bytes32 tag{};  // of the challenge that follows
  static bool fields(auto &f, auto &m) {
    return f(m.provider) && f(m.address) && f(m.tag);
  }
};

struct fabric_challenge {
  bytes32 tag{}, secret{};
  static bool fields(auto &f, auto &m) {
    return f(m.tag) && f(m.secret);
  }
};
inline constexpr size_t fabric_challenge_size = 2 * sizeof(bytes32);

struct fabric_proof {
  bytes32 secret{};
  static bool fields(auto &f, auto &m) {
    return f(m.secret);
  }
};

// rma_write: the daemon reads the memory of the client into the object. rma_read: it writes the
// object into that memory. `memory_offset` is relative to the region that base, key and region_size
// describe.
struct rma_request {
  uint64_t handle = 0, offset = 0, size = 0;
  uint64_t base = 0, key = 0, region_size = 0, memory_offset = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.handle) && f(m.offset) && f(m.size) && f(m.base) && f(m.key) && f(m.region_size) &&
           f(m.memory_offset);
  }
};

// Bytes that the host and the GPU of the client copied out of its mapping since the last note.
struct mapped_reads_note {
  uint64_t host_size = 0, device_size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.host_size) && f(m.device_size);
  }
};

// A frame of header and body, ready to send.
template <class Message>
std::vector<std::byte> encode_frame(frame head, const Message &message) {
  constexpr size_t usual_body_size = 128;
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(frame) + usual_body_size);
  bytes.resize(sizeof(frame));
  encode(message, bytes);
  head.body_size = uint32_t(bytes.size() - sizeof(frame));
  __builtin_memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

// Whether the name has 1 to name_size_max bytes and no zero byte.
bool is_valid_name(const std::string &name);

}  // namespace tanada::wire::pool
