// A kernel that puts anything in the mailbox: whatever operations, files, words, texts and sequence
// numbers the host finds there, it answers each request it takes, and once everything is given back
// it can shut down with no frame left pinned.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "products/gfile/host/session.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace {

using namespace tanada;

constexpr u32 slots = 8, page_size = 4096, commands_max = 300;
constexpr u64 timeout_ns = 1'000'000'000;

void require(bool good, const char *what) {
  if (good)
    return;
  std::fprintf(stderr, "gfile_mailbox_fuzz: %s\n", what);
  std::abort();
}

class attack {
 public:
  attack(const uint8_t *bytes, size_t size) : at_{bytes}, end_{bytes + size} {
    auto registry = std::make_unique<backends::store_registry>();
    sim::store_faults faults;
    faults.delay_ns_max = 20'000;
    faults.capacity = 1u << 22;
    if (byte() % 4 == 0)
      faults.errors[size_t(seams::store_op_kind::read)].percent = 20;
    if (byte() % 4 == 0)
      faults.errors[size_t(seams::store_op_kind::write)].percent = 20;
    registry->add(std::make_unique<sim::store>(world_, faults));
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.page_size = page_size;
    config.device_tier_size = page_size;
    config.host_tier_size = page_size * (1 + byte() % 8);
    config.file_count_max = 1 + byte() % 5;
    config.service_threads = 0;
    config.timeout_ns = timeout_ns;
    auto made =
        gfile::session::create(config, {seams::host_gpu_open(), std::move(registry), &clock_});
    require(made.ok(), "no session");
    session_ = std::move(made).value();
    mail_ = state().ring.mail;
  }

  void run() {
    for (u32 i = 0; i < commands_max && at_ != end_; i++)
      command();
    end();
  }

 private:
  const gfile::device_state &state() {
    return *static_cast<const gfile::device_state *>(session_->ref().state);
  }
  u32 byte() {
    return at_ == end_ ? 0 : *at_++;
  }
  u64 word() {
    static constexpr u64 odd[] = {~u64{0},
                                  ~u64{0} - 1,
                                  u64{1} << 36,
                                  (u64{1} << 36) - 1,
                                  u64{1} << 63,
                                  u64{1} << 48,
                                  page_size,
                                  page_size - 1,
                                  page_size + 1,
                                  0xffffffff,
                                  u64{1} << 32,
                                  01002,
                                  0102,
                                  01,
                                  03,
                                  0302};
    u32 const what = byte();
    return what < 16 ? what : odd[what % 16];
  }

  void put_text(char *to) {
    static constexpr const char *texts[] = {
        "sim://a", "sim://b", "sim://c", "", "nosuch://x", "://", "sim://", "sim://a/b"};
    u32 const what = byte();
    std::memset(to, what < 250 ? 0 : 'x', rpc::text_size);  // without a terminating zero, too
    const char *const text = what < 250 ? texts[what % std::size(texts)] : texts[0];
    std::memcpy(to, text, std::strlen(text));
  }

  void post() {
    u32 const slot = byte() % slots;
    rpc::request &body = mail_->requests[slot];
    body.op = byte() % 10;
    u32 const file = byte();
    body.file = file < 250 ? file % 6 : ~0u - (file - 250);
    for (u64 &each : body.words)
      each = word();
    bool const is_by_name = body.op == u32(gfile::op::open) || body.op == u32(gfile::op::unlink);
    if (is_by_name && body.words[2] > 4)
      body.words[2] = posted_closes_;
    put_text(mail_->texts[slot]);
    // The next sequence, short or not. The words of a short request may stay away until the end.
    u32 const posted = (mail_->posted[slot] & ~1u) + 2 + (byte() & 1);
    mail_->posted[slot] = posted;
    if (byte() < 200)
      put_short(slot, body);
  }

  void put_short(u32 slot, const rpc::request &body) {
    u64 const sequence = mail_->posted[slot] >> 1;
    mail_->shorts[slot].words[0] = sequence << 32 | u64(u8(body.op)) << 24 | (body.file & 0xffffff);
    mail_->shorts[slot].words[1] = sequence << 52 | (body.words[1] & rpc::short_second_max) << 40 |
                                   (body.words[0] & rpc::short_first_max);
  }

  void command() {
    u32 const what = byte() % 8, slot = byte() % slots;
    if (what < 3)
      return post();
    if (what == 3)
      return finish(slot, (byte() & 1) != 0);
    if (what == 4 && byte() < 40)
      mail_->posted[slot] = u32(word());
    if (what == 6 && byte() < 80)
      post_close();
    if (what == 5 && byte() < 40)
      mail_->finished[slot][byte() & 1] = u32(word());
    for (u32 i = 0, count = byte() % 40; i < count; i++)
      turn();
  }

  void post_close() {
    u64 const file = byte();
    u32 const node = u32(file < 250 ? file % 6 : file << 24);
    u64 const entry = gfile::close_entry(posted_closes_, node);
    closes()[posted_closes_ % gfile::close_list_size] = file == 255 ? word() : entry;
    posted_closes_++;
  }
  u64 *closes() {
    return state().closes->entries;
  }

  void finish(u32 slot, bool canceled) {
    for (u32 sequence : {mail_->posted[slot] >> 1, u32(mail_->answers[slot].head[0] >> 32)})
      mail_->finished[slot][sequence & 1] = sequence << 1 | u32(canceled);
  }

  void turn() {
    (void)session_->service().step(0);
    world_.advance(5'000);
  }

  bool still() {
    for (u32 slot = 0; slot < slots; slot++)
      if (u32(mail_->answers[slot].head[0] >> 32) != mail_->posted[slot] >> 1)
        return false;
    return session_->service().with_core([](auto &core) { return core.idle(); });
  }

  // Give back whatever was lent until all is still. Nobody closes a file, so an open that waits for
  // a record in the full table waits until its time is up; then it is answered, too.
  void end() {
    for (u32 slot = 0; slot < slots; slot++)
      put_short(slot, mail_->requests[slot]);
    for (u32 round = 0; round < 200 && !(round > 5 && still()); round++) {
      for (u32 i = 0; i < 20; i++)
        turn();
      for (u32 slot = 0; slot < slots; slot++)
        finish(slot, false);
      if (round == 100)
        world_.advance(timeout_ns);
    }
    for (u32 slot = 0; slot < slots; slot++)
      require(u32(mail_->answers[slot].head[0] >> 32) == mail_->posted[slot] >> 1,
              "a request without an answer");
    require(session_->shut_down() != status::timed_out, "shut_down timed out");
    auto const &table = state().host_table;
    for (u32 frame = 0; frame < table.shape.frame_count(); frame++)
      require(tier::word::pins(table.load_word(frame)) == 0, "a frame is still pinned");
  }

  const uint8_t *at_, *end_;
  sim::world world_{1};
  sim::clock clock_{world_};
  std::unique_ptr<gfile::session> session_;
  rpc::mailbox *mail_ = nullptr;
  u64 posted_closes_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  attack{bytes, size}.run();
  return 0;
}
