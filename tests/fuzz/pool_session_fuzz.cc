// Requests of any content to the pool's daemon, after a good handshake: nothing breaks, and when
// the client has gone and the objects are removed, all of the pool's memory is free. A request is:
// kind, size of the body, size of the data, the body; what is left over when the input ends is sent
// as it is, without a frame.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "products/poold/session.hpp"
#include "sim/stream.hpp"

namespace {

using namespace tanada;

constexpr uint64_t segment_size = 2 << 20;

poold::pool_memory &memory() {
  static auto const all = [] {
    auto made = poold::pool_memory::create(
        {.capacity = 4 << 20, .segment_size = segment_size, .prefault = false});
    if (!made.ok())
      std::abort();
    return std::move(made).value();
  }();
  return *all;
}

void send(seams::stream &to, poold::session &at, const void *source, size_t size) {
  auto const *bytes = static_cast<const char *>(source);
  for (int tries = 0; size > 0 && tries < 10'000; tries++) {
    iovec const part{const_cast<char *>(bytes), size};
    auto sent = to.send({&part, 1});
    if (sent.ok()) {
      bytes += sent.value();
      size -= sent.value();
    } else if (sent.error() != status::again)
      return;
    if (at.progress(1) == poold::session::outcome::ended)
      return;
    char drained[4096];
    iovec const room{drained, sizeof drained};
    while (to.receive({&room, 1}).ok()) {}
  }
}

template <class Message>
void send(seams::stream &to, poold::session &at, wire::pool::kind what, const Message &message) {
  auto const bytes = wire::pool::encode_frame({.kind = uint16_t(what), .code = 0}, message);
  send(to, at, bytes.data(), bytes.size());
}

void remove_all(poold::catalog &objects) {
  std::vector<std::string> names;
  objects.list(0, {}, [&](const std::string &name, const wire::pool::info *) {
    names.push_back(name);
    return true;
  });
  for (const std::string &name : names)
    (void)objects.remove(0, name, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  poold::catalog objects{memory(), nullptr, {}};
  poold::service with{.memory = memory(), .objects = objects, .keys = {}};
  sim::world world{1};
  {
    auto [here, there] = sim::stream_pair_create(world, {}, [] { return false; });
    poold::session one{with, std::move(there), 1, std::make_shared<poold::mailbox>(), 1};
    wire::pool::hello_message hello;
    // A first byte of 255: a connection without a namespace.
    bool const has_space = size == 0 || bytes[0] != 255;
    hello.namespace_name = has_space ? "fuzz" : "";
    send(*here, one, wire::pool::kind::hello, hello);
    send(*here, one, wire::pool::kind::proof, wire::pool::proof_message{});
    while (size >= 3) {
      wire::pool::frame head{.kind = uint16_t(16 + bytes[0] % 26),
                             .body_size = bytes[1],
                             .tag = 1,
                             .data_size = bytes[2]};
      bytes += 3;
      size -= 3;
      if (head.body_size > size)
        head.body_size = uint32_t(size);
      send(*here, one, &head, sizeof head);
      send(*here, one, bytes, head.body_size);
      bytes += head.body_size;
      size -= head.body_size;
      std::vector<char> const data(head.data_size, 'd');
      send(*here, one, data.data(), data.size());
    }
    send(*here, one, bytes, size);
  }
  if (objects.all_namespaces().empty())
    return 0;
  remove_all(objects);
  if (memory().used() == 0)
    return 0;
  std::fprintf(stderr,
               "pool_session_fuzz: %llu bytes are lost\n",
               static_cast<unsigned long long>(memory().used()));
  std::abort();
}
