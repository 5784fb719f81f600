// bench/gfile/service: the cost of the host's side of gfile, without a GPU. Threads write the
// mailbox as kernels do (tanada/device/detail/rpc/ring.hpp); each request is a miss of a 4 KiB page
// of mem://.
//
// bench_service [--json FILE] [--threads N[,N...]] [--only inline|files|latency|rate|idle]
//                 [--seconds S]
//
// The rows of files open small files of mem://, read and close them, on all slots.
//
// In inline rows the player and the host are one thread, so they show the processor time of a
// request even on a busy machine. The players of the other rows need a processor each, in addition
// to those of the service threads.
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "../common/report.hpp"
#include "products/gfile/host/session.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr u32 page_size = 4096;
constexpr u64 page_count = 1u << 16, tier_pages = 1u << 13;
constexpr const char *url = "mem://bench/service";

// The poll of the players: like a GPU's threads they wait for nobody, but they yield the processor
// from time to time, since there may be too few.
void look_again(u32 &rounds) {
  if (++rounds % 32 == 0)
    simt::pause();
}

u64 mark_of(u64 page) {
  return page * 0x9E3779B97F4A7C15ull + 1;
}

void check(status code, const char *what) {
  if (code != status::ok)
    throw std::runtime_error(std::string(what) + ": status " + std::to_string(int(code)));
}

// The file, with a mark at the start of each page.
void make_file() {
  backends::store_registry stores;
  auto where = stores.find(url);
  check(where.ok() ? status::ok : where.error(), "find the store");
  auto queue = std::move(where.value()->queue_create(4)).value();
  auto const now = [&](seams::store_op op) {
    check(queue->post(std::move(op)), "post");
    seams::store_completion done[1];
    while (queue->poll(done) == 0)
      simt::pause();
    check(done[0].code, "fill mem://");
    return done[0].file;
  };
  seams::store_op op;
  op.kind = seams::store_op_kind::open;
  op.url = url;
  op.open_flags = {.read = true, .write = true, .create = true, .truncate = true};
  op.file = now(op);
  std::vector<std::byte> page(page_size);
  op.kind = seams::store_op_kind::write;
  op.buffers = {{page.data(), page.size()}};
  for (u64 i = 0; i < page_count; i++) {
    u64 const mark = mark_of(i);
    std::memcpy(page.data(), &mark, sizeof mark);
    op.offset = i * page_size;
    (void)now(op);
  }
  op.kind = seams::store_op_kind::close;
  (void)now(op);
}

class instance {
 public:
  explicit instance(u32 threads, u32 page_bytes = page_size) : page_bytes_{page_bytes} {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.page_size = page_bytes;
    config.device_tier_size = std::max(1u << 20, page_bytes);
    config.host_tier_size = std::max<u64>(tier_pages * page_size, 1024ull * page_bytes);
    config.service_threads = threads;
    auto made = gfile::session::create(config,
                                       {seams::host_gpu_open(),
                                        std::make_unique<backends::store_registry>(),
                                        &seams::monotonic_clock()});
    check(made.ok() ? status::ok : made.error(), "session");
    session_ = std::move(made).value();
    auto const &state = *static_cast<const gfile::device_state *>(session_->ref().state);
    ring_ = state.ring;
    frames_ = state.host_frames;
    table_ = state.host_table;
    closes_ = state.closes;
    open(threads);
  }
  ~instance() {
    if (session_->shut_down() != status::ok)
      std::fprintf(stderr, "bench_service: shut_down failed\n");
  }
  void step() {
    (void)session_->service().step(0);
  }
  const rpc::ring_ref &ring() const {
    return ring_;
  }
  const u8 *frame(u32 index) const {
    return frames_ + u64(index) * page_bytes_;
  }
  const gfile::host_table &table() const {
    return table_;
  }
  u32 file() const {
    return file_;
  }
  bool is_answered(u32 slot) const {
    const rpc::answer &from = ring_.mail->answers[slot];
    u64 const sequence = sequences_[slot];
    return __atomic_load_n(&from.head[0], __ATOMIC_ACQUIRE) >> 32 == sequence &&
           __atomic_load_n(&from.head[1], __ATOMIC_ACQUIRE) >> 32 == sequence;
  }
  void post_close(u64 ticket, u32 file) {
    u64 &entry = closes_->entries[ticket % gfile::close_list_size];
    __atomic_store_n(&entry, gfile::close_entry(ticket, file), __ATOMIC_RELEASE);
  }
  // Slots are assigned by number: one player has a slot.
  rpc::ticket next_ticket(u32 slot) {
    return {slot, ++sequences_[slot]};
  }
  rpc::ticket ticket(u32 slot) const {
    return {slot, sequences_[slot]};
  }

