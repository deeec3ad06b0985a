/* SPDX-License-Identifier: Apache-2.0
 * Modules that keep no rules, one for each value of BREAK: what regroup must say of them, and survive.
 */
#include <regroup/module.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#if BREAK == 1 /* crashes while it is loaded */
__attribute__((constructor)) static void crash(void) { abort(); }
#elif BREAK == 2 /* ends the process that loads it */
__attribute__((constructor)) static void end(void) { _exit(3); }
#endif

static const char* obstacle(void) { return BREAK == 5 ? "its library is not installed" : NULL; }
static uint32_t support(uint32_t collective, uint32_t type, uint32_t op) {
  (void)collective, (void)type, (void)op;
  return BREAK == 4 ? 0xdeadbeef : REGROUP_SUPPORTED;
}
static int open_group(const regroup_module_host* host, void** group, regroup_module_error* error) {
  static int opened;
  (void)host, (void)error;
  *group = &opened;
  return REGROUP_DONE;
}
static void close_group(void* group, int broken) { (void)group, (void)broken; }
static void abort_group(void* group) { (void)group; }
static int start(void* group, const regroup_call* call, void** operation, regroup_module_error* error) {
  (void)group, (void)call, (void)error;
  *operation = NULL;
  return REGROUP_DONE;
}
static int test(void* group, void* operation, regroup_module_error* error) {
  static const char text[] = "the wire is cut";
  (void)group, (void)operation;
  if (BREAK == 7) return REGROUP_PENDING; /* never ends */
  for (size_t i = 0; i < sizeof text; ++i) error->text[i] = text[i];
  return REGROUP_FAILED;
}
static int cancel(void* group, void* operation) {
  (void)group, (void)operation;
  return 1;
}

static const regroup_module kModule = {
    .abi = REGROUP_MODULE_ABI,
    .bytes = sizeof(regroup_module),
    .name = NAME,
    .version = "0",
    .obstacle = obstacle,
    .support = support,
    .open = open_group,
    .close = close_group,
    .abort = abort_group,
    .start = start,
    .test = test,
    .cancel = cancel,
};

const regroup_module* regroup_module_get(uint32_t abi) { return abi == REGROUP_MODULE_ABI && BREAK != 3 ? &kModule : NULL; }
