/* SPDX-License-Identifier: Apache-2.0
 * The C interface of a module: a shared object through which a library (an MPI, Gloo, NCCL, UCX) carries messages or
 * whole collectives for a group. docs/backends.md says how to write one. A module exports one function,
 *
 *   const regroup_module* regroup_module_get(uint32_t abi);
 *
 * which returns its table, or NULL if it does not know that version of this interface.
 *
 * regroup does the rest: before it starts a collective here, all ranks have called the same, with fitting sizes; it
 * keeps deadlines, notices deaths, and tells who is to blame.
 *
 * Threads: calls that concern one group never overlap, but may come from different threads; calls for different groups
 * may overlap. No call may block, but `open` (until its deadline) and `close`. No exception may leave a function.
 */
#ifndef REGROUP_MODULE_H
#define REGROUP_MODULE_H

#ifdef __cplusplus
#include <cstdint>
extern "C" {
#else
#include <stdint.h>
#endif

#define REGROUP_MODULE_ABI 1u
#define REGROUP_MODULE_ENTRY "regroup_module_get"

/* The numbers of regroup::Collective, DataType and ReduceOp::Kind (types.h). */
enum {
  REGROUP_BARRIER = 0,
  REGROUP_BROADCAST = 1,
  REGROUP_REDUCE = 2,
  REGROUP_ALL_REDUCE = 3,
  REGROUP_GATHER = 4,
  REGROUP_ALL_GATHER = 5,
  REGROUP_SCATTER = 6,
  REGROUP_REDUCE_SCATTER = 7,
  REGROUP_ALL_TO_ALL = 8
};
enum {
  REGROUP_BOOLEAN = 0,
  REGROUP_INT8 = 1,
  REGROUP_INT16 = 2,
  REGROUP_INT32 = 3,
  REGROUP_INT64 = 4,
  REGROUP_UINT8 = 5,
  REGROUP_UINT16 = 6,
  REGROUP_UINT32 = 7,
  REGROUP_UINT64 = 8,
  REGROUP_FLOAT16 = 9,
  REGROUP_BFLOAT16 = 10,
  REGROUP_FLOAT8_E4M3FN = 11,
  REGROUP_FLOAT8_E5M2 = 12,
  REGROUP_FLOAT32 = 13,
  REGROUP_FLOAT64 = 14,
  REGROUP_COMPLEX64 = 15,
  REGROUP_COMPLEX128 = 16
};
enum {
  REGROUP_SUM = 0,
  REGROUP_AVERAGE = 1,
  REGROUP_PRODUCT = 2,
  REGROUP_MINIMUM = 3,
  REGROUP_MAXIMUM = 4,
  REGROUP_BIT_AND = 5,
  REGROUP_BIT_OR = 6,
  REGROUP_BIT_XOR = 7,
  REGROUP_PREMULTIPLIED_SUM = 8
};

/* What calls return. */
enum {
  REGROUP_DONE = 0,
  REGROUP_PENDING = 1, /* of `test` alone */
  REGROUP_FAILED = 2   /* the error says why; the group is broken */
};

typedef struct regroup_module_error {
  char text[512]; /* a sentence for a person, ended by 0 */
} regroup_module_error;

typedef struct regroup_segment {
  void* data; /* NULL where there are no bytes */
  uint64_t bytes;
} regroup_segment;

/* A collective, checked, on one rank. Inputs are only read. Where an operation takes a part for each rank, inputs or
 * outputs have `size` segments, else one; a side that this rank does not have has none. */
typedef struct regroup_call {
  uint32_t collective;
  uint32_t type;
  uint32_t op;   /* where the collective reduces */
  uint32_t root; /* where it has one */
  double factor; /* premultiplied_sum */
  /* Elements: of the vector (broadcast, reduce, all_reduce), or of each part if all ranks' parts are equal; else 0. */
  uint64_t count;
  /* Elements by part where parts may differ, on every rank alike, but for all_to_all: of what this rank gives to, and
   * takes from each. NULL where all are `count`. gather and scatter: NULL where only the root knows; then `count` is
   * this rank's own. */
  const uint64_t* counts;
  const uint64_t* receive_counts;
  const regroup_segment* inputs;
  uint32_t input_segments;
  const regroup_segment* outputs;
  uint32_t output_segments;
  /* Segments of that side follow each other without a gap: one buffer. */
  uint8_t inputs_adjoin;
  uint8_t outputs_adjoin;
  /* Input and output are the same memory (of the parts that both sides have). */
  uint8_t in_place;
  uint8_t reserved[5];
} regroup_call;

/* What regroup does for a module's group. Valid until `close` has returned. */
typedef struct regroup_module_host {
  uint32_t abi;
  uint32_t rank, size;
  uint32_t reserved;
  /* Nanoseconds that `open` may take; operations have deadlines of their own, kept by regroup. */
  uint64_t open_timeout_ns;
  /* "10.0.0.1": under which this rank's host is reached by others; empty: all ranks are on one host. */
  const char* address;
  void* context;
  /* During `open` only: every rank gives `bytes` bytes (at most 65536; as many on every rank) and gets those of all, by
   * rank. REGROUP_DONE or REGROUP_FAILED. All ranks must call it as often. */
  int (*exchange)(void* context, const void* mine, uint64_t bytes, void* all);
  /* From any thread: something may have come to its end, look again. Only needed where the module's threads do the
   * work; then its flags say REGROUP_MODULE_WAKES, and nobody polls while ranks wait for long. */
  void (*wake)(void* context);
} regroup_module_host;

/* What `support` returns: a sum. */
enum {
  REGROUP_SUPPORTED = 1,
  /* Parts need not adjoin: lists of buffers go as they are. Else regroup packs them into one buffer, and unpacks. */
  REGROUP_TAKES_LISTS = 2,
  /* regroup's own plan over the module's messages is quicker. */
  REGROUP_SLOWER_THAN_MESSAGES = 4
};

/* Flags of a module. */
enum {
  REGROUP_MODULE_WAKES = 1,        /* see regroup_module_host::wake */
  REGROUP_MODULE_DEVICE_MEMORY = 2 /* takes memory for which `owns` is true, and only that */
};

typedef struct regroup_module {
  uint32_t abi;   /* REGROUP_MODULE_ABI */
  uint32_t bytes; /* sizeof(regroup_module), as the module was compiled */
  const char* name;
  const char* version; /* of the library behind it */
  uint64_t flags;

  /* Why it cannot be used in this process on this machine, or NULL. */
  const char* (*obstacle)(void);
  /* Whether a collective can be had for a type and an operator (0 where the collective reduces nothing). Always the
   * same, on all ranks. Collectives that reduce nothing need not know types: regroup asks for uint8, too. */
  uint32_t (*support)(uint32_t collective, uint32_t type, uint32_t op);

  /* Every member calls it. On success `*group` is what the other calls get. */
  int (*open)(const regroup_module_host* host, void** group, regroup_module_error* error);
  /* Gives everything back; nothing is under way, but what `cancel` could not end. Never waits for other ranks for
   * longer than a second. `broken`: the group has failed, some members may be dead. */
  void (*close)(void* group, int broken);
  /* The group has failed: what is under way is to end soon. Comes before `cancel` and `close`. */
  void (*abort)(void* group);

  /* A collective, one at a time. `call` and what it points to stay until the operation has ended, so does the memory.
   */
  int (*start)(void* group, const regroup_call* call, void** operation, regroup_module_error* error);
  /* Messages; NULL where the module has none. Matched by (peer, tag) in the order of the calls on both sides; both
   * sides mean the same number of bytes. Any number may be under way, also between a rank and any others. */
  int (*send)(void* group, uint32_t peer, uint32_t tag, const void* data, uint64_t bytes, void** operation,
              regroup_module_error* error);
  int (*receive)(void* group, uint32_t peer, uint32_t tag, void* data, uint64_t bytes, void** operation,
                 regroup_module_error* error);
  /* Moves what can be moved, and tells how it stands with an operation, which is given back unless it is pending. */
  int (*test)(void* group, void* operation, regroup_module_error* error);
  /* Gives an operation back that has not ended. 1: its memory is no longer touched. 0: the library cannot promise
   * that; the memory stays lent until the group is closed. */
  int (*cancel)(void* group, void* operation);

  /* Whether `data` is memory of the kind that the module takes. NULL: it takes ordinary memory. */
  int (*owns)(const void* data);
} regroup_module;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
