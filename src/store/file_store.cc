// SPDX-License-Identifier: Apache-2.0
// A store in one file that only grows: a line that names the format, then records
//   {u64 body bytes, u64 hash of the body, body: u8 change, str key, str value}
// in the order in which the changes were made. A writer holds the file's exclusive lock (flock), reads what others
// appended since, and appends the outcome of its change; readers hold the shared lock. Every process keeps a copy of
// the table. A waiting reader looks at the file's size with growing pauses. Locks are tried, never waited for, so
// deadlines hold.
#include "store/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/fd.h"
#include "base/hash.h"
#include "base/system_error.h"
#include "net/backoff.h"
#include "store/table.h"
#include "store/tcp_wire.h"
#include "store/timeout.h"

namespace regroup::store {

namespace {

constexpr std::string_view kFormat = "regroup-store 1\n";
constexpr size_t kRecordHeader = 16;
constexpr auto kFirstPause = std::chrono::microseconds(100);
constexpr auto kLongestPause = std::chrono::milliseconds(10);

enum class Change : uint8_t { set = 1, append = 2, erase = 3 };

std::string record(Change change, std::string_view key, std::string_view value) {
  const std::string body = WireWriter().u8(static_cast<uint8_t>(change)).bytes(key).bytes(value).take();
  return WireWriter().u64(body.size()).u64(base::hash_bytes(body)).take() + body;
}

class FileStore final : public Store {
 public:
  explicit FileStore(std::string path) : path_(std::move(path)) {}

  Status open(base::Time deadline);

  Status set(std::string_view key, std::string_view value) override {
    return change([&]() -> Result<std::string> { return record(Change::set, key, value); });
  }

  Result<std::string> get(std::string_view key, Duration timeout) override {
    std::string value;
    const Status status = wait_then({std::string(key)}, timeout, [&] { value = *table_.find(key); });
    if (!status.ok()) return status;
    return value;
  }

  Result<int64_t> add(std::string_view key, int64_t amount) override {
    int64_t sum = 0;
    const Status status = change([&]() -> Result<std::string> {
      Result<int64_t> after = table_.sum(key, amount);
      if (!after.ok()) return after.status();
      sum = *after;
      return record(Change::set, key, std::to_string(sum));
    });
    if (!status.ok()) return status;
    return sum;
  }

  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    Table::Comparison comparison;
    const Status status = change([&]() -> Result<std::string> {
      comparison = table_.compare(key, expected, desired);
      return comparison.sets ? record(Change::set, key, desired) : std::string();
    });
    if (!status.ok()) return status;
    return std::move(comparison.value);
  }

  Status append(std::string_view key, std::string_view value) override {
    return change([&]() -> Result<std::string> { return record(Change::append, key, value); });
  }

  Result<bool> check(const std::vector<std::string>& keys) override {
    bool all = false;
    const Status status = look([&] { all = table_.first_missing(keys) == nullptr; }, default_deadline());
    if (!status.ok()) return status;
    return all;
  }

  Status wait(const std::vector<std::string>& keys, Duration timeout) override {
    return wait_then(keys, timeout, [] {});
  }

  Result<bool> delete_key(std::string_view key) override {
    bool there = false;
    const Status status = change([&]() -> Result<std::string> {
      there = table_.find(key) != nullptr;
      return there ? record(Change::erase, key, "") : std::string();
    });
    if (!status.ok()) return status;
    return there;
  }

  Result<int64_t> num_keys() override {
    int64_t count = 0;
    const Status status = look([&] { count = static_cast<int64_t>(table_.all().size()); }, default_deadline());
    if (!status.ok()) return status;
    return count;
  }

  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys, Duration timeout) override {
    std::vector<std::string> values;
    const Status status = wait_then(keys, timeout, [&] {
      for (const std::string& key : keys) values.push_back(*table_.find(key));
    });
    if (!status.ok()) return status;
    return values;
  }

  Status multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) override {
    if (keys.size() != values.size()) return Store::multi_set(keys, values);  // which says what is wrong
    return change([&]() -> Result<std::string> {
      std::string records;
      for (size_t i = 0; i < keys.size(); ++i) records += record(Change::set, keys[i], values[i]);
      return records;
    });
  }

  void set_timeout(Duration timeout) override { timeout_.set(timeout); }
  Duration timeout() const override { return timeout_.get(); }

 private:
  base::Time default_deadline() const { return base::deadline_after(timeout_.get()); }
  Status damaged(const std::string& how) const {
    return Status(StatusCode::io_error, "the store's file " + path_ + " " + how);
  }

  // Runs `work` under the file's lock with the table up to date.
  template <typename Work>
  Status locked(int operation, base::Time deadline, const Work& work);
  template <typename Make>
  Status change(const Make& make);
  template <typename Look>
  Status look(const Look& look, base::Time deadline);
  template <typename Use>
  Status wait_then(const std::vector<std::string>& keys, Duration timeout, const Use& use);

  Status reopen();
  Result<uint64_t> file_size() const;
  Status catch_up();
  Status apply(std::string_view records);
  Status write_at_end(const std::string& bytes);

  const std::string path_;
  DefaultTimeout timeout_;
  std::mutex mutex_;  // held for short, never while waiting
  base::Fd file_;
  pid_t owner_ = 0;  // a forked child shares the parent's lock with the descriptor, so it opens its own
  uint64_t offset_ = 0;
  Table table_;
};

Status FileStore::reopen() {
  if (owner_ == ::getpid()) return {};
  base::Fd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return base::system_error("cannot open the store's file " + path_);
  file_ = std::move(file);
  owner_ = ::getpid();
  return {};
}

