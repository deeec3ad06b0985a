// SPDX-License-Identifier: Apache-2.0
#include "backend/native/tuning_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/fd.h"

namespace regroup::backend::native {

namespace {

Status refused(const std::string& path, const std::string& why) {
  return Status(StatusCode::invalid_argument, "the tuning table " + path + " cannot be read: " + why);
}

std::string words_of(int error) { return std::generic_category().message(error); }

}  // namespace

Result<std::shared_ptr<const algorithms::Tuning>> read_tuning(const std::string& path) {
  // Without waiting: the path may name a pipe that nobody writes to.
  const base::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return refused(path, words_of(errno));
  struct stat about = {};
  if (::fstat(file.get(), &about) != 0) return refused(path, words_of(errno));
  if (!S_ISREG(about.st_mode)) return refused(path, "it is no regular file");
  std::string text(algorithms::Tuning::kMostBytes + 1, '\0');  // one more, to see that there is too much
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(path, words_of(errno));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  std::string problem;
  auto table = algorithms::Tuning::parse(text, path, &problem);
  if (!table) return Status(StatusCode::invalid_argument, "the tuning table is wrong: " + problem);
  return std::shared_ptr<const algorithms::Tuning>(std::make_shared<algorithms::Tuning>(*std::move(table)));
}

}  // namespace regroup::backend::native
