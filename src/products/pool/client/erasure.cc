// A client's striped objects with an erasure code: the fragments' servers, parity, and reads
// without some of the fragments.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/wire/pool_fragments.hpp"
#include "products/pool/client/box.hpp"
#include "products/pool/client/striped_object.hpp"
#include "products/pool/erasure_codec.hpp"
#include "products/pool/fragment_placement.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t fragment_alignment = 4096;
constexpr size_t fragment_link_count_max = 64;      // of links that no open object uses
constexpr uint64_t request_size_max = 8 << 20;      // bytes of a fragment read at a time
constexpr uint64_t parity_part_size = 4 << 20;      // bytes of a fragment encoded at a time
constexpr uint64_t recovered_part_size = 4 << 20;   // bytes of a fragment decoded at a time
constexpr uint64_t slow_ns = 3'000'000'000;         // a server that takes longer counts as lost
constexpr uint64_t avoid_ns = 5'000'000'000;        // it is not tried again for this time
constexpr uint64_t locate_ns_max = 500'000'000;     // without need: K others can be read
constexpr uint64_t recover_retry_ns = 100'000'000;  // too few fragments can be read

uint64_t quotient_up(uint64_t number, uint64_t divisor) {
  return number / divisor + (number % divisor != 0 ? 1 : 0);
}

// So that the last group has as equally long fragments as the others.
uint64_t fragment_size_of(const stripe_places_reply &places, uint64_t size) {
  uint64_t const data_count = places.erasure.data_count;
  uint64_t const round_count =
      std::max<uint64_t>(quotient_up(size, places.stripe_size * data_count), 1);
  uint64_t const group_count_max = fragment_count_max / places.erasure.width();
  uint64_t const even_size = quotient_up(size, std::min(round_count, group_count_max) * data_count);
  if (size == 0)
    return places.stripe_size;
  return quotient_up(even_size, fragment_alignment) * fragment_alignment;
}

// Fragments that could not be read, from several threads.
class failed_fragments {
 public:
  // The thread's last message has the reason.
  void add(size_t index, status code) {
    lock_guard lock{mutex_};
    codes_[index] = code;
    reason_ = last_message();
  }
  std::string reason() {
    lock_guard lock{mutex_};
    return reason_;
  }
  // Called once the threads have ended.
  std::map<size_t, status> take() {
    lock_guard lock{mutex_};
    return std::move(codes_);
  }

 private:
  mutex mutex_;
  std::map<size_t, status> codes_ TND_GUARDED_BY(mutex_);
  std::string reason_ TND_GUARDED_BY(mutex_);
};

}  // namespace

// The computation of a group's parity.
struct client::parity_work {
  uint64_t first = 0;                // fragment of the group
  std::vector<size_t> data, parity;  // fragments that have bytes
  uint64_t offset = 0, size = 0;     // the part of each of them that is under way
  std::vector<std::vector<std::byte>> buffers;
};

// The decoding of a part of a fragment.
struct client::recovery {
  size_t index = 0;
  uint64_t offset = 0, size = 0;
  std::vector<std::vector<std::byte>> buffers;  // of the group's fragments
  std::set<size_t> is_read;                     // fragments whose part is in its buffer
  std::vector<erasure_codec::source> sources;
  std::string reason;  // why one of them could not be read
};

namespace {

// The fragments of a group that have bytes.
std::vector<size_t> group_members(const striped_object &striped, uint64_t group, bool with_parity) {
  erasure_layout const layout = striped.manifest.layout();
  std::vector<size_t> members;
  uint64_t const first = group * layout.scheme.width();
  for (uint64_t i = first; i < first + layout.scheme.width(); i++)
    if (layout.size_of(i) > 0 && (with_parity || !layout.is_parity(i)))
      members.push_back(i);
  return members;
}

}  // namespace

// ---- places

