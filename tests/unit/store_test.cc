// SPDX-License-Identifier: Apache-2.0
// What every store means by its calls, over all of them; then what is particular to the file store and to URLs.
#include "regroup/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/clock.h"

namespace regroup {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

// A path in a fresh directory, which goes with the object.
class TemporaryFile {
 public:
  TemporaryFile() {
    char pattern[] = "/tmp/regroup-store-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  ~TemporaryFile() {
    ::unlink(path().c_str());
    ::rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/store"; }
  std::string url() const { return "file://" + path(); }

 private:
  std::string directory_;
};

// Two handles on one store: for tcp two connections, for files two openings.
struct Pair {
  std::shared_ptr<Store> a, b;
  std::shared_ptr<StoreServer> server;
  std::unique_ptr<TemporaryFile> file;
};

Pair make(const std::string& kind) {
  Pair made;
  if (kind == "hash") {
    made.a = made.b = make_hash_store();
  } else if (kind == "file") {
    made.file = std::make_unique<TemporaryFile>();
    made.a = connect_store(made.file->url()).value_or_throw();
    made.b = connect_store(made.file->url()).value_or_throw();
  } else if (kind == "tcp") {
    made.server = serve_store("tcp://127.0.0.1:0").value_or_throw();
    made.a = connect_store("tcp://" + made.server->address(), 5s).value_or_throw();
    made.b = connect_store("tcp://" + made.server->address(), 5s).value_or_throw();
  } else {
    made = make(kind.substr(7));  // "prefix_…"
    made.a = make_prefix_store("p", made.a);
    made.b = make_prefix_store("p", made.b);
  }
  return made;
}

class AnyStore : public testing::TestWithParam<std::string> {
 protected:
  Pair pair_ = make(GetParam());
  Store& a_ = *pair_.a;
  Store& b_ = *pair_.b;
};
INSTANTIATE_TEST_SUITE_P(Of, AnyStore,
                         testing::Values("hash", "file", "tcp", "prefix_hash", "prefix_file", "prefix_tcp"),
                         [](const auto& kind) { return kind.param; });

TEST_P(AnyStore, SetAndGet) {
  const std::string binary("a\0b\xff", 4);
  check(a_.set("key", binary));
  EXPECT_EQ(b_.get("key").value_or_throw(), binary);
  check(b_.set("key", ""));
  EXPECT_EQ(a_.get("key").value_or_throw(), "");
  check(a_.set("", "of the empty key"));
  EXPECT_EQ(b_.get("").value_or_throw(), "of the empty key");
  const std::string large(3 << 20, 'l');
  check(a_.set("large", large));
  EXPECT_EQ(b_.get("large").value_or_throw(), large);
}

TEST_P(AnyStore, GetWaitsForTheKey) {
  std::thread setter([&] {
    std::this_thread::sleep_for(10ms);
    check(b_.set("late", "value"));
  });
  EXPECT_EQ(a_.get("late", 10s).value_or_throw(), "value");
  setter.join();
}

TEST_P(AnyStore, TimeoutsNameTheKey) {
  check(a_.set("there", ""));
  const base::Time start = base::Clock::now();
  const Status statuses[] = {a_.get("absent", 30ms).status(), a_.wait({"there", "absent"}, 30ms),
                             a_.multi_get({"there", "absent"}, 30ms).status()};
  const auto took = base::Clock::now() - start;
  EXPECT_GE(took, 90ms);
  EXPECT_LT(took, 5s);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::timeout);
    EXPECT_NE(status.message().find("absent"), std::string::npos) << status.message();
  }
  a_.set_timeout(20ms);
  EXPECT_EQ(a_.timeout(), 20ms);
  EXPECT_EQ(a_.get("absent").status().code(), StatusCode::timeout);
  EXPECT_EQ(a_.get("absent", 0ns).status().code(), StatusCode::timeout);
  EXPECT_EQ(a_.get("there").value_or_throw(), "") << "usable after a time-out";
}

