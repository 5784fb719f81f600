/* tanada/version.h: version of the headers and of the library loaded. C11 and C++20. */
#ifndef TANADA_VERSION_H
#define TANADA_VERSION_H

#include "status.h"

#define TND_VERSION_MAJOR 0        /**< of the headers */
#define TND_VERSION_MINOR 1        /**< of the headers */
#define TND_VERSION_PATCH 0        /**< of the headers */
#define TND_VERSION_STRING "0.1.0" /**< of the headers: major.minor.patch */

TND_EXTERN_C_BEGIN

/** Version of the library in use, "major.minor.patch". Static string, never NULL. */
TND_API const char *tnd_version(void) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