// The link connects when it is first used, and only to this server.
std::shared_ptr<client> client::fragment_link(const std::string &address) {
  std::shared_ptr<client> &link = fragment_links_[address];
  if (link != nullptr)
    return link;
  pool::address location;
  if (auto const place = place_parse(address); place.ok()) {
    location.host = place.value().host;
    location.port = place.value().port;
  }
  location.space = fragment_space_name(daemon_.space);
  link.reset(new client{std::move(location), settings_});
  link->is_fragment_link_ = true;
  std::shared_ptr<client> const created = link;
  if (fragment_links_.size() > fragment_link_count_max)
    std::erase_if(fragment_links_, [](auto const &entry) { return entry.second.use_count() == 1; });
  return created;
}

void client::begin_fragments(striped_object &striped,
                             const stripe_places_reply &places,
                             uint64_t size) {
  striped.servers = places.servers;
  striped.manifest.erasure = places.erasure;
  striped.manifest.stripe_size = fragment_size_of(places, size);
}

// Assigns the fragments of further groups to servers. Returns the new data fragments.
result<std::vector<size_t>> client::place_fragments(striped_object &striped, uint64_t size) {
  stripe_manifest &manifest = striped.manifest;
  uint64_t const before = manifest.size;
  manifest.size = size;
  uint64_t const count = manifest.layout().fragment_count();
  if (count > fragment_count_max) {
    manifest.size = before;
    return too_many_parts(size, fragment_count_max, "fragments", manifest.stripe_size);
  }
  while (striped.stripes.size() < count) {
    uint64_t const group = manifest.layout().group_of(striped.stripes.size());
    if (status const code = place_group(striped, group); code != status::ok) {
      manifest.size = before;
      return code;
    }
  }
  std::vector<size_t> added;
  for (uint64_t group = 0; group < manifest.layout().group_count(); group++)
    for (size_t const index : group_members(striped, group, false))
      if (striped.stripes[index].object.handle == 0)
        added.push_back(index);
  return added;
}

// Whether it answers now. The link may be broken, and not know it.
bool client::is_server_usable(const std::string &address) {
  std::shared_ptr<client> const link = fragment_link(address);
  if (clock().now_ns() < link->avoid_until_ns_)
    return false;
  if (link->channel_ != nullptr)
    (void)link->channel_->check();
  link->timeout_ns_ = std::min(settings_.timeout_ns, slow_ns);
  bool const is_usable = link->ensure_connected(false) == status::ok;
  link->timeout_ns_ = settings_.timeout_ns;
  if (!is_usable)
    link->avoid_until_ns_ = clock().now_ns() + avoid_ns;
  return is_usable;
}

// Servers that do not answer are left out.
status client::place_group(striped_object &striped, uint64_t group) {
  const erasure_scheme &scheme = striped.manifest.erasure;
  fragment_placement placement{striped.servers, striped.manifest.id, group};
  std::vector<const stripe_server *> chosen;
  std::string reason;
  while (chosen.size() < scheme.width()) {
    auto const candidate = placement.next();
    if (!candidate)
      return fail(status::again,
                  "an object with erasure code {} needs {} servers that are not draining: {} of {} "
                  "can be used now{}{}",
                  to_string(scheme),
                  scheme.width(),
                  chosen.size(),
                  striped.servers.size(),
                  reason.empty() ? "" : ": ",
                  reason);
    const stripe_server &server = striped.servers[*candidate];
    if (is_server_usable(server.address))
      chosen.push_back(&server);
    else
      reason = last_message();
  }
  for (const stripe_server *const server : chosen)
    add_place(striped, *server);
  return status::ok;
}

void client::add_place(striped_object &striped, const stripe_server &server) {
  stripe_manifest &manifest = striped.manifest;
  auto known = std::find_if(
      manifest.servers.begin(), manifest.servers.end(), [&](const fragment_server &entry) {
        return entry.address == server.address && entry.run == server.run;
      });
  if (known == manifest.servers.end())
    known = manifest.servers.insert(known, {server.address, server.run});
  manifest.places.push_back(uint8_t(known - manifest.servers.begin()));
  manifest.sums.push_back(0);
  striped.stripes.push_back({fragment_link(server.address), {}});
}

