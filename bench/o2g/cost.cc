// bench/o2g/cost: the receiver's cost of a 64 B message against the number of sockets, with
// messages in random order. An o2g engine with posted receives, on epoll and on select, and the
// calls of tanada/o2g.h, in the process and with the driver, are compared with plain loops of epoll
// and of select.
//
// bench_o2g_cost [--sockets K,K,...] [--only TEXT] [--rounds N] [--json FILE]
//
// The senders are plain sockets of another process, with the handshake of o2g's peers. Messages are
// sent singly, or in groups of sixteen on as many sockets. The clock runs from when all have been
// sent until all have been received, so no wait is timed. The driver receives in the handler of the
// packets, before that clock starts. So a second clock starts before the messages are sent ("with
// its sending"); it includes two switches between the processes. The median of all turns counts.
// Each message is answered outside the clock: the kernel's ACKs then go with the answers, whatever
// the age of a connection. Without answers they would go with some of the receives. --only: only
// receivers with TEXT in their names, e.g. for perf. io_uring is not included: its receives happen
// whenever the process enters the kernel, also outside the clock.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/report.hpp"
#include "cost_senders.hpp"
#include "products/o2g/engine.hpp"

namespace bench {
namespace {

using namespace tanada;
constexpr size_t turn_count = 2'000, many_count = 16;  // messages in flight: one, or many_count
constexpr size_t event_count_max = 64;
constexpr size_t any_count = 65536;
constexpr double patience_s = 60;

// A receiver: listens, accepts the connections, and then receives messages.
class receiver {
 public:
  virtual ~receiver() = default;
  virtual uint16_t port() const = 0;
  virtual protocol expects() const {
    return protocol::plain;
  }
  virtual void settle() {}  // while the senders connect
  virtual void begin(size_t count) = 0;
  virtual void receive(size_t count) = 0;  // receives this many messages and returns
  virtual void answer() = 0;               // each of those
};

using set_factory =
    result<std::unique_ptr<seams::stream_set>> (*)(const seams::stream_set_options &);

class o2g_receiver : public receiver, o2g::completion_sink {
 public:
  explicit o2g_receiver(set_factory make_set = seams::epoll_stream_set_create) {
    o2g::engine_options options;
    options.listen_address.family = seams::socket_address::family_kind::ipv4;
    options.listen_address.bytes = {127, 0, 0, 1};
    options.has_thread = false;
    auto made = o2g::engine::create(make_set({}).value(), options, *this, memory_);
    engine_ = std::move(made).value();
    for (auto &each : buffers_)
      post(each);
  }
  uint16_t port() const override {
    return engine_->address().port;
  }
  protocol expects() const override {
    return protocol::peer;
  }
  void settle() override {
    engine_->poll(false);
  }
  void begin(size_t count) override {
    if (engine_->statistics().connection_count != count)
      throw std::runtime_error("connections are missing");
  }
  // A receive is posted again for each one that was used.
  void receive(size_t count) override {
    sources_.clear();
    while (sources_.size() < count) {
      engine_->poll(false);
      for (auto const &each : done_) {
        sources_.push_back(each.source);
        post(*static_cast<buffer *>(each.context));
      }
      done_.clear();
    }
  }
  void answer() override {
    for (auto const each : sources_)
      if (engine_->post_send(
              {.target = each, .tagged = true, .inject = true, .errors_only = true}) != status::ok)
        throw std::runtime_error("no answer");
  }

 private:
  using buffer = std::array<std::byte, body_size>;
  void complete(const o2g::completion &what) override {
    done_.push_back(what);
  }
  void post(buffer &into) {
    iovec const part{into.data(), into.size()};
    o2g::match_pattern const all{0, ~uint64_t{0}, o2g::any_peer};
    if (engine_->post_receive(
            {.parts = {&part, 1}, .pattern = all, .tagged = true, .context = &into}) != status::ok)
      throw std::runtime_error("no receive");
  }

  o2g::regions memory_;
  std::array<buffer, event_count_max> buffers_{};
  std::vector<o2g::completion> done_;
  std::vector<o2g::peer_index> sources_;
  std::unique_ptr<o2g::engine> engine_;
};

class o2g_select_receiver final : public o2g_receiver {
 public:
  o2g_select_receiver() : o2g_receiver{seams::select_stream_set_create} {}
};

// Plain sockets, and the bytes received on each.
class plain_receiver : public receiver {
 public:
  plain_receiver() {
    listener_ = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "no socket");
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    must(bind(listener_, reinterpret_cast<sockaddr *>(&at_), size), "no address");
    must(listen(listener_, 4096), "no listener");
    must(getsockname(listener_, reinterpret_cast<sockaddr *>(&at_), &size), "no address");
  }
  ~plain_receiver() override {
    for (int const each : sockets_)
      close(each);
    close(listener_);
  }
  uint16_t port() const override {
    return ntohs(at_.sin_port);
  }
  void begin(size_t count) override {
    while (sockets_.size() < count)
      sockets_.push_back(must(accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC),
                              "no connection"));
  }
  void receive(size_t count) override {
    used_.clear();
    for (size_t came = 0; came < count * message_size;)
      came += some();
  }
  void answer() override {
    envelope const head;
    for (int const each : used_)
      write_all(each, &head, sizeof head);
  }

