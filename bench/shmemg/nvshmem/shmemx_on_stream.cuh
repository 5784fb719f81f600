// See shmemg.h beside this.
#pragma once
#include "shmemg.h"
