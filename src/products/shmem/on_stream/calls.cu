// products/shmem/on_stream/calls.cu: shmemx_*_on_stream for those that compile no kernels, Python
// first: a library for the host executor and one for CUDA, loaded once the job has a device of that
// kind. Streams are their handles, a null one the default stream; what is said of each call in
// shmemx_on_stream.cuh holds. Returns 0, or the number of CUDA's error; no text, since it is the
// driver's.
#include <shmemx_on_stream.cuh>

#include <tanada/device/detail/simt/stream.hpp>

namespace {

namespace calls = tanada::shmem::device;
using tanada::simt::launch_error;
using tanada::simt::stream_at;

}  // namespace

#define TND_EXPORTED extern "C" __attribute__((visibility("default")))

TND_EXPORTED int tnd_shmem_put_on_stream(void *target, const void *source, size_t size, int pe,
                                         void *stream) {
  calls::put_on_stream(target, source, size, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_get_on_stream(void *target, const void *source, size_t size, int pe,
                                         void *stream) {
  calls::get_on_stream(target, source, size, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_put_signal_on_stream(void *target, const void *source, size_t size,
                                                uint64_t *signal, uint64_t value, int operation,
                                                int pe, void *stream) {
  calls::put_signal_on_stream(target, source, size, {signal, value, operation}, pe,
                              stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_signal_on_stream(uint64_t *signal, uint64_t value, int operation, int pe,
                                            void *stream) {
  calls::signal_on_stream({signal, value, operation}, pe, stream_at(stream));
  return launch_error();
}
TND_EXPORTED int tnd_shmem_wait_on_stream(uint64_t *signal, int comparison, uint64_t value,
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
// Wait for a stream; on the host executor, which has one, for `timeout_ns` at most: 1 then.
TND_EXPORTED int tnd_shmem_wait_for_stream(void *stream, uint64_t timeout_ns) {
  return tanada::simt::wait_for(stream_at(stream), timeout_ns);
}