// Closes the fragments beyond the object's size.
void client::drop_fragments(striped_object &striped) {
  stripe_manifest &manifest = striped.manifest;
  uint64_t const count = manifest.layout().fragment_count();
  for (size_t i = 0; i < striped.stripes.size(); i++)
    if (i >= count || striped.size_of(i) == 0) {
      striped.stripes[i].link->close(striped.stripes[i].object);
      striped.stripes[i].object = {};
    }
  striped.stripes.resize(std::min<size_t>(striped.stripes.size(), count));
  manifest.places.resize(striped.stripes.size());
  manifest.sums.resize(striped.stripes.size());
}

// ---- writing

namespace {

// The bytes of a fragment. Those of parity are computed, and `buffer` keeps them.
std::span<const std::byte> fragment_bytes(const erasure_layout &layout,
                                          uint64_t index,
                                          const std::byte *source,
                                          std::vector<std::byte> &buffer) {
  auto const bytes_of = [&](uint64_t number) {
    uint64_t const offset = std::min(layout.offset_of(number), layout.size);
    return std::span{source + offset, layout.size_of(number)};
  };
  if (!layout.is_parity(index))
    return bytes_of(index);
  uint64_t const first = layout.group_of(index) * layout.scheme.width();
  std::vector<erasure_codec::fragment> data;
  for (uint64_t i = first; i < first + layout.scheme.data_count; i++)
    data.push_back(bytes_of(i));
  buffer.resize(layout.size_of(index));
  erasure_codec const codec{layout.scheme};
  codec.encode(data, layout.place_of(index) - layout.scheme.data_count, buffer);
  return buffer;
}

}  // namespace

// Each parity fragment is computed by the thread that sends it.
status client::put_fragments(striped_object &striped,
                             const void *source,
                             uint64_t size,
                             const commit_terms &terms) {
  stripe_manifest &manifest = striped.manifest;
  erasure_layout const layout = manifest.layout();
  std::vector<size_t> indices;
  for (uint64_t group = 0; group < layout.group_count(); group++)
    for (size_t const index : group_members(striped, group, true))
      indices.push_back(index);
  return fill_stripes(striped, indices, size, [&](size_t index) {
    std::vector<std::byte> buffer;
    auto const bytes =
        fragment_bytes(layout, index, static_cast<const std::byte *>(source), buffer);
    manifest.sums[index] = checksum_of(checksum_kind::xxh3, bytes);
    commit_terms const fragment_terms{terms.flags & (TND_POOL_DURABLE | TND_POOL_VERIFY),
                                      TND_POOL_CHECKSUM_XXH3,
                                      1,
                                      manifest.sums[index]};
    client &link = *striped.stripes[index].link;
    status const code =
        link.put(stripe_name(manifest.id, index), bytes.data(), bytes.size(), fragment_terms);
    if (code == status::peer_lost || code == status::timed_out)
      link.avoid_until_ns_ = clock().now_ns() + avoid_ns;
    striped.stripes[index].epoch = link.epoch_;
    return code;
  });
}

// Nobody rebuilds fragments before their object exists. So it is not committed if a server may have
// been lost since it has got its fragments.
status client::check_fragments(const striped_object &striped) {
  for (size_t i = 0; i < striped.stripes.size(); i++) {
    const striped_object::stripe &stripe = striped.stripes[i];
    client &link = *stripe.link;
    bool const is_same =
        striped.size_of(i) == 0 || (link.channel_ != nullptr && stripe.epoch == link.epoch_ &&
                                    link.channel_->check() == status::ok);
    if (!is_same)
      return fail(status::peer_lost,
                  "the connection to {} has ended since it was sent a fragment: write the object "
                  "again",
                  link.daemon_.host);
  }
  return status::ok;
}

