// SPDX-License-Identifier: Apache-2.0
// A contender behind plain C functions: for drivers in other languages, which load them from a shared library. Buffers,
// pinning, meeting, clock and comparison are contest/contender.h's, as for everybody.
#pragma once

#ifdef __cplusplus
#include <cstdint>
extern "C" {
#else
#include <stdint.h>
#endif

// What a call has to do: contest::Turn and Task in plain words. Names end with \0 and live as long as the program.
typedef struct regroup_contest_turn {
  const char* collective;  // "all_reduce"
  const char* type;        // "float32"
  const char* op;          // "sum"
  uint32_t rank;
  uint32_t ranks;
  uint32_t root;
  uint32_t in_place;
  uint64_t part;        // elements of a part, or of the vector where there are no parts
  uint64_t part_bytes;  // the same in bytes
  void* input;          // NULL where this rank has none
  void* output;
  uint64_t input_parts;
  uint64_t output_parts;
} regroup_contest_turn;

// Each returns NULL, or words for people that stay valid until the next call: why it did not work.
typedef struct regroup_contest_contender {
  const char* (*start)(uint32_t rank, uint32_t ranks);
  // Why this cannot be measured, on all ranks alike. The turn's memory stays, the struct itself does not.
  const char* (*prepare)(const regroup_contest_turn* turn);
  // Once what was prepared.
  const char* (*call)(void);
} regroup_contest_contender;

// Pins this process to the rank's core; takes part in the contest that REGROUP_CONTEST names until the organiser ends
// it. The exit status for the process.
int regroup_contest_run(uint32_t rank, const char* version, const regroup_contest_contender* contender);

#ifdef __cplusplus
}
#endif
