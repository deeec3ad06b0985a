// SPDX-License-Identifier: Apache-2.0
// All of regroup.
#pragma once

#include "regroup/buffer.h"
#include "regroup/capabilities.h"
#include "regroup/group.h"
#include "regroup/join.h"
#include "regroup/memory.h"
#include "regroup/operation.h"
#include "regroup/status.h"
#include "regroup/store.h"
#include "regroup/survival.h"
#include "regroup/types.h"
#include "regroup/work.h"