// The data fragments have been written in parts of any size and order. They are read once more, to
// compute the others. Their servers compare what they have with what was read.
status client::commit_fragments(striped_object &striped, uint32_t flags) {
  stripe_manifest &manifest = striped.manifest;
  erasure_layout const layout = manifest.layout();
  std::vector<checksum> sums;
  for (uint64_t i = 0; i < layout.fragment_count(); i++)
    sums.emplace_back(checksum_kind::xxh3);
  std::vector<size_t> indices;
  for (uint64_t group = 0; group < layout.group_count(); group++) {
    TND_TRY(write_parity(striped, group, sums));
    for (size_t const index : group_members(striped, group, true))
      indices.push_back(index);
  }
  return run_stripes(striped, indices, false, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    manifest.sums[index] = sums[index].value();
    commit_terms const terms{
        flags | TND_POOL_VERIFY, TND_POOL_CHECKSUM_XXH3, 1, manifest.sums[index]};
    uint64_t version = 0;
    stripe.epoch = stripe.object.epoch;
    return stripe.link->commit(stripe.object, terms, version);
  });
}

status client::write_parity(striped_object &striped, uint64_t group, std::vector<checksum> &sums) {
  erasure_layout const layout = striped.manifest.layout();
  parity_work work;
  work.first = group * layout.scheme.width();
  work.data = group_members(striped, group, false);
  for (uint64_t i = 0; i < layout.scheme.parity_count; i++)
    work.parity.push_back(work.first + layout.scheme.data_count + i);
  work.buffers.resize(layout.scheme.width());
  uint64_t const parity_size = layout.size_of(work.parity.front());
  TND_TRY(run_stripes(striped, work.parity, false, [&](size_t index) {
    striped_object::stripe &stripe = striped.stripes[index];
    stripe.link->close(stripe.object);
    return stripe.link->create(
        stripe_name(striped.manifest.id, index), parity_size, 0, {}, stripe.object);
  }));
  for (uint64_t offset = 0; offset < parity_size; offset += parity_part_size) {
    work.offset = offset;
    work.size = std::min(parity_part_size, parity_size - offset);
    TND_TRY(read_for_parity(striped, work, sums));
    TND_TRY(write_parity_part(striped, work, sums));
  }
  return status::ok;
}

// A part of each data fragment, which its server has as it is to be committed.
status client::read_for_parity(striped_object &striped,
                               parity_work &work,
                               std::vector<checksum> &sums) {
  for (auto &buffer : work.buffers)
    buffer.clear();
  return run_stripes(striped, work.data, false, [&](size_t index) {
    uint64_t const whole_size = striped.size_of(index);
    auto &buffer = work.buffers[index - work.first];
    buffer.resize(whole_size <= work.offset ? 0 : std::min(work.size, whole_size - work.offset));
    if (buffer.empty())
      return status::ok;
    striped_object::stripe &stripe = striped.stripes[index];
    tnd_pool_box const box = row_box(work.offset, buffer.size());
    TND_TRY(stripe.link->read(stripe.object, box, {buffer.data(), false}));
    sums[index].add(buffer);
    return status::ok;
  });
}

status client::write_parity_part(striped_object &striped,
                                 parity_work &work,
                                 std::vector<checksum> &sums) {
  erasure_layout const layout = striped.manifest.layout();
  erasure_codec const codec{layout.scheme};
  std::vector<erasure_codec::fragment> const sources{
      work.buffers.begin(), work.buffers.begin() + layout.scheme.data_count};
  return run_stripes(striped, work.parity, false, [&](size_t index) {
    auto &buffer = work.buffers[index - work.first];
    buffer.resize(work.size);
    codec.encode(sources, layout.place_of(index) - layout.scheme.data_count, buffer);
    sums[index].add(buffer);
    striped_object::stripe &stripe = striped.stripes[index];
    tnd_pool_box const box = row_box(work.offset, buffer.size());
    return stripe.link->write(stripe.object, box, {buffer.data(), false});
  });
}

