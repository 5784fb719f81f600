// Calls: what contexts ask the call_server of a peer for, and what ours is asked.
#include <algorithm>

#include "onesided/job/staging_state.hpp"

namespace tanada::pgas {

namespace {

constexpr size_t call_size_most = size_t{128} << 10;  // bytes: others wait while one is done

}  // namespace

using staging::record;
using staging::record_kind;

size_t staged_context::message_size_max() const noexcept {
  return stager_.inside().message_size_max();
}
size_t staged_context::call_size_max() const noexcept {
  return std::min(stager_.inside().options_.slot_size, call_size_most);
}

status staged_context::call(pe_index pe, size_t size,
                            const std::function<void(std::span<std::byte>)> &fill) {
  if (size == 0 || size > call_size_max())
    return status::invalid;
  TND_TRY(tell());
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  status const code = inside.call(lock, *this, pe, size, fill);
  inside.leave(lock, false);
  return code;
}

status staged_context::fetch(pe_index pe, std::span<const std::byte> request, size_t size,
                             call_landing &to, uint64_t first) {
  if (request.empty() || request.size() > message_size_max() || size == 0 || size > call_size_max())
    return status::invalid;
  TND_TRY(tell());
  auto &inside = stager_.inside();
  auto lock = inside.enter();
  status const code =
      inside.fetch(lock, *this, pe, request, size, {.landing = &to, .first = first});
  inside.leave(lock, false);
  return code;
}

status stager::state::call(held &lock, staged_context &owner, pe_index pe, size_t size,
                           const filler &fill) {
  if (size <= data_size_max_) {
    TND_TRY(room(lock, pe));
    std::byte *data = nullptr;
    ask(owner, pe, {.kind = record_kind::call, .data_size = uint32_t(size), .size = size}, {},
        &data);
    fill({data, size});
    return status::ok;
  }
  auto taken = slot_take(lock, pe);
  if (!taken.ok())
    return taken.error();
  uint32_t const slot = taken.value();
  if (status const code = room(lock, pe); code != status::ok) {
    slot_free(pe, slot);
    return code;
  }
  fill({slot_at(slot), size});
  ask(owner, pe,
      {.kind = record_kind::call_staged, .size = size, .first = slot * options_.slot_size},
      {.slot = slot}, nullptr);
  return status::ok;
}

status stager::state::fetch(held &lock, staged_context &owner, pe_index pe,
                            std::span<const std::byte> words, size_t size, aim to) {
  bool const is_staged = size > inline_size_max();
  if (is_staged) {
    auto taken = slot_take(lock, pe);
    if (!taken.ok())
      return taken.error();
    to.slot = taken.value();
  }
  if (status const code = room(lock, pe); code != status::ok) {
    if (is_staged)
      slot_free(pe, to.slot);
    return code;
  }
  std::byte *data = nullptr;
  ask(owner, pe,
      {.kind = is_staged ? record_kind::fetch_staged : record_kind::fetch,
       .data_size = uint32_t(words.size()),
       .size = size},
      to, &data);
  std::memcpy(data, words.data(), words.size());
  return status::ok;
}

// False: it has to wait for a slot.
bool stager::state::serve_call(pe_index pe, const record &what, std::span<const std::byte> data) {
  if (options_.calls == nullptr) {
    reply(pe, what.id, status::not_supported);
    return true;
  }
  if (what.kind == record_kind::call) {
    status const code = options_.calls->serve(pe, data, {});
    if (code != status::again) {
      reply(pe, what.id, code);
      return true;
    }
    defer(std::make_unique<deferred_call>(
        deferred_call{.pe = pe, .what = what, .request = {data.begin(), data.end()}}));
    return true;
  }
  if (what.kind == record_kind::fetch) {
    serve_fetch(pe, what, data);
    return true;
  }
  uint32_t const index = service_take(pe, what);
  if (index == none)
    return false;
  if (what.kind == record_kind::call_staged)
    return true;
  auto &of = services_[index];
  of.at = service::stage::performed;
  status const code =
      options_.calls->serve(pe, data, {slot_at(slot_count_ + index), size_t(what.size)});
  if (code == status::ok) {
    offer(index);
    return true;
  }
  if (code == status::again) {
    auto made = deferred_call{
        .pe = pe, .what = what, .request = {data.begin(), data.end()}, .service = index};
    defer(std::make_unique<deferred_call>(std::move(made)));
    return true;
  }
  service_free(index);
  reply(pe, what.id, code);
  return true;
}

// What a peer calls with has been read.
void stager::state::served_call_here(uint32_t index) {
  auto &of = services_[index];
  std::span const bytes{slot_at(slot_count_ + index), size_t(of.size)};
  status const code = options_.calls->serve(of.pe, bytes, {});
  if (code == status::again) {
    record const what{.kind = record_kind::call_staged, .id = of.id, .size = of.size};
    return defer(std::make_unique<deferred_call>(
        deferred_call{.pe = of.pe, .what = what, .service = index}));
  }
  service_free(index);
  reply(of.pe, of.id, code);
}

// In as many parts as fill the frames. One more is not refused in the middle: the answer is whole
// before the first is said.
void stager::state::serve_fetch(pe_index pe, const record &what, std::span<const std::byte> words) {
  auto const size = size_t(what.size);
  if (scratch_.size() < size)
    scratch_.resize(size);
  status const code = options_.calls->serve(pe, words, {scratch_.data(), size});
  if (code == status::ok)
    return say_fetched(pe, what, std::span{scratch_}.first(size));
  if (code != status::again)
    return reply(pe, what.id, code);
  auto made = deferred_call{.pe = pe,
                            .what = what,
                            .request = {words.begin(), words.end()},
                            .reply = std::vector<std::byte>(size)};
  defer(std::make_unique<deferred_call>(std::move(made)));
}

void stager::state::say_fetched(pe_index pe, const record &what, std::span<const std::byte> bytes) {
  for (size_t done = 0, part = 0; done < bytes.size(); done += part) {
    part = data_room(pe, bytes.size() - done);
    std::byte *const to = say(pe, {.kind = record_kind::reply,
                                   .data_size = uint32_t(part),
                                   .id = what.id,
                                   .offset = done,
                                   .size = what.size,
                                   .first = staging::status_encode(status::ok)});
    std::memcpy(to, bytes.data() + done, part);
  }
  peers_[size_t(pe)].asked--;
}

void stager::state::defer(std::unique_ptr<deferred_call> made) {
  bool const is_staged = made->service != none;
  std::span<const std::byte> asked{made->request};
  std::span<std::byte> answer{made->reply};
  if (is_staged) {
    std::span const slot{slot_at(slot_count_ + made->service), size_t(made->what.size)};
    if (made->what.kind == record_kind::call_staged)
      asked = slot;
    else
      answer = slot;
  }
  peers_[size_t(made->pe)].reads++;
  made->call = options_.calls->begin(made->pe, asked, answer);
  if (made->call == nullptr)
    return end_deferred(*made, status::no_memory);
  if (deferred_.empty())
    deferred_since_ns_ = options_.time->now_ns();
  deferred_.push_back(std::move(made));
}

// True: some are over.
bool stager::state::settle_deferred() {
  if (deferred_.empty()) [[likely]]
    return false;
  options_.calls->attend();
  size_t const before = deferred_.size();
  std::erase_if(deferred_, [&](auto const &each) {
    status const code = each->call->step();
    if (code != status::again)
      end_deferred(*each, code);
    return code != status::again;
  });
  if (deferred_.size() == before)
    return false;
  deferred_since_ns_ = options_.time->now_ns();
  return true;
}

void stager::state::end_deferred(deferred_call &of, status code) {
  auto &client = peers_[size_t(of.pe)];
  client.reads--;
  bool const is_offered =
      !client.is_lost && of.what.kind == record_kind::fetch_staged && code == status::ok;
  if (is_offered)
    return offer(of.service);
  if (of.service != none)
    service_free(of.service);
  if (client.is_lost)
    return;
  if (of.what.kind == record_kind::fetch && code == status::ok)
    return say_fetched(of.pe, of.what, of.reply);
  reply(of.pe, of.what.id, code);
}

// What is not done soon is asked for less often.
uint64_t stager::state::deferred_look_ns() const {
  constexpr uint64_t first_ns = 30'000, last_ns = 1'000'000;
  return std::clamp((options_.time->now_ns() - deferred_since_ns_) / 8, first_ns, last_ns);
}

}  // namespace tanada::pgas
