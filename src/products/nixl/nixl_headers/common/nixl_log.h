// nixl_log.h: instead of NIXL's header of this name, which needs abseil.
//
// A template of NIXL's headers logs one line by it: that an engine could not be created.
#pragma once

#include <iostream>

#define NIXL_ERROR std::cerr << "tanada: "
#define NIXL_ASSERT(condition) ((void)(condition))