// ---- reading

bool client::is_avoided(const striped_object &striped, size_t index) const {
  const striped_object::stripe &stripe = striped.stripes[index];
  uint64_t const time_ns = clock().now_ns();
  return time_ns < stripe.avoid_until_ns || time_ns < stripe.link->avoid_until_ns_;
}

// What the server has under the fragment's name is the fragment only if it has its checksum.
status client::open_fragment(const striped_object &striped, size_t index, open_object &object) {
  TND_TRY(open(stripe_name(striped.manifest.id, index), 0, object));
  bool const is_right = object.about.size == striped.size_of(index) &&
                        object.about.checksum_kind == TND_POOL_CHECKSUM_XXH3 &&
                        object.about.checksum == striped.manifest.sums[index];
  if (is_right)
    return status::ok;
  close(object);
  object = {};
  return fail(
      status::corrupt, "fragment {} at {} is not the one that was written", index, daemon_.host);
}

namespace {

// Requests of bounded size, so that a server that is slow is found.
std::vector<std::vector<stripe_piece>> split_pieces(std::span<const stripe_piece> pieces) {
  std::vector<std::vector<stripe_piece>> requests(1);
  uint64_t size = 0;
  for (stripe_piece rest : pieces)
    while (rest.size > 0) {
      if (size == request_size_max) {
        requests.emplace_back();
        size = 0;
      }
      uint64_t const part_size = std::min(rest.size, request_size_max - size);
      requests.back().push_back({rest.offset, part_size, rest.memory});
      rest = {rest.offset + part_size, rest.size - part_size, rest.memory + part_size};
      size += part_size;
    }
  return requests;
}

}  // namespace

status client::move_fragment(striped_object &striped,
                             size_t index,
                             std::span<const stripe_piece> pieces,
                             bool on_device) {
  open_object &object = striped.stripes[index].object;
  bool const is_open = object.handle != 0 && check_usable(object) == status::ok;
  if (!is_open) {
    object = {};
    TND_TRY(open_fragment(striped, index, object));
  }
  for (const std::vector<stripe_piece> &request : split_pieces(pieces))
    TND_TRY(move_pieces(object, request, on_device, false));
  return status::ok;
}

// Called by the thread of the fragment's link. After an error, the fragment is avoided for a while,
// and its server as well if it did not answer.
status client::read_fragment(striped_object &striped,
                             size_t index,
                             std::span<const stripe_piece> pieces,
                             bool on_device) {
  striped_object::stripe &stripe = striped.stripes[index];
  client &link = *stripe.link;
  if (is_avoided(striped, index))
    return status::peer_lost;
  link.timeout_ns_ = std::min(settings_.timeout_ns, slow_ns);
  bool const was_connected = link.channel_ != nullptr;
  status code = link.move_fragment(striped, index, pieces, on_device);
  // The server may run again.
  if (code == status::peer_lost && was_connected)
    code = link.move_fragment(striped, index, pieces, on_device);
  bool const is_whole = pieces.size() == 1 && pieces[0].size == striped.size_of(index);
  bool const is_damaged = code == status::ok && is_whole && !on_device &&
                          checksum_of(checksum_kind::xxh3, pieces[0].memory, pieces[0].size) !=
                              striped.manifest.sums[index];
  if (is_damaged)
    code = fail(
        status::corrupt, "fragment {} at {} does not have its checksum", index, link.daemon_.host);
  link.timeout_ns_ = settings_.timeout_ns;
  if (code == status::ok)
    return code;
  stripe.avoid_until_ns = clock().now_ns() + avoid_ns;
  bool const is_lost = code == status::peer_lost || code == status::timed_out;
  if (is_lost)
    link.avoid_until_ns_ = stripe.avoid_until_ns;
  return code;
}

