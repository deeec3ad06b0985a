/* SPDX-License-Identifier: Apache-2.0
 * A module to start from: messages between the ranks of one host, through a file of mailboxes that all of them map. A
 * sender writes down where its bytes are, the receiver reads them out of the sender's memory. regroup makes every
 * collective from these messages; docs/backends.md walks through the file.
 */
#define _GNU_SOURCE
#include <regroup/module.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <fcntl.h>
#include <unistd.h>

enum { kSlots = 64, kMostRanks = 64 };
enum { kFree, kFilling, kSent, kTaken };

typedef struct { /* a message, between its sender and its receiver */
  _Atomic int state;
  uint32_t tag;
  int process;
  uint64_t address, bytes, order;
} slot;

typedef struct {
  uint32_t rank, size;
  slot* slots; /* kSlots for each pair of ranks */
  uint64_t sent;
} mailbox_group;

typedef struct {
  slot* at; /* sends; NULL until there is one free */
  int sends;
  uint32_t peer, tag;
  void* data;
  uint64_t bytes;
} operation;

static slot* box(const mailbox_group* group, uint32_t from, uint32_t to) {
  return group->slots + ((size_t)from * group->size + to) * kSlots;
}

static const char* obstacle(void) { return NULL; }

static uint32_t support(uint32_t collective, uint32_t type, uint32_t op) {
  (void)collective, (void)type, (void)op;
  return 0; /* no collective of its own */
}

static int fail(regroup_module_error* error, const char* text) {
  snprintf(error->text, sizeof error->text, "%s", text);
  return REGROUP_FAILED;
}

static int open_group(const regroup_module_host* host, void** out, regroup_module_error* error) {
  char names[kMostRanks][64], mine[64] = "";
  if (host->size > kMostRanks) return fail(error, "the mailboxes are for 64 ranks at most");
  if (host->address[0] != '\0') return fail(error, "all ranks must be on one host");
  const size_t bytes = sizeof(slot) * kSlots * host->size * host->size;
  int file = -1;
  if (host->rank == 0) { /* makes the file, and tells its name */
    file = memfd_create("mailboxes", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
      snprintf(mine, sizeof mine, "/proc/%d/fd/%d", (int)getpid(), file);
  }
  int failed = host->exchange(host->context, mine, sizeof mine, names) != REGROUP_DONE;
  if (host->rank != 0 && !failed) file = open(names[0], O_RDWR | O_CLOEXEC);
  void* memory = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  /* Rank 0 keeps the name until all have opened it. */
  failed |= host->exchange(host->context, mine, sizeof mine, names) != REGROUP_DONE;
  if (file >= 0) close(file);
  if (memory == MAP_FAILED || failed) return fail(error, "the file of mailboxes cannot be mapped");
  mailbox_group* group = calloc(1, sizeof *group);
  group->rank = host->rank;
  group->size = host->size;
  group->slots = memory;
  *out = group;
  return REGROUP_DONE;
}

static void close_group(void* opened, int broken) {
  mailbox_group* group = opened;
  (void)broken;
  munmap(group->slots, sizeof(slot) * kSlots * group->size * group->size);
  free(group);
}

static void abort_group(void* group) { (void)group; /* nothing here waits */ }

static int start(void* group, const regroup_call* call, void** out, regroup_module_error* error) {
  (void)group, (void)call, (void)out;
  return fail(error, "there are no collectives here");
}

static int post(uint32_t peer, uint32_t tag, void* data, uint64_t bytes, int sends, void** out) {
  operation* new_one = malloc(sizeof *new_one);
  *new_one = (operation){NULL, sends, peer, tag, data, bytes};
  *out = new_one;
  return REGROUP_DONE;
}

static int post_send(void* opened, uint32_t peer, uint32_t tag, const void* data, uint64_t bytes, void** out,
                     regroup_module_error* error) {
  mailbox_group* group = opened;
  (void)error;
  post(peer, tag, (void*)data, bytes, 1, out);
  slot* slots = box(group, group->rank, peer);
  operation* one = *out;
  for (int i = 0; i < kSlots && one->at == NULL; ++i) {
    if (atomic_load(&slots[i].state) != kFree) continue;
    one->at = &slots[i];
    one->at->tag = tag;
    one->at->process = (int)getpid();
    one->at->address = (uint64_t)(uintptr_t)data;
    one->at->bytes = bytes;
    one->at->order = ++group->sent;
    atomic_store(&one->at->state, kSent);
  }
  return one->at != NULL ? REGROUP_DONE : (free(one), fail(error, "more than 64 messages to a rank are under way"));
}

static int post_receive(void* group, uint32_t peer, uint32_t tag, void* data, uint64_t bytes, void** out,
                        regroup_module_error* error) {
  (void)group, (void)error;
  return post(peer, tag, data, bytes, 0, out);
}

/* Of the messages with that tag, the one that was sent first. */
static slot* arrived(const mailbox_group* group, const operation* one) {
  slot *first = NULL, *slots = box(group, one->peer, group->rank);
  for (int i = 0; i < kSlots; ++i) {
    if (atomic_load(&slots[i].state) == kSent && slots[i].tag == one->tag &&
        (first == NULL || slots[i].order < first->order))
      first = &slots[i];
  }
  return first;
}

static int test(void* group, void* tested, regroup_module_error* error) {
  operation* one = tested;
  slot* at = one->sends ? one->at : arrived(group, one);
  if (at == NULL || (one->sends && atomic_load(&at->state) != kTaken)) return REGROUP_PENDING;
  for (uint64_t done = 0; !one->sends && done < one->bytes;) {
    struct iovec to = {(char*)one->data + done, one->bytes - done};
    struct iovec from = {(void*)(uintptr_t)(at->address + done), one->bytes - done};
    const ssize_t got = process_vm_readv(at->process, &to, 1, &from, 1, 0);
    if (got <= 0) return free(one), fail(error, "the sender's memory cannot be read");
    done += (uint64_t)got;
  }
  atomic_store(&at->state, one->sends ? kFree : kTaken);
  free(one);
  return REGROUP_DONE;
}

static int cancel(void* group, void* cancelled) {
  operation* one = cancelled;
  (void)group;
  if (one->sends) atomic_store(&one->at->state, kFree);
  free(one);
  return 1;
}

static const regroup_module kModule = {
    .abi = REGROUP_MODULE_ABI,
    .bytes = sizeof(regroup_module),
    .name = "mailbox",
    .version = "1.0",
    .obstacle = obstacle,
    .support = support,
    .open = open_group,
    .close = close_group,
    .abort = abort_group,
    .start = start,
    .send = post_send,
    .receive = post_receive,
    .test = test,
    .cancel = cancel,
};

const regroup_module* regroup_module_get(uint32_t abi) { return abi == REGROUP_MODULE_ABI ? &kModule : NULL; }
