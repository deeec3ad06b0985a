// SPDX-License-Identifier: Apache-2.0
// Where a group's driver sleeps: one epoll instance with a doorbell (an eventfd, which peers on the same host hold too)
// and whatever sockets the transports add. One way to sleep, whatever is being waited for.
#pragma once

#include "base/clock.h"
#include "base/fd.h"
#include "regroup/status.h"

namespace regroup::net {

class Waker {
 public:
  static Result<Waker> create();

  // Readability of `fd` (and writability, if asked) ends a sleep. Level-triggered. Add again to change.
  Status watch(int fd, bool writable);
  void forget(int fd);

  // Sleeps until the bell rings, a watched descriptor is ready, or the deadline passes. Drains the bell.
  void sleep(base::Time deadline);

  // Ends a sleep, now or the next one. Any thread; async-signal-safe.
  void ring() const { ring(bell_.get()); }
  static void ring(int bell);

  // The eventfd, to be handed to peers.
  int bell() const { return bell_.get(); }

 private:
  base::Fd epoll_;
  base::Fd bell_;
};

}  // namespace regroup::net