// Returns those that could not be read.
std::vector<size_t> client::read_direct(striped_object &striped,
                                        const std::vector<size_t> &indices,
                                        const stripe_round &round,
                                        bool on_device) {
  failed_fragments failed;
  (void)run_stripes(striped, indices, on_device, [&](size_t index) {
    status const code = read_fragment(striped, index, round.pieces.find(index)->second, on_device);
    if (code != status::ok)
      failed.add(index, code);
    return status::ok;
  });
  std::vector<size_t> unread;
  for (auto const &[index, code] : failed.take())
    unread.push_back(index);
  return unread;
}

// Data fragments are read as they are. Only what cannot be read is decoded from others.
status client::read_fragments(striped_object &striped, const stripe_round &round, bool on_device) {
  std::vector<size_t> indices;
  for (auto const &[index, pieces] : round.pieces)
    indices.push_back(index);
  std::vector<size_t> unread = read_direct(striped, indices, round, on_device);
  // They may be elsewhere by now.
  if (!unread.empty() && clock().now_ns() >= striped.locate_ns) {
    striped.locate_ns = clock().now_ns() + avoid_ns;
    timeout_ns_ = std::min(settings_.timeout_ns, locate_ns_max);
    status const code = locate_fragments(striped, false);
    timeout_ns_ = settings_.timeout_ns;
    if (code == status::stale)
      return code;
    unread = read_direct(striped, unread, round, on_device);
  }
  for (size_t const index : unread)
    TND_TRY(recover_pieces(striped, index, round.pieces.find(index)->second, on_device));
  tnd_pool_path const path = striped.stripes[indices.front()].link->path();
  traffic_.add({path, on_device}, round.size, false);
  return status::ok;
}

status client::recover_pieces(striped_object &striped,
                              size_t index,
                              std::span<const stripe_piece> pieces,
                              bool on_device) {
  std::vector<std::byte> buffer;
  if (on_device)
    TND_TRY(ensure_device());
  for (const stripe_piece &piece : pieces) {
    for (uint64_t done = 0; done < piece.size; done += recovered_part_size) {
      uint64_t const size = std::min(recovered_part_size, piece.size - done);
      std::byte *const memory = piece.memory + done;
      buffer.resize(on_device ? size : 0);
      std::span const target = on_device ? std::span{buffer} : std::span{memory, size};
      TND_TRY(rebuild_range(striped, index, piece.offset + done, target));
      if (on_device)
        TND_TRY(device_->gpu().copy_to_device(memory, buffer.data(), size));
    }
  }
  bool const is_whole = pieces.size() == 1 && pieces[0].size == striped.size_of(index);
  bool const is_damaged = is_whole && !on_device &&
                          checksum_of(checksum_kind::xxh3, pieces[0].memory, pieces[0].size) !=
                              striped.manifest.sums[index];
  return is_damaged ? fail(status::corrupt,
                           "fragment {} of the object cannot be decoded: another one is damaged",
                           index)
                    : status::ok;
}

// Reads the same range of K others, and decodes it. While too few of them can be read, it looks
// where all of them are, until the timeout.
status client::rebuild_range(striped_object &striped,
                             size_t index,
                             uint64_t offset,
                             std::span<std::byte> target) {
  erasure_layout const layout = striped.manifest.layout();
  uint64_t const deadline_ns = deadline();
  recovery work;
  work.index = index;
  work.offset = offset;
  work.size = target.size();
  work.buffers.resize(layout.scheme.width());
  for (bool is_located = false; !read_enough(striped, work);) {
    if (is_located && clock().now_ns() >= deadline_ns)
      return fail(status::io,
                  "fewer than {} of the {} fragments of a part of the object can be read: {}",
                  layout.scheme.data_count,
                  layout.scheme.width(),
                  work.reason);
    if (std::exchange(is_located, true))
      clock().sleep_ns(recover_retry_ns);
    TND_TRY(locate_fragments(striped, true));
    // The fragment itself may only have been elsewhere.
    stripe_piece const piece{offset, target.size(), target.data()};
    if (read_fragment(striped, index, {&piece, 1}, false) == status::ok)
      return status::ok;
  }
  bool const is_decoded =
      erasure_codec{layout.scheme}.rebuild(work.sources, layout.place_of(index), target);
  return is_decoded ? status::ok : status::protocol;
}

