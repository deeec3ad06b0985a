// SPDX-License-Identifier: Apache-2.0
// The wire format of torch's TCPStore: fixed-width native little-endian integers, and strings as a u64 length and
// bytes. Commands are one opcode byte and their arguments. The file store's records are written with the same two
// classes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace regroup::store {

static_assert(std::endian::native == std::endian::little);

enum class Opcode : uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  get_num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_length = 16,
  list_keys = 17,
  barrier = 18,
};

inline constexpr uint32_t kValidateMagic = 0x3C85F7CE;

// What a server takes from a client; beyond, it closes the connection.
inline constexpr uint64_t kMaxKeys = 128 * 1024;    // in one command
inline constexpr uint64_t kMaxKeyBytes = 8 * 1024;  // the leading "/" included
inline constexpr uint64_t kMaxValueBytes = 8 * 1024 * 1024;

inline constexpr uint8_t kReady = 0, kNotReady = 1;            // replies to check
inline constexpr uint8_t kStopWaiting = 0, kWaitCanceled = 1;  // replies to wait, cancel_wait

class WireWriter {
 public:
  WireWriter& u8(uint8_t value) { return raw(&value, sizeof value); }
  WireWriter& u32(uint32_t value) { return raw(&value, sizeof value); }
  WireWriter& u64(uint64_t value) { return raw(&value, sizeof value); }
  WireWriter& i64(int64_t value) { return raw(&value, sizeof value); }
  WireWriter& op(Opcode opcode) { return u8(static_cast<uint8_t>(opcode)); }
  WireWriter& bytes(std::string_view value) { return u64(value.size()).raw(value.data(), value.size()); }

  const std::string& data() const { return data_; }
  std::string take() { return std::move(data_); }

 private:
  WireWriter& raw(const void* from, size_t size) {
    data_.append(static_cast<const char*>(from), size);
    return *this;
  }

  std::string data_;
};

// Reads what has arrived so far. After a failed read all further ones give zeros and empty strings; ask once at the
// end.
class WireReader {
 public:
  enum class State : uint8_t { good, incomplete, beyond_limit };

  explicit WireReader(std::string_view data) : data_(data) {}

  uint8_t u8() { return integer<uint8_t>(); }
  uint32_t u32() { return integer<uint32_t>(); }
  uint64_t u64() { return integer<uint64_t>(); }
  int64_t i64() { return integer<int64_t>(); }

  // A count that must not exceed `limit`.
  uint64_t count(uint64_t limit) {
    const uint64_t value = u64();
    if (value > limit) state_ = State::beyond_limit;
    return state_ == State::good ? value : 0;
  }

  // A string of at most `limit` bytes; a view into the data.
  std::string_view bytes(uint64_t limit) {
    const uint64_t size = count(limit);
    return take(size);
  }

  State state() const { return state_; }
  bool good() const { return state_ == State::good; }
  size_t position() const { return position_; }
  // Where incomplete: how many bytes there must be at least before it is worth reading again.
  size_t needed() const { return needed_; }

 private:
  template <typename T>
  T integer() {
    T value = 0;
    const std::string_view from = take(sizeof value);
    if (good()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  std::string_view take(uint64_t size) {
    if (!good()) return {};
    if (data_.size() - position_ < size) {
      state_ = State::incomplete;
      needed_ = position_ + size;
      return {};
    }
    const std::string_view taken = data_.substr(position_, size);
    position_ += size;
    return taken;
  }

  std::string_view data_;
  size_t position_ = 0;
  size_t needed_ = 0;
  State state_ = State::good;
};

}  // namespace regroup::store
