// See shmemg.h in this folder.
#pragma once
#include "shmemg.h"
