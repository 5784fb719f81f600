#include "remote_memory.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "backends/libfabric/libfabric_endpoint.hpp"

namespace bench {
namespace {

using namespace tanada;

constexpr uint64_t patience_ns = 60'000'000'000;

void check(status code, const char *what) {
  if (code != status::ok)
    throw std::runtime_error(std::string(what) + ": status " + std::to_string(int(code)));
}

struct card {
  seams::fabric_address address;
  seams::fabric_remote remote;
};

std::unique_ptr<seams::fabric_endpoint> open(const std::string &provider) {
  backends::libfabric_options options;
  options.provider = provider;
  if (provider != "shm")
    options.node = "127.0.0.1";
  auto opened = backends::libfabric_endpoint_open(options);
  check(opened.error(), "open an endpoint");
  return std::move(opened).value();
}

void compute() {
  volatile double value = 1;
  for (int i = 0; i < 100'000; i++)
    value = value * 1.0000001;
}

[[noreturn]] void serve(
    const std::string &provider, owner_does what, size_t size, int tell, int parent) {
  auto endpoint = open(provider);
  std::vector<std::byte> memory(size, std::byte{1});
  auto region = endpoint->region_register({.addr = memory.data(), .size = size}, {true, true});
  check(region.error(), "register");
  card const own{endpoint->address(), region.value().remote};
  if (write(tell, &own, sizeof own) != ssize_t(sizeof own))
    _exit(1);
  uint64_t const end_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), patience_ns);
  while (getppid() == parent && seams::monotonic_clock().now_ns() < end_ns) {
    seams::fabric_completion done[4];
    if (what == owner_does::look) {
      for (int i = 0; i < 10'000; i++) {
        if (endpoint->poll(done) == 0)
          sched_yield();
      }
    } else if (what == owner_does::compute) {
      compute();
    } else {
      (void)endpoint->wait(seams::deadline_after(seams::monotonic_clock().now_ns(), 20'000'000));
      (void)endpoint->poll(done);
    }
  }
  _exit(0);
}

}  // namespace

remote_memory::remote_memory(const std::string &provider, owner_does what, size_t size)
    : looks_{what != owner_does::wait} {
  int tell[2];
  if (pipe(tell) != 0)
    throw std::runtime_error("no pipe");
  int const parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    try {
      serve(provider, what, size, tell[1], parent);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "bench: %s\n", error.what());
      _exit(1);
    }
  }
  close(tell[1]);
  card there{};
  bool const well = read(tell[0], &there, sizeof there) == ssize_t(sizeof there);
  close(tell[0]);
  if (!well)
    throw std::runtime_error("the other process does not serve");
  remote_ = there.remote;
  endpoint_ = open(provider);
  auto added = endpoint_->peer_add(there.address.span());
  check(added.error(), "add the peer");
  peer_ = added.value();
}

void remote_memory::pause() {
  int state = 0;
  if (kill(process_, SIGSTOP) == 0)
    (void)waitpid(process_, &state, WUNTRACED);
}

void remote_memory::resume() {
  (void)kill(process_, SIGCONT);
}

remote_memory::~remote_memory() {
  endpoint_.reset();
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void remote_memory::move(seams::fabric_op_kind kind, std::span<std::byte> bytes, bool copied) {
  seams::fabric_op op;
  op.kind = kind;
  op.addr = bytes.data();
  op.size = bytes.size();
  op.is_copied = copied;
  run(op);
}

void remote_memory::fetch_add(uint64_t operand) {
  seams::fabric_op op;
  op.kind = seams::fabric_op_kind::atomic;
  op.operand = operand;
  op.returns_value = true;
  run(op);
}

void remote_memory::flood(size_t count) {
  uint64_t word = 1;
  seams::fabric_op op;
  op.kind = seams::fabric_op_kind::write;
  op.addr = reinterpret_cast<std::byte *>(&word);
  op.size = sizeof word;
  op.is_copied = true;
  op = aimed(op);
  seams::fabric_completion done[64];
  auto const reap = [&] {
    size_t const reaped = endpoint_->poll(done);
    for (size_t i = 0; i < reaped; i++)
      check(done[i].code, "write");
    if (reaped == 0) {
      if (looks_)
        sched_yield();
      else
        (void)endpoint_->wait(op.deadline_ns);
    }
  };
  for (size_t posted = 0; posted < count;) {
    op.offset = posted % 64 * sizeof word;
    status const code = endpoint_->post(op);
    if (code == status::ok)
      posted++;
    else if (code == status::again)
      reap();
    else
      check(code, "post");
  }
  while (endpoint_->pending_count() != 0)
    reap();
}

seams::fabric_op remote_memory::aimed(seams::fabric_op op) const {
  op.peer = peer_;
  op.remote = remote_;
  op.deadline_ns = seams::deadline_after(seams::monotonic_clock().now_ns(), patience_ns);
  return op;
}

void remote_memory::run(const seams::fabric_op &what) {
  auto const op = aimed(what);
  check(endpoint_->post(op), "post");
  seams::fabric_completion done[1];
  while (endpoint_->poll(done) == 0) {
    if (looks_)
      sched_yield();
    else
      (void)endpoint_->wait(op.deadline_ns);
  }
  check(done[0].code, "transfer");
}

}  // namespace bench
