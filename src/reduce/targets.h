// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for. Included before any Highway header, the same in every file, so
// that all of them agree on the dispatch tables: on x86-64 scalar, SSE4, AVX2 and AVX-512; elsewhere Highway's
// defaults.
#pragma once

// A machine with SSSE3 but without SSE4 is not worth the code.
#define HWY_DISABLED_TARGETS HWY_SSSE3
