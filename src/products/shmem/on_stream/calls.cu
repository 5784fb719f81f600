// products/shmem/on_stream/calls.cu: the calls shmemx_*_on_stream for callers that compile no
// kernels, mainly Python. There is one library for the host executor and one for CUDA, loaded when
// the job has a device of that kind. A stream is passed as its handle; null is the default stream.
// The contracts are those of shmemx_on_stream.cuh. Each call returns 0 or CUDA's error number,
// without a text, since the text is the driver's.
#include <shmemx_on_stream.cuh>

#include <tanada/device/detail/simt/stream.hpp>

namespace {

namespace calls = tanada::shmem::device;
using tanada::simt::launch_error;
using tanada::simt::stream_at;

}  // namespace

#define TND_EXPORTED extern "C" __attribute__((visibility("default")))

TND_EXPORTED int tnd_shmem_put_on_stream(
    void *target, const void *source, size_t size, int pe, void *stream) {
  calls::put_on_stream(target, source, size, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_get_on_stream(
    void *target, const void *source, size_t size, int pe, void *stream) {
  calls::get_on_stream(target, source, size, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_put_signal_on_stream(void *target,
                                                const void *source,
                                                size_t size,
                                                uint64_t *signal,
                                                uint64_t value,
                                                int operation,
                                                int pe,
                                                void *stream) {
  calls::put_signal_on_stream(
      target, source, size, {signal, value, operation}, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_signal_on_stream(
    uint64_t *signal, uint64_t value, int operation, int pe, void *stream) {
  calls::signal_on_stream({signal, value, operation}, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_wait_on_stream(uint64_t *signal,
                                          int comparison,
                                          uint64_t value,
                                          void *stream) {
  calls::wait_on_stream(signal, comparison, value, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_quiet_on_stream(void *stream) {
  calls::quiet_on_stream(stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_barrier_on_stream(void *stream) {
  shmemx_barrier_all_on_stream(stream_at(stream));
  return launch_error();
}
// Waits for a stream. The host executor's only stream is waited for at most `timeout_ns`; returns 1
// after that.
TND_EXPORTED int tnd_shmem_wait_for_stream(void *stream, uint64_t timeout_ns) {
  return tanada::simt::wait_for(stream_at(stream), timeout_ns);
}