 protected:
  virtual size_t some() = 0;  // bytes
  size_t take(int from) {
    used_.push_back(from);
    return size_t(must(recv(from, bytes_.data(), bytes_.size(), MSG_DONTWAIT), "nothing is there"));
  }
  std::vector<int> sockets_, used_;

 private:
  int listener_ = -1;
  sockaddr_in at_{};
  std::array<char, 65536> bytes_{};
};

class epoll_receiver final : public plain_receiver {
 public:
  ~epoll_receiver() override {
    close(set_);
  }
  void begin(size_t count) override {
    plain_receiver::begin(count);
    for (int const each : sockets_) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = each}};
      must(epoll_ctl(set_, EPOLL_CTL_ADD, each, &event), "no epoll");
    }
  }

 private:
  size_t some() override {
    std::array<epoll_event, event_count_max> events;
    int const found = epoll_wait(set_, events.data(), int(events.size()), 0);
    size_t size = 0;
    for (int i = 0; i < found; i++)
      size += take(events[size_t(i)].data.fd);
    return size;
  }
  int const set_ = must(epoll_create1(EPOLL_CLOEXEC), "no epoll");
};

class select_receiver final : public plain_receiver {
 public:
  void begin(size_t count) override {
    plain_receiver::begin(count);
    FD_ZERO(&all_);
    for (int const each : sockets_) {
      if (each >= FD_SETSIZE)
        throw std::runtime_error("select takes no descriptor of that number");
      FD_SET(each, &all_);
      last_ = std::max(last_, each);
    }
  }

 private:
  size_t some() override {
    fd_set ready = all_;
    timeval none{};
    int const found = select(last_ + 1, &ready, nullptr, nullptr, &none);
    size_t size = 0;
    for (int left = found, each = 0; left > 0 && each <= last_; each++)
      if (FD_ISSET(each, &ready)) {
        size += take(each);
        left--;
      }
    return size;
  }
  fd_set all_{};
  int last_ = 0;
};

// The calls of tanada/o2g.h over plain sockets, with one posted entry for each of the messages that
// can be under way.
class calls_receiver : public plain_receiver {
 public:
  explicit calls_receiver(const char *driver) {
    setenv("TND_O2G_DRIVER", driver, 1);
    require(o2g_init(int(any_count)));
  }
  ~calls_receiver() override {
    (void)o2g_fini();
  }
  protocol expects() const override {
    return protocol::calls;
  }
  void begin(size_t count) override {
    plain_receiver::begin(count);
    for (size_t rank = 0; rank < count; rank++)
      require(o2g_register_socket(sockets_[rank], int(rank)));
    for (size_t i = 0; i < entries_.size(); i++) {
      entries_[i] = O2G_ENTRY_INIT;
      entries_[i].data = bodies_[i].data();
      entries_[i].size = body_size;
      post(entries_[i]);
    }
  }
  void receive(size_t count) override {
    used_.clear();
    while (used_.size() < count)
      if (take_received() == 0)
        wait();
  }

 private:
  static void require(tnd_status code) {
    if (code != TND_OK)
      throw std::runtime_error(tnd_last_message());
  }
  static void post(queue_entry &entry) {
    entry.source = O2G_ANY_SOURCE;
    entry.tag = O2G_ANY_TAG;
    entry.sequence = o2g_sequence();
    require(o2g_put_entry(&entry));
  }
  size_t take_received() {
    size_t count = 0;
    for (queue_entry &entry : entries_) {
      if ((o2g_entry_flags(&entry) & O2G_RECEIVED) == 0)
        continue;
      used_.push_back(sockets_[size_t(entry.source)]);
      post(entry);
      count++;
    }
    return count;
  }
  void wait() {
    if (tnd_status const code = o2g_poll_for(&event_count_, 1'000'000); code != -ETIMEDOUT)
      require(code);
  }
  size_t some() override {
    return 0;
  }
  std::array<queue_entry, event_count_max> entries_{};
  std::array<std::array<std::byte, body_size>, event_count_max> bodies_{};
  uint64_t event_count_ = 0;
};

class library_receiver final : public calls_receiver {
 public:
  library_receiver() : calls_receiver{"off"} {}
};

class driver_receiver final : public calls_receiver {
 public:
  driver_receiver() : calls_receiver{"required"} {}
};

struct subject {
  const char *name;
  std::unique_ptr<receiver> (*make)();
  size_t socket_count_max;
  std::optional<double> bar = std::nullopt;  // of the growth with the sockets
};

constexpr size_t select_max = 1'000;  // FD_SETSIZE minus other descriptors
template <class T>
std::unique_ptr<receiver> make() {
  return std::make_unique<T>();
}