 private:
  // Slot 0 does it and stays free.
  void open(u32 threads) {
    rpc::ticket const mine = next_ticket(0);
    ring_.body(mine).op = u32(gfile::op::open);
    ring_.body(mine).words[0] = O_RDONLY;
    std::strcpy(ring_.text(mine), url);
    ring_.post(mine);
    auto const &head = ring_.mail->answers[0].head;
    for (u32 i = 0; u32(__atomic_load_n(&head[0], __ATOMIC_ACQUIRE) >> 32) != mine.sequence; i++) {
      if (threads == 0)
        step();
      else
        simt::pause();
      if (i > 100'000'000)
        throw std::runtime_error("no answer to an open");
    }
    check(status(int(u32(head[0]))), "open");
    file_ = u32(head[1]);
    ring_.finish(mine, false);
  }

  std::unique_ptr<gfile::session> session_;
  rpc::ring_ref ring_{};
  u32 page_bytes_;
  const u8 *frames_ = nullptr;
  gfile::host_table table_{};
  gfile::close_list *closes_ = nullptr;
  u32 file_ = 0;
  u32 sequences_[rpc::slot_count] = {};
};

// Plays `count` warps on as many slots. Each requests one page after the other, and every page once
// before any is repeated.
class player {
 public:
  player(instance &on, u32 first, u32 count, u32 turn = 0, u32 turns = 1)
      : on_{on}, first_{first}, asked_(count), next_{turn}, turns_{turns} {
    for (u32 i = 0; i < count; i++)
      ask(i);
  }

  // Takes available answers and posts the next requests. Returns their number.
  u32 round(bool again = true) {
    u32 taken = 0;
    for (u32 i = 0; i < asked_.size(); i++) {
      if (asked_[i] == nothing || !on_.is_answered(first_ + i))
        continue;
      take(i);
      taken++;
      if (again)
        ask(i);
    }
    return taken;
  }

  void end(const std::function<void()> &meanwhile) {
    for (auto const &page : asked_)
      while (page != nothing) {
        meanwhile();
        round(false);
      }
  }

 private:
  static constexpr u64 nothing = ~u64{0};

  void ask(u32 i) {
    u64 const page = next_ * 40503 % page_count;
    next_ += turns_;
    on_.ring().post_short(on_.next_ticket(first_ + i), u32(gfile::op::read), on_.file(), page, 1);
    asked_[i] = page;
  }

  void take(u32 i) {
    const rpc::answer &from = on_.ring().mail->answers[first_ + i];
    check(status(int(u32(from.head[0]))), "read");
    u64 mark;
    std::memcpy(&mark, on_.frame(u32(from.head[1]) & ~gfile::granted_at_once), sizeof mark);
    if (mark != mark_of(asked_[i]))
      throw std::runtime_error("wrong bytes of page " + std::to_string(asked_[i]));
    on_.ring().finish(on_.ticket(first_ + i), false);
    asked_[i] = nothing;
  }

  instance &on_;
  u32 first_;
  std::vector<u64> asked_;  // the page each warp waits for
  u64 next_, turns_;
};

constexpr u32 small_count = 10'000, small_size = 16 << 10, default_page_size = 128 << 10;

