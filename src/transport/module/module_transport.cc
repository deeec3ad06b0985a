// SPDX-License-Identifier: Apache-2.0
#include "transport/module/module_transport.h"

#include <algorithm>

namespace regroup::transport {

namespace {

constexpr size_t kMostSpare = 16;            // bounces that are kept
constexpr size_t kMostSpareBytes = 8 << 20;  // of each

}  // namespace

void ModuleTransport::post(Message& message, bool sends) {
  message.state = Message::State::posted;
  Flight flight;
  flight.message = &message;
  flight.sends = sends;
  void* data = message.segments.empty() ? nullptr : message.segments.front().data;
  if (message.segments.size() > 1 || message.folding != nullptr) {
    if (!spare_.empty()) {
      flight.bounce = std::move(spare_.back());
      spare_.pop_back();
    }
    flight.bounce.resize(message.bytes);
    data = flight.bounce.data();
    if (sends) gather(message, 0, flight.bounce.data(), message.bytes);
  }
  const module::Progress outcome =
      sends ? session_.send(message.peer, message.key.number, data, message.bytes, &flight.operation)
            : session_.receive(message.peer, message.key.number, data, message.bytes, &flight.operation);
  if (outcome == module::Progress::failed) {
    failed_ = true;
    return;  // the driver ends the operation, and with it the message
  }
  flights_.push_back(std::move(flight));
}

void ModuleTransport::land(Flight& flight) {
  Message& message = *flight.message;
  if (!flight.bounce.empty()) {
    if (!flight.sends) deliver(message, 0, flight.bounce.data(), message.bytes);
    if (spare_.size() < kMostSpare && flight.bounce.capacity() <= kMostSpareBytes)
      spare_.push_back(std::move(flight.bounce));
  }
  message.state = Message::State::done;
}

bool ModuleTransport::progress() {
  bool moved = false;
  for (size_t i = 0; i < flights_.size() && !failed_;) {
    switch (session_.test(flights_[i].operation)) {
      case module::Progress::pending:
        ++i;
        continue;
      case module::Progress::failed:
        failed_ = true;
        break;
      case module::Progress::done:
        land(flights_[i]);
        break;
    }
    // In the order of posting: libraries match in it.
    flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

void ModuleTransport::cancel(Message& message) {
  const auto flight =
      std::find_if(flights_.begin(), flights_.end(), [&](const Flight& one) { return one.message == &message; });
  if (flight != flights_.end()) {
    if (!session_.cancel(flight->operation)) {
      if (flight->bounce.empty())
        lends_ = true;
      else
        lost_.push_back(std::move(flight->bounce));
    }
    flights_.erase(flight);
  }
  if (!message.finished()) message.state = Message::State::cancelled;
}

}  // namespace regroup::transport