Result<uint64_t> FileStore::file_size() const {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) return base::system_error("cannot look at the store's file " + path_);
  if (found.st_nlink == 0) return damaged("was removed");
  const auto size = static_cast<uint64_t>(found.st_size);
  if (size < offset_) return damaged("was cut short");
  return size;
}

template <typename Work>
Status FileStore::locked(int operation, base::Time deadline, const Work& work) {
  for (net::Backoff backoff(kFirstPause, kLongestPause);;) {
    {
      const std::lock_guard lock(mutex_);
      if (Status status = reopen(); !status.ok()) return status;
      if (::flock(file_.get(), operation | LOCK_NB) == 0) {
        Status status = catch_up();
        if (status.ok()) status = work();
        ::flock(file_.get(), LOCK_UN);
        return status;
      }
      if (errno != EWOULDBLOCK && errno != EINTR) return base::system_error("cannot lock the store's file " + path_);
    }
    if (base::Clock::now() >= deadline) {
      return Status(StatusCode::timeout, "another process keeps the store's file " + path_ + " locked");
    }
    std::this_thread::sleep_until(std::min(deadline, base::deadline_after(backoff.next())));
  }
}

Status FileStore::open(base::Time deadline) {
  return locked(LOCK_EX, deadline, [&]() -> Status {
    if (offset_ > 0) return {};
    if (Status status = write_at_end(std::string(kFormat)); !status.ok()) return status;
    offset_ = kFormat.size();
    return {};
  });
}

// Reads what was appended since; with the lock held.
Status FileStore::catch_up() {
  Result<uint64_t> size = file_size();
  if (!size.ok()) return size.status();
  if (*size == offset_) return {};
  std::string fresh(*size - offset_, '\0');
  for (size_t filled = 0; filled < fresh.size();) {
    const ssize_t got =
        ::pread(file_.get(), fresh.data() + filled, fresh.size() - filled, static_cast<off_t>(offset_ + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::system_error("cannot read the store's file " + path_);
    if (got == 0) return damaged("was cut short");
    filled += static_cast<size_t>(got);
  }
  if (offset_ == 0) {
    if (!fresh.starts_with(kFormat)) return damaged("is not a store: it does not begin with \"regroup-store 1\"");
    offset_ = kFormat.size();
    fresh.erase(0, kFormat.size());
  }
  return apply(fresh);
}

Status FileStore::apply(std::string_view records) {
  while (!records.empty()) {
    const std::string where = "at byte " + std::to_string(offset_);
    WireReader header(records);
    const uint64_t size = header.u64(), hash = header.u64();
    if (!header.good() || size > records.size() - kRecordHeader) return damaged("ends within the record " + where);
    const std::string_view body = records.substr(kRecordHeader, size);
    if (base::hash_bytes(body) != hash) return damaged("is corrupt " + where);
    WireReader reader(body);
    const auto kind = static_cast<Change>(reader.u8());
    const std::string_view key = reader.bytes(size), value = reader.bytes(size);
    if (!reader.good() || reader.position() != size) return damaged("is corrupt " + where);
    if (kind == Change::set) {
      table_.set(key, value);
    } else if (kind == Change::append) {
      table_.append(key, value);
    } else if (kind == Change::erase) {
      table_.erase(key);
    } else {
      return damaged("holds an unknown change " + where);
    }
    offset_ += kRecordHeader + size;
    records.remove_prefix(kRecordHeader + size);
  }
  return {};
}

Status FileStore::write_at_end(const std::string& bytes) {
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t put =
        ::pwrite(file_.get(), bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset_ + written));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const Status status = base::system_error("cannot write the store's file " + path_);
      // Half a record would spoil the store for everybody.
      if (::ftruncate(file_.get(), static_cast<off_t>(offset_)) != 0)
        return damaged("could not be repaired: " + status.message());
      return status;
    }
    written += static_cast<size_t>(put);
  }
  return {};
}

template <typename Make>
Status FileStore::change(const Make& make) {
  return locked(LOCK_EX, default_deadline(), [&]() -> Status {
    Result<std::string> records = make();
    if (!records.ok()) return records.status();
    if (Status status = write_at_end(*records); !status.ok()) return status;
    return apply(*records);
  });
}

template <typename Look>
Status FileStore::look(const Look& look, base::Time deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (Status status = reopen(); !status.ok()) return status;
    Result<uint64_t> size = file_size();
    if (!size.ok()) return size.status();
    if (*size == offset_) {
      look();
      return {};
    }
  }
  return locked(LOCK_SH, deadline, [&]() -> Status {
    look();
    return {};
  });
}

template <typename Use>
Status FileStore::wait_then(const std::vector<std::string>& keys, Duration timeout, const Use& use) {
  const Duration limit = timeout_.resolve(timeout);
  const base::Time deadline = base::deadline_after(limit);
  for (net::Backoff backoff(kFirstPause, kLongestPause);;) {
    const std::string* missing = nullptr;
    const auto try_it = [&] {
      missing = table_.first_missing(keys);
      if (missing == nullptr) use();
    };
    if (Status status = look(try_it, deadline); !status.ok()) return status;
    if (missing == nullptr) return {};
    if (base::Clock::now() >= deadline) return not_set_in_time(*missing, limit);
    std::this_thread::sleep_until(std::min(deadline, base::deadline_after(backoff.next())));
  }
}

}  // namespace

Result<std::shared_ptr<Store>> open_file_store(const std::string& path, Store::Duration timeout) {
  auto store = std::make_shared<FileStore>(path);
  if (Status status = store->open(base::deadline_after(timeout)); !status.ok()) return status;
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace regroup::store
