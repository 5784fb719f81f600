// A thread in place of the service kernel.
#include "backends/cuda/testing/fake_device.hpp"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/bounded_text.hpp"
#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/service.hpp"
#include "seams/fabric/update_word.hpp"

namespace tanada::backends::cuda {

fake_device &fake() {
  static fake_device instance;
  return instance;
}

namespace {

thread_local char message[bounded_text::size_max + 1] = "";

void delay_us(uint32_t max_us) {
  thread_local std::mt19937 random{uint32_t(reinterpret_cast<uintptr_t>(&message))};
  uint64_t const until = now_ns() + (max_us == 0 ? 0 : random() % (max_us * 1000));
  while (now_ns() < until)
    std::this_thread::yield();
}

}  // namespace

void fake_step() {
  delay_us(fake().step_delay_max_us);
}

namespace {

void perform(ring_memory &ring, uint32_t sequence, const command &request) {
  auto *const target = reinterpret_cast<unsigned char *>(request.target);
  auto *const source = reinterpret_cast<const unsigned char *>(request.rows.source);
  uint64_t before = 0;
  unsigned char *answer = nullptr;
  switch (request.kind) {
    case command_kind::write:
      std::memcpy(target, request.bytes, request.size);
      break;
    case command_kind::copy:
      std::memcpy(target, source, request.size);
      break;
    case command_kind::rows:
      for (int64_t i = 0; i < int64_t(request.rows.count); i++) {
        std::memcpy(target + i * request.rows.target_stride,
                    source + i * request.rows.source_stride,
                    request.size);
      }
      break;
    case command_kind::read:
      answer = ring.annexes[sequence % slot_count];
      std::memcpy(answer, source, request.size);
      break;
    case command_kind::update:
      before = seams::update_word(seams::fabric_atomic(request.atomic),
                                  reinterpret_cast<uint64_t *>(target),
                                  request.update.operand,
                                  request.update.compare);
      answer = reinterpret_cast<unsigned char *>(&before);
      break;
    default:
      break;
  }
  if (answer == nullptr)
    return;
  for (uint32_t i = 0; i < word_count; i++) {
    uint32_t content;
    std::memcpy(&content, answer + (request.kind == command_kind::update ? i % 2 : i) * 4, 4);
    __atomic_store_n(&ring.answers[sequence % slot_count].words[i],
                     uint64_t(sequence) << 32 | content,
                     __ATOMIC_RELEASE);
  }
}

bool perform_next(ring_memory &ring, uint32_t &next, bool &is_stopping) {
  uint32_t content[word_count];
  for (uint32_t i = 0; i < word_count; i++) {
    uint64_t const word = __atomic_load_n(
        &ring.commands[next % view_count][next % slot_count].words[i], __ATOMIC_ACQUIRE);
    if (uint32_t(word >> 32) != next)
      return false;
    content[i] = uint32_t(word);
  }
  command request;
  std::memcpy(&request, content, sizeof request);
  if (request.kind == command_kind::stop)
    is_stopping = true;
  perform(ring, next, request);
  __atomic_store_n(&ring.done, next++, __ATOMIC_RELEASE);
  return true;
}

// Does what kernels.cu does, with the same order of stores.
void serve(const service_run &run) {
  ring_memory &ring = *run.ring;
  uint32_t const steps = fake().step_delay_max_us;
  auto const store = [](uint32_t &word, uint32_t value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  };
  auto const end = [&](uint32_t next) {
    __atomic_store_n(&ring.ended, uint64_t(run.generation) << 32 | next, __ATOMIC_RELEASE);
  };
  delay_us(steps);
  store(ring.started, run.generation);
  if (is_reached(run.generation, __atomic_load_n(&ring.canceled, __ATOMIC_ACQUIRE))) {
    fake().canceled++;
    delay_us(steps);
    store(ring.closing, run.generation);
    return end(run.first);
  }
  delay_us(steps);
  store(ring.serving, run.generation);
  fake().runs++;
  uint32_t next = run.first;
  bool is_stopping = false;
  uint32_t poll_count = 0;
  for (uint64_t idle_since = now_ns(); !is_stopping && now_ns() - idle_since < run.idle_ns;) {
    if (perform_next(ring, next, is_stopping))
      idle_since = now_ns();
    else if (++poll_count % 256 == 0)
      std::this_thread::yield();  // both threads may share one processor
  }
  delay_us(steps);
  store(ring.closing, run.generation);
  delay_us(steps);
  while (perform_next(ring, next, is_stopping))
    continue;
  delay_us(steps);
  end(next);
}

}  // namespace

// A stream of service kernels.
struct fake_stream {
  std::mutex mutex;
  std::condition_variable wanted;
  std::deque<service_run> runs;
  std::jthread worker{[this](const std::stop_token &stop) {
    while (!stop.stop_requested()) {
      std::unique_lock lock{mutex};
      if (!wanted.wait_for(lock, std::chrono::milliseconds{20}, [this] { return !runs.empty(); }))
        continue;
      service_run const run = runs.front();
      lock.unlock();
      while (fake().is_full && !stop.stop_requested())
        std::this_thread::yield();
      delay_us(fake().start_delay_max_us);
      serve(run);
      lock.lock();
      runs.pop_front();
    }
  }};
};

cudaError_t load_kernels() {
  return cudaSuccess;
}
cudaError_t launch_service(cudaStream_t stream, const service_run &run) {
  auto &target = *reinterpret_cast<fake_stream *>(stream);
  std::lock_guard const lock{target.mutex};
  target.runs.push_back(run);
  target.wanted.notify_all();
  return cudaSuccess;
}
cudaError_t launch_update(cudaStream_t, const command &, uint64_t *) {
  return cudaErrorNotSupported;
}
cudaError_t launch_rows(cudaStream_t, const command &) {
  return cudaErrorNotSupported;
}

tnd_status set_error_text(tnd_status code, fmt::string_view format, fmt::format_args arguments) {
  std::strcpy(message, bounded_text{format, arguments}.c_str());
  return code;
}
const char *last_message() {
  return message;
}
tnd_status checked(cudaError_t error, const char *action, unsigned long long) {
  return error == cudaSuccess ? TND_OK : set_error(-TND_EDEVICE, "{}", action);
}
int is_device_memory(const void *addr) {
  return size_t(static_cast<const unsigned char *>(addr) - fake().memory) < fake().memory_size;
}

current_device::current_device(uint32_t) : error_{cudaSuccess} {}
current_device::~current_device() = default;

}  // namespace tanada::backends::cuda

using tanada::backends::cuda::fake;
using tanada::backends::cuda::fake_stream;

extern "C" {
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(new fake_stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **addr, size_t size, unsigned) {
  *addr = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return cudaSuccess;
}
// An event holds the number of copies before it.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new std::atomic<uint64_t>{0});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::atomic<uint64_t> *>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *reinterpret_cast<std::atomic<uint64_t> *>(event) = fake().copies.load();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return *reinterpret_cast<std::atomic<uint64_t> *>(event) <= fake().copies_ended_max
             ? cudaSuccess
             : cudaErrorNotReady;
}
cudaError_t cudaMemcpyAsync(
    void *target, const void *source, size_t size, cudaMemcpyKind, cudaStream_t) {
  fake().copies++;
  std::memcpy(target, source, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(
    void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t) {
  return cudaErrorNotSupported;
}
}