const std::array subjects{subject{"o2g", make<o2g_receiver>, any_count, 1.2},
                          subject{"o2g select", make<o2g_select_receiver>, select_max},
                          subject{"o2g calls", make<library_receiver>, any_count},
                          subject{"o2g driver", make<driver_receiver>, any_count},
                          subject{"plain epoll", make<epoll_receiver>, any_count},
                          subject{"plain select", make<select_receiver>, select_max}};

// Nanoseconds for a message, and with its sending.
struct cost {
  double receiving_ns = 0, whole_ns = 0;
};

// `under_way` messages at a time.
cost cost_of(receiver &at, senders &from, uint32_t under_way, size_t turns) {
  std::vector<double> receiving, whole;
  for (size_t i = 0; i < turns; i++) {
    double const start_s = now_s();
    from.send(under_way);
    double const sent_s = now_s();
    at.receive(under_way);
    double const end_s = now_s();
    receiving.push_back((end_s - sent_s) / under_way * 1e9);
    whole.push_back((end_s - start_s) / under_way * 1e9);
    at.answer();
  }
  return {median(std::move(receiving)), median(std::move(whole))};
}

// Of each round. Those of many messages are empty with fewer sockets than many_count.
struct costs {
  std::vector<double> one, one_whole, many, many_whole;
};

void measure(const subject &who, size_t count, costs &into) {
  auto const at = who.make();
  senders from{at->port(), count, at->expects()};
  for (double const limit_s = now_s() + patience_s; !from.is_ready(); at->settle())
    if (now_s() > limit_s)
      throw std::runtime_error("the senders do not connect");
  at->begin(count);
  uint32_t const some = uint32_t(std::min(count, many_count));
  cost_of(*at, from, some, std::max<size_t>(50, 2 * count / some));  // every socket has been used
  cost const one = cost_of(*at, from, 1, turn_count);
  into.one.push_back(one.receiving_ns);
  into.one_whole.push_back(one.whole_ns);
  if (count < many_count)
    return;
  cost const many = cost_of(*at, from, many_count, turn_count / many_count * 2);
  into.many.push_back(many.receiving_ns);
  into.many_whole.push_back(many.whole_ns);
}

std::string name_of(const subject &who, const char *how, size_t count) {
  return std::string{who.name} + ", " + how + ", " + std::to_string(count) +
         (count == 1 ? " socket" : " sockets");
}

// Each receiver against itself with the fewest sockets.
void add_rows(report &out,
              const subject &who,
              const char *how,
              const std::map<size_t, costs> &by_count,
              std::vector<double> costs::*which) {
  std::optional<double> least;
  std::string least_name;
  for (auto const &[count, all] : by_count) {
    if ((all.*which).empty())
      continue;
    row made{.what = name_of(who, how, count),
             .value = median(all.*which),
             .unit = "ns",
             .rival = {},
             .rival_value = {},
             .bar = {},
             .direction = better::lower};
    if (least) {
      made.rival = least_name;
      made.rival_value = least;
      if (which == &costs::one || which == &costs::many)
        made.bar = who.bar;
    } else {
      least = made.value;
      least_name = std::to_string(count) + (count == 1 ? " socket" : " sockets");
    }
    out.add(std::move(made));
  }
}

// The driver is measured where there is one.
bool is_wanted(const subject &who, const std::string &only) {
  if (std::string{who.name}.find(only) == std::string::npos)
    return false;
  return who.make != make<driver_receiver> || access("/dev/o2g", W_OK) == 0;
}

int run(int argc, char **argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::string only, sockets = "1,16,128,1000,4000";
  int round_count = 3;
  read_options(argc, argv, "bench/o2g/cost.cc", [&](const std::string &word, const char *value) {
    if (value == nullptr)
      return false;
    if (word == "--only")
      only = value;
    else if (word == "--sockets")
      sockets = value;
    else if (word == "--rounds")
      round_count = std::max(1, std::atoi(value));
    else
      return false;
    return true;
  });
  std::map<const subject *, std::map<size_t, costs>> found;
  for (int round = 0; round < round_count; round++) {
    std::istringstream list{sockets};
    for (std::string word; std::getline(list, word, ',');) {
      size_t const count = std::stoul(word);
      for (subject const &who : subjects)
        if (is_wanted(who, only) && count <= who.socket_count_max)
          measure(who, count, found[&who][count]);
    }
  }
  report out{"o2g_cost", "no GPU"};
  for (subject const &who : subjects) {
    add_rows(out, who, "one under way", found[&who], &costs::one);
    add_rows(out, who, "16 under way", found[&who], &costs::many);
    add_rows(out, who, "one under way, with its sending", found[&who], &costs::one_whole);
    add_rows(out, who, "16 under way, with their sending", found[&who], &costs::many_whole);
  }
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_o2g_cost", [=] { return bench::run(argc, argv); });
}
