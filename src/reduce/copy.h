// SPDX-License-Identifier: Apache-2.0
// Copies that leave the caches alone.
#pragma once

#include <cstdint>

namespace regroup::reduction {

// memcpy with stores that bypass the caches: for results that will not be read soon. What it stored is visible to other
// threads in the usual order on return. The ranges must not overlap; any alignment. Streams whatever the size, but for
// pieces too small to gain, so that a large transfer may be copied in blocks; the caller decides by the size of the
// whole.
void copy_streaming(void* to, const void* from, uint64_t bytes);

// Bytes of a whole transfer from which streaming is worth it: below, its result is likely to be found in a cache of
// this processor.
uint64_t streaming_threshold();

}  // namespace regroup::reduction