// Whether K others have been read. If one cannot be read, another one is tried.
bool client::read_enough(striped_object &striped, recovery &work) {
  size_t const needed = striped.manifest.erasure.data_count;
  for (;;) {
    std::vector<size_t> const wanted = choose_sources(striped, work);
    if (work.sources.size() == needed)
      return true;
    if (work.sources.size() + wanted.size() < needed)
      return false;
    read_sources(striped, wanted, work);
  }
}

// Sets the sources that have been read. Returns those that are to be read, so that there are K.
std::vector<size_t> client::choose_sources(const striped_object &striped, recovery &work) const {
  erasure_layout const layout = striped.manifest.layout();
  uint64_t const group = layout.group_of(work.index), first = group * layout.scheme.width();
  work.sources.clear();
  for (uint32_t i = 0; i < layout.scheme.data_count; i++)
    if (layout.size_of(first + i) == 0)
      work.sources.push_back({i, {}});
  std::vector<size_t> wanted;
  for (size_t const member : group_members(striped, group, true)) {
    bool const is_enough = work.sources.size() + wanted.size() == layout.scheme.data_count;
    if (is_enough || member == work.index)
      continue;
    if (work.is_read.contains(member))
      work.sources.push_back({layout.place_of(member), work.buffers[member - first]});
    else if (!is_avoided(striped, member))
      wanted.push_back(member);
  }
  return wanted;
}

void client::read_sources(striped_object &striped,
                          const std::vector<size_t> &wanted,
                          recovery &work) {
  erasure_layout const layout = striped.manifest.layout();
  uint64_t const first = layout.group_of(work.index) * layout.scheme.width();
  failed_fragments failed;
  (void)run_stripes(striped, wanted, false, [&](size_t member) {
    uint64_t const whole_size = layout.size_of(member);
    auto &buffer = work.buffers[member - first];
    buffer.resize(whole_size <= work.offset ? 0 : std::min(work.size, whole_size - work.offset));
    stripe_piece const piece{work.offset, buffer.size(), buffer.data()};
    status const code =
        buffer.empty() ? status::ok : read_fragment(striped, member, {&piece, 1}, false);
    if (code != status::ok)
      failed.add(member, code);
    return status::ok;
  });
  if (std::string const reason = failed.reason(); !reason.empty())
    work.reason = reason;
  auto const codes = failed.take();
  for (size_t const member : wanted)
    if (!codes.contains(member))
      work.is_read.insert(member);
}

// Fragments that were rebuilt are at other servers than those of the manifest. Only the primary
// knows which. `tries_again`: also those that could not be read where they are.
status client::locate_fragments(striped_object &striped, bool tries_again) {
  fragment_places_reply reply;
  status const code =
      call(kind::fragment_places, fragment_places_request{striped.manifest.id}, reply);
  if (code == status::no_entry)
    return fail(status::stale,
                "the object was removed or replaced, and the connection that kept it has ended");
  TND_TRY(code);
  for (size_t i = 0; i < striped.stripes.size(); i++) {
    striped_object::stripe &stripe = striped.stripes[i];
    if (tries_again)
      stripe.avoid_until_ns = 0;
    if (i >= reply.places.size() || reply.places[i] >= reply.servers.size())
      continue;
    std::shared_ptr<client> link = fragment_link(reply.servers[reply.places[i]].text);
    if (link == stripe.link)
      continue;
    stripe.link->close(stripe.object);
    stripe.object = {};
    stripe.avoid_until_ns = 0;
    stripe.link = std::move(link);
  }
  for (auto const &[address, link] : fragment_links_)
    if (tries_again)
      link->avoid_until_ns_ = 0;
  return status::ok;
}

}  // namespace tanada::pool