TEST_P(AnyStore, Add) {
  EXPECT_EQ(a_.add("count", 5).value_or_throw(), 5);
  EXPECT_EQ(b_.add("count", -7).value_or_throw(), -2);
  EXPECT_EQ(a_.add("count", 0).value_or_throw(), -2);
  EXPECT_EQ(a_.get("count").value_or_throw(), "-2");
  check(a_.set("count", "40"));
  EXPECT_EQ(b_.add("count", 2).value_or_throw(), 42);
}

TEST_P(AnyStore, CompareSet) {
  EXPECT_EQ(a_.compare_set("key", "expected", "desired").value_or_throw(), "expected");
  EXPECT_FALSE(a_.check({"key"}).value_or_throw());
  EXPECT_EQ(a_.compare_set("key", "", "first").value_or_throw(), "first");
  EXPECT_EQ(b_.compare_set("key", "other", "second").value_or_throw(), "first");
  EXPECT_EQ(b_.compare_set("key", "", "second").value_or_throw(), "first");
  EXPECT_EQ(b_.compare_set("key", "first", "second").value_or_throw(), "second");
  EXPECT_EQ(a_.get("key").value_or_throw(), "second");
}

TEST_P(AnyStore, Append) {
  check(a_.append("log", "one"));
  check(b_.append("log", ",two"));
  EXPECT_EQ(a_.get("log").value_or_throw(), "one,two");
}

TEST_P(AnyStore, CheckWaitDelete) {
  EXPECT_TRUE(a_.check({}).value_or_throw());
  check(a_.wait({}, 0ns));
  check(a_.set("x", "1"));
  EXPECT_TRUE(b_.check({"x"}).value_or_throw());
  EXPECT_FALSE(b_.check({"x", "y"}).value_or_throw());
  check(b_.set("y", "2"));
  check(a_.wait({"x", "y", "x"}, 5s));
  EXPECT_TRUE(a_.delete_key("x").value_or_throw());
  EXPECT_FALSE(b_.delete_key("x").value_or_throw());
  EXPECT_FALSE(b_.check({"x"}).value_or_throw());
}

TEST_P(AnyStore, CountsKeys) {
  const int64_t before = a_.num_keys().value_or_throw();
  check(a_.multi_set({"x", "y", "x"}, {"1", "2", "3"}));
  EXPECT_EQ(b_.num_keys().value_or_throw(), before + 2);
}

TEST_P(AnyStore, MultiGetAndSet) {
  check(a_.multi_set({"x", "y"}, {"1", ""}));
  EXPECT_EQ(b_.multi_get({"y", "x", "y"}).value_or_throw(), (Keys{"", "1", ""}));
  EXPECT_TRUE(b_.multi_get({}).value_or_throw().empty());
  EXPECT_EQ(a_.multi_set({"x"}, {}).code(), StatusCode::invalid_argument);
}

TEST_P(AnyStore, EightThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Store& mine = i % 2 == 0 ? a_ : b_;
      for (int round = 0; round < 10; ++round) {
        check(mine.add("sum", 1).status());
        check(mine.append("log", "."));
        const std::string key = "of " + std::to_string(round) + " ";
        check(mine.set(key + std::to_string(i), std::to_string(i)));
        // A waiting get must not keep the others of the same handle from setting what it waits for.
        const std::string next = std::to_string((i + 1) % 8);
        EXPECT_EQ(mine.get(key + next, 10s).value_or_throw(), next);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a_.add("sum", 0).value_or_throw(), 80);
  EXPECT_EQ(a_.get("log").value_or_throw(), std::string(80, '.'));
}

TEST(PrefixStore, SeparatesAndKeepsItsOwnTimeout) {
  const std::shared_ptr<Store> all = make_hash_store();
  const std::shared_ptr<Store> one = make_prefix_store("one", all), two = make_prefix_store("two", all);
  check(one->set("key", "1"));
  EXPECT_FALSE(two->check({"key"}).value_or_throw());
  EXPECT_EQ(all->get("one/key").value_or_throw(), "1");
  one->set_timeout(1s);
  EXPECT_EQ(all->timeout(), 5min);
}

