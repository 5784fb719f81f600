/* tanada/status.h: status codes shared by C, C++, device code and Python. C11 and C++20. */
#ifndef TANADA_STATUS_H
#define TANADA_STATUS_H

#include <stdint.h>

/** @cond */
#if defined(__cplusplus)
#  define TND_EXTERN_C_BEGIN extern "C" {
#  define TND_EXTERN_C_END }
#  define TND_NOEXCEPT noexcept
#  define TND_API [[gnu::visibility("default")]]
#  define TND_NODISCARD [[nodiscard]]
#else
#  define TND_EXTERN_C_BEGIN
#  define TND_EXTERN_C_END
#  define TND_NOEXCEPT
#  define TND_API __attribute__((visibility("default")))
#  define TND_NODISCARD __attribute__((warn_unused_result))
#endif
/** @endcond */

/**
 * 0 on success, otherwise a negative code: -errno below 256, -FI_E* from 256 to 4095 (libfabric's
 * range), -TND_E* from 4096. A status never carries a size, a count or a handle.
 */
typedef int32_t tnd_status;

/** Statuses that errno has no number for. */
enum {
  TND_OK = 0,
  TND_ECORRUPT = 4096,  /**< a checksum over data at rest or in flight did not match */
  TND_EPEER = 4097,     /**< the remote process died or restarted since the handle was opened */
  TND_EDEVICE = 4098,   /**< the GPU context is lost; every handle on that GPU is dead */
  TND_ENOPLUGIN = 4099, /**< a plugin or the package behind it is missing; the message names it */
  TND_ESTATE = 4100     /**< the call is not allowed in this state, e.g. before ginitialize */
};

/** Timeout or deadline without a limit. It is never a default. */
#define TND_NO_DEADLINE UINT64_MAX

TND_EXTERN_C_BEGIN

/**
 * Name of a status, such as "EIO" or "TND_EPEER".
 *
 * @return a static string; "EUNKNOWN" for a number outside the space. Never NULL.
 * Thread safety: any thread at any time.
 */
TND_API const char *tnd_status_name(tnd_status status) TND_NOEXCEPT;

/** One English sentence for a status. Same lifetime and thread safety as tnd_status_name(). */
TND_API const char *tnd_status_text(tnd_status status) TND_NOEXCEPT;

/**
 * The last error message of the calling thread, with numbers and units, e.g. the package to install
 * for an unknown URL scheme. Set by the host call that returned a status other than TND_OK.
 *
 * @return a string valid until the next tanada call on this thread; "" if no call has failed.
 */
TND_API const char *tnd_last_message(void) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
