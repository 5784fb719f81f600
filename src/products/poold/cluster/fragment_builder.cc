// The building of fragments.
#include "products/poold/cluster/fragment_builder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

using namespace wire::pool;

namespace {

constexpr size_t queue_count_max = 64;
constexpr size_t running_count_max = 2;

}  // namespace

fragment_builder::fragment_builder(options settings,
                                   peer_channels &channels,
                                   catalog &objects,
                                   repair_budget &budget)
    : options_{std::move(settings)}, channels_{channels}, objects_{objects}, budget_{budget} {
  TND_ASSERT(options_.part_size > 0 && options_.part_size <= fragment_read_size_max);
}

fragment_builder::~fragment_builder() = default;

bool fragment_builder::add(const fragment_build_request &request,
                           std::function<void(status)> done) {
  lock_guard lock{mutex_};
  if (queue_.size() >= queue_count_max)
    return false;
  auto added = std::make_shared<job>();
  added->request = request;
  added->done = std::move(done);
  queue_.push_back(std::move(added));
  return true;
}

void fragment_builder::close() {
  {
    lock_guard lock{mutex_};
    for (const job_ptr &waiting : queue_)
      running_.push_back(waiting);
    queue_.clear();
  }
  for (const job_ptr &ended : std::exchange(running_, {}))
    finish(*ended, status::canceled);
}

bool fragment_builder::progress() {
  while (running_.size() < running_count_max) {
    job_ptr started;
    {
      lock_guard lock{mutex_};
      if (queue_.empty())
        break;
      started = std::move(queue_.front());
      queue_.pop_front();
    }
    begin(started);
    running_.push_back(std::move(started));
  }
  std::erase_if(running_, [this](const job_ptr &running) { return !advance(running); });
  return !running_.empty();
}

void fragment_builder::begin(const job_ptr &started) {
  for (const fragment_source &place : started->request.sources)
    started->sources.push_back({place, {}});
  started->namespace_id =
      objects_.hold_namespace(fragment_space_name(started->request.namespace_name));
  started->holds_namespace = true;
  auto created = objects_.create_object(started->namespace_id, started->size(), 0);
  if (created.ok())
    started->target = std::move(created).value();
  else
    started->code = created.error();
}

// False: the job has ended.
bool fragment_builder::advance(const job_ptr &running) {
  if (running->outstanding_count > 0)
    return true;
  bool const has_read = !running->sources.empty() && !running->sources.front().bytes.empty();
  if (running->code == status::ok && has_read)
    running->code = decode_part(*running);
  bool const is_complete = running->offset == running->size();
  if (running->code != status::ok || is_complete) {
    finish(*running, running->code == status::ok ? complete(*running) : running->code);
    return false;
  }
  if (budget_.is_available(options_.clock->now_ns()))
    read_parts(running);
  return true;
}

// The same part of each source. Beyond the end of a source there are zeros.
void fragment_builder::read_parts(const job_ptr &running) {
  erasure_layout const layout = running->layout();
  uint64_t const part_size = std::min(options_.part_size, running->size() - running->offset);
  for (source &part : running->sources) {
    part.bytes.assign(part_size, std::byte{0});
    uint64_t const whole_size = layout.size_of(part.place.index);
    if (whole_size <= running->offset)
      continue;
    uint64_t const size = std::min(part_size, whole_size - running->offset);
    pool::channel *const channel = channels_.channel_to(part.place.address);
    if (channel == nullptr) {
      running->code = status::peer_lost;
      return;
    }
    budget_.spend(size);
    running->outstanding_count++;
    fragment_read_request const request{running->request.namespace_name,
                                        {running->request.target.id, part.place.index},
                                        running->offset,
                                        size};
    channel->post(kind::fragment_read,
                  request,
                  {},
                  {{part.bytes.data(), size}},
                  [running, size](const pool::reply &received) {
                    running->outstanding_count--;
                    if (received.code != status::ok)
                      running->code = received.code;
                    else if (received.data_size != size)
                      running->code = status::protocol;
                  });
    (void)channel->progress(0);
  }
}

// Empty data fragments of the last group count as sources of zeros.
std::vector<pool::erasure_codec::source> fragment_builder::sources_of(const job &running) {
  erasure_layout const layout = running.layout();
  std::vector<pool::erasure_codec::source> sources;
  for (const source &part : running.sources)
    sources.push_back({layout.place_of(part.place.index), part.bytes});
  uint64_t const first = layout.group_of(running.request.target.index) * layout.scheme.width();
  for (uint32_t i = 0; i < layout.scheme.data_count; i++)
    if (layout.size_of(first + i) == 0 && sources.size() < layout.scheme.data_count)
      sources.push_back({i, {}});
  return sources;
}

status fragment_builder::decode_part(job &running) {
  erasure_layout const layout = running.layout();
  uint64_t const part_size = running.sources.front().bytes.size();
  std::vector<std::byte> output(part_size);
  pool::erasure_codec const codec{layout.scheme};
  if (!codec.rebuild(sources_of(running), layout.place_of(running.request.target.index), output))
    return status::invalid;
  running.sum.add(output);
  std::vector<iovec> parts;
  running.target->append_parts(running.offset, part_size, parts);
  size_t done_size = 0;
  for (const iovec &part : parts) {
    std::memcpy(part.iov_base, output.data() + done_size, part.iov_len);
    done_size += part.iov_len;
  }
  running.offset += part_size;
  for (source &part : running.sources)
    part.bytes.clear();
  return status::ok;
}

// A source that is damaged, or has other bytes than its server reports, is found here.
status fragment_builder::complete(job &finished) {
  if (finished.sum.value() != finished.request.sum)
    return fail(status::corrupt,
                "fragment {} of an object of namespace {} cannot be rebuilt: a source of it is "
                "damaged",
                finished.request.target.index,
                finished.request.namespace_name);
  object &target = *finished.target;
  target.metadata.checksum_kind = uint32_t(pool::checksum_kind::xxh3);
  target.metadata.checksum = finished.request.sum;
  std::string const name = stripe_name(finished.request.target.id, finished.request.target.index);
  auto const committed =
      objects_.commit(finished.target, name, 0, [](const info &) { return journal_callback{}; });
  return committed.error();
}

void fragment_builder::finish(job &finished, status code) {
  finished.target.reset();
  if (std::exchange(finished.holds_namespace, false))
    objects_.close_namespace(finished.namespace_id, true, 0);
  finished.done(code);
}

}  // namespace tanada::poold