TEST(HashStore, AddNeedsANumber) {
  const std::shared_ptr<Store> store = make_hash_store();
  for (const char* bad : {"", "x", "1x", "99999999999999999999"}) {
    check(store->set("key", bad));
    EXPECT_EQ(store->add("key", 1).status().code(), StatusCode::invalid_argument) << bad;
  }
  check(store->set("key", std::to_string(INT64_MAX)));
  EXPECT_EQ(store->add("key", 1).status().code(), StatusCode::invalid_argument);
}

TEST(FileStore, EightProcessesRaceToCreateAndAdd) {
  const TemporaryFile file;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      Result<std::shared_ptr<Store>> store = connect_store(file.url(), 10s);
      bool good = store.ok();
      for (int round = 0; good && round < 20; ++round) good = store.value()->add("sum", 1).ok();
      good = good && store.value()->set("done " + std::to_string(i), "").ok();
      good = good && store.value()->get("done " + std::to_string((i + 1) % 8), 20s).ok();
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(connect_store(file.url()).value_or_throw()->add("sum", 0).value_or_throw(), 160);
}

TEST(FileStore, AForkedChildMayGoOnWithIt) {
  const TemporaryFile file;
  const std::shared_ptr<Store> store = connect_store(file.url()).value_or_throw();
  check(store->set("parent", "1"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(store->get("parent").ok() && store->set("child", "2").ok() ? 0 : 1);
  }
  EXPECT_EQ(store->get("child", 10s).value_or_throw(), "2");
  ::waitpid(child, nullptr, 0);
}

TEST(FileStore, ADamagedFileIsAnError) {
  const TemporaryFile file;
  const std::shared_ptr<Store> store = connect_store(file.url()).value_or_throw();
  check(store->set("key", "value"));
  std::ifstream in(file.path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto with_content = [&](const std::string& content) {
    const TemporaryFile other;
    std::ofstream(other.path(), std::ios::binary) << content;
    return connect_store(other.url()).status();
  };
  EXPECT_TRUE(with_content(whole).ok());
  EXPECT_TRUE(with_content("").ok());
  for (size_t length = 1; length < whole.size(); ++length) {
    const bool no_record = length == 16;  // the format's line alone is an empty store
    EXPECT_EQ(with_content(whole.substr(0, length)).code(), no_record ? StatusCode::ok : StatusCode::io_error)
        << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    EXPECT_EQ(with_content(bad).code(), StatusCode::io_error) << at;
  }
  // Seen by a process that has it open.
  std::ofstream(file.path(), std::ios::binary | std::ios::app) << "torn";
  EXPECT_EQ(store->get("key").status().code(), StatusCode::io_error);
  EXPECT_EQ(store->set("key", "x").code(), StatusCode::io_error);
}

TEST(FileStore, RemovedOrLocked) {
  const TemporaryFile file;
  const std::shared_ptr<Store> store = connect_store(file.url()).value_or_throw();
  const int other = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  store->set_timeout(30ms);
  EXPECT_EQ(store->set("key", "value").code(), StatusCode::timeout);
  EXPECT_EQ(connect_store(file.url(), 20ms).status().code(), StatusCode::timeout);
  ::close(other);
  EXPECT_TRUE(store->set("key", "value").ok());
  ::unlink(file.path().c_str());
  EXPECT_EQ(store->get("key").status().code(), StatusCode::io_error);
}

TEST(StoreUrl, WhatIsTaken) {
  for (const char* bad :
       {"", "tcp", "tcp://", "tcp://host", "tcp://host:", "tcp://:1", "tcp://host:0", "tcp://host:99999",
        "tcp://::1:80", "http://host:80", "file://relative", "file://", "file:///", "/path"}) {
    const Status status = connect_store(bad, 10ms).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << bad;
    EXPECT_NE(status.message().find("file:///path"), std::string::npos) << status.message();
  }
  EXPECT_EQ(connect_store("file:///no/such/directory/store", 10ms).status().code(), StatusCode::io_error);
  for (const char* bad : {"", "tcp://host", "file:///path", "tcp://127.0.0.1:0/prefix"}) {
    EXPECT_EQ(serve_store(bad).status().code(), StatusCode::invalid_argument) << bad;
  }
}

}  // namespace
}  // namespace regroup
