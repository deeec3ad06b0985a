// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace regroup::tool {

namespace {

constexpr int kWidth = 30;  // cells of the bar

std::string human_seconds(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

}  // namespace

Progress::Progress(std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      begin_(Steady::now()),
      last_(begin_) {}

void Progress::update(uint64_t done, uint64_t total) {
  const auto now = Steady::now();
  if (!terminal_ || now - begin_ < std::chrono::seconds(1) || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(done) / seconds;
  const double part = total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int full = static_cast<int>(part * kWidth);
  const std::string bar =
      std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kWidth - full), '.');
  const std::string left =
      rate > 0 ? human_seconds(static_cast<double>(total - std::min(done, total)) / rate) + " left" : "";
  note("\r\x1b[K{} [{}] {}/{} {}, {:.0f}/s, {}", what_, bar, done, total, unit_, rate, left);
}

void Progress::clear() {
  if (drawn_) note("\r\x1b[K");
  drawn_ = false;
}

}  // namespace regroup::tool