std::string small_url(u32 number) {
  return "mem://bench/small" + std::to_string(100'000 + number);
}

void make_small_files() {
  backends::store_registry stores;
  auto where = stores.find(url);
  check(where.ok() ? status::ok : where.error(), "find the store");
  auto queue = std::move(where.value()->queue_create(4)).value();
  std::vector<std::byte> bytes(small_size);
  for (u32 i = 0; i < small_count; i++) {
    seams::store_op op;
    seams::store_completion done;
    op.kind = seams::store_op_kind::open;
    op.url = small_url(i);
    op.open_flags = {.read = true, .write = true, .create = true};
    if (!queue->try_perform(op, done))
      throw std::runtime_error("mem:// waits");
    check(done.code, "make a small file");
    op.file = done.file;
    op.kind = seams::store_op_kind::write;
    u64 const mark = mark_of(i);
    std::memcpy(bytes.data(), &mark, sizeof mark);
    op.buffers = {{bytes.data(), bytes.size()}};
    done = {};
    (void)queue->try_perform(op, done);
    check(done.code, "write a small file");
    op.kind = seams::store_op_kind::close;
    (void)queue->try_perform(op, done);
  }
}

// Plays `count` warps that take small files in turn: open, look up in the host tier, close.
class opener {
 public:
  opener(instance &on, u32 count) : on_{on}, files_(count) {
    for (u32 i = 0; i < count; i++)
      ask(i);
  }

  u32 round(bool again = true) {
    u32 taken = 0;
    for (u32 i = 0; i < files_.size(); i++) {
      if (files_[i] == none || !on_.is_answered(i))
        continue;
      take(i);
      taken++;
      if (again)
        ask(i);
      else
        files_[i] = none;
    }
    return taken;
  }

  bool is_done() const {
    return std::all_of(files_.begin(), files_.end(), [](u32 file) { return file == none; });
  }

  u64 found_count() const {
    return found_count_;
  }

 private:
  static constexpr u32 none = ~u32{0};

  void ask(u32 slot) {
    files_[slot] = next_++ % small_count;
    rpc::ticket const mine = on_.next_ticket(slot);
    rpc::request &body = on_.ring().body(mine);
    body.op = u32(gfile::op::open);
    body.words[0] = O_RDONLY;
    body.words[1] = 0;
    body.words[2] = tickets_;
    std::strcpy(on_.ring().text(mine), small_url(files_[slot]).c_str());
    on_.ring().post(mine);
  }

  void take(u32 slot) {
    const rpc::answer &from = on_.ring().mail->answers[slot];
    check(status(int(u32(from.head[0]))), "open");
    tier::peek_result const seen = on_.table().peek(tier::page_key(u32(from.words[1]), 0));
    if (seen.frame != tier::no_frame) {
      u64 mark;
      std::memcpy(&mark, on_.frame(seen.frame), sizeof mark);
      if (mark != mark_of(files_[slot]))
        throw std::runtime_error("wrong bytes of a small file");
      found_count_++;
    }
    on_.ring().finish(on_.ticket(slot), false);
    on_.post_close(tickets_++, u32(from.head[1]));
  }

  instance &on_;
  std::vector<u32> files_;  // that each warp is at
  u64 next_ = 0, tickets_ = 0, found_count_ = 0;
};

// Processor time of this thread.
double thread_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

// Nanoseconds for a request, all in this thread.
double run_inline(u32 warps, double seconds) {
  instance on{0};
  player kernels{on, 0, warps};
  u64 count = 0;
  double const start = thread_s();
  double took = 0;
  for (; took < seconds; took = thread_s() - start)
    for (u32 i = 0; i < 64; i++) {
      on.step();
      count += kernels.round();
    }
  kernels.end([&] { on.step(); });
  return took / double(count) * 1e9;
}

// Nanoseconds for a small file, all in this thread.
double run_files(u32 warps, double seconds) {
  instance on{0, default_page_size};
  opener kernels{on, warps};
  u64 count = 0;
  double const start = thread_s();
  double took = 0;
  for (; took < seconds; took = thread_s() - start)
    for (u32 i = 0; i < 16; i++) {
      on.step();
      count += kernels.round();
    }
  while (!kernels.is_done()) {
    on.step();
    kernels.round(false);
  }
  if (kernels.found_count() < count / 2)
    throw std::runtime_error("few small files come with their open");
  return took / double(count) * 1e9;
}

// Requests per second of `players` threads that play `warps` warps together.
double run_rate(u32 threads, u32 players, u32 warps, double seconds) {
  instance on{threads};
  std::atomic<u64> count = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> playing;
  double const start = now_s();
  for (u32 i = 0; i < players; i++)
    playing.emplace_back([&, i] {
      player kernels{on, warps / players * i, warps / players, i, players};
      u64 mine = 0;
      u32 empty_rounds = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        u32 const taken = kernels.round();
        mine += taken;
        if (taken == 0)
          look_again(empty_rounds);
      }
      count += mine;
      kernels.end([] { simt::pause(); });
    });
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  double const took = now_s() - start;
  for (auto &thread : playing)
    thread.join();
  return double(count) / took;
}

// Seconds until a request is answered that follows `idle_s` without requests.
double wake_up(instance &on, double idle_s) {
  std::vector<double> times;
  for (u32 i = 0; i < 9; i++) {
    std::this_thread::sleep_for(std::chrono::duration<double>(idle_s));
    double const start = now_s();
    player one{on, 0, 1, i + 1};
    u32 rounds = 0;
    one.end([&] { look_again(rounds); });
    times.push_back(now_s() - start);
  }
  return median(times);
}

double processor_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](const timeval &time) {
    return double(time.tv_sec) + double(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Two threads and two words: the minimum cost of a request and its answer.
double bare_round_trip() {
  alignas(64) static std::atomic<u32> posted, answered;
  posted = 0;
  answered = 0;
  constexpr u32 round_count = 200'000;
  std::thread other{[] {
    u32 rounds = 0;
    for (u32 i = 1; i <= round_count; i++) {
      while (posted.load(std::memory_order_acquire) != i)
        look_again(rounds);
      answered.store(i, std::memory_order_release);
    }
  }};
  double const start = now_s();
  u32 looks = 0;
  for (u32 i = 1; i <= round_count; i++) {
    posted.store(i, std::memory_order_release);
    while (answered.load(std::memory_order_acquire) != i)
      look_again(looks);
  }
  double const took = now_s() - start;
  other.join();
  return took / round_count;
}

void idle_rows(report &to, u32 threads) {
  instance on{threads};
  std::string const with = ", " + std::to_string(threads) + " service threads";
  for (double idle_s : {0.001, 0.02, 0.5})
    to.add({"answer after " + std::to_string(int(idle_s * 1000)) + " ms of silence" + with,
            wake_up(on, idle_s) * 1e6,
            "us",
            "",
            std::nullopt,
            100.0,
            better::lower});
  std::this_thread::sleep_for(std::chrono::seconds(1));
  double const before = processor_s();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  to.add({"an idle instance" + with,
          (processor_s() - before) / 2 * 100,
          "% of a processor",
          "",
          std::nullopt,
          1.0,
          better::lower});
}

int run(int argc, char **argv) {
  std::string only, threads_text = "1," + std::to_string(std::thread::hardware_concurrency());
  double seconds = 1;
  read_options(
      argc, argv, "bench/gfile/service.cc", [&](const std::string &option, const char *value) {
        if (option == "--threads")
          threads_text = value;
        else if (option == "--only")
          only = value;
        else if (option == "--seconds")
          seconds = std::strtod(value, nullptr);
        else
          return false;
        return true;
      });
  std::vector<u32> threads;
  for (const char *at = threads_text.c_str(); *at != 0; at += *at == ',')
    threads.push_back(u32(std::strtoul(at, const_cast<char **>(&at), 10)));
  auto const wanted = [&](const char *part) {
    return only.empty() || only == part;
  };
  report to{"service", "no GPU in use"};
  make_file();
  if (wanted("inline"))
    for (u32 warps : {1u, 32u, 1000u})
      to.add({"host and player in one thread, " + std::to_string(warps) + " misses in flight",
              run_inline(warps, seconds),
              "ns/request",
              "",
              std::nullopt,
              std::nullopt,
              better::lower});
  if (wanted("files")) {
    make_small_files();
    for (u32 warps : {32u, 1000u})
      to.add({"host and player in one thread, small files by " + std::to_string(warps) + " warps",
              run_files(warps, seconds),
              "ns/file",
              "",
              std::nullopt,
              std::nullopt,
              better::lower});
  }
  if (wanted("latency"))
    for (u32 count : threads)
      to.add({"one miss at a time, " + std::to_string(count) + " service threads",
              1e9 / run_rate(count, 1, 1, seconds),
              "ns/request",
              "two threads, a word each way",
              bare_round_trip() * 1e9,
              std::nullopt,
              better::lower});
  if (wanted("rate"))
    for (u32 count : threads)
      for (u32 players : {1u, 2u})
        to.add({"1,000 misses in flight, " + std::to_string(count) + " service threads, " +
                    std::to_string(players) + " players",
                run_rate(count, players, 1000, seconds) / 1e6,
                "M/s",
                "",
                std::nullopt,
                std::nullopt,
                better::higher});
  if (wanted("idle"))
    idle_rows(to, threads.back());
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_service", [=] { return bench::run(argc, argv); });
}
