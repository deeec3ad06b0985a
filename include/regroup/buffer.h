// SPDX-License-Identifier: Apache-2.0
// Views of memory that operations read and write, and the three types that say which: from(…), into(…), in_place(…).
// They own nothing: see Work for how long the memory is lent.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "regroup/types.h"

namespace regroup {

// The DataType of a C++ type. float16, bfloat16 and float8 have none in C++20: name the type, Buffer{data, type,
// count}.
template <typename T>
struct TypeOf;
template <>
struct TypeOf<bool> {
  static constexpr DataType value = DataType::boolean;
};
template <>
struct TypeOf<int8_t> {
  static constexpr DataType value = DataType::int8;
};
template <>
struct TypeOf<int16_t> {
  static constexpr DataType value = DataType::int16;
};
template <>
struct TypeOf<int32_t> {
  static constexpr DataType value = DataType::int32;
};
template <>
struct TypeOf<int64_t> {
  static constexpr DataType value = DataType::int64;
};
template <>
struct TypeOf<uint8_t> {
  static constexpr DataType value = DataType::uint8;
};
template <>
struct TypeOf<uint16_t> {
  static constexpr DataType value = DataType::uint16;
};
template <>
struct TypeOf<uint32_t> {
  static constexpr DataType value = DataType::uint32;
};
template <>
struct TypeOf<uint64_t> {
  static constexpr DataType value = DataType::uint64;
};
template <>
struct TypeOf<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct TypeOf<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr DataType value = DataType::complex64;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr DataType value = DataType::complex128;
};

template <typename T>
concept Element = requires { TypeOf<std::remove_cv_t<T>>::value; };

// Contiguous memory that holds elements: a span, a vector, an array.
template <typename R>
concept ElementRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>;

// `count` elements of `type` at `data`; `data` may be null where count is 0.
struct Buffer {
  void* data = nullptr;
  DataType type = DataType::uint8;
  uint64_t count = 0;

  Buffer() = default;
  Buffer(void* data_, DataType type_, uint64_t count_) : data(data_), type(type_), count(count_) {}
  template <ElementRange R>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
  Buffer(R&& range)  // NOLINT: implicit by intent
      : data(std::ranges::data(range)),
        type(TypeOf<std::ranges::range_value_t<R>>::value),
        count(std::ranges::size(range)) {}

  uint64_t bytes() const { return count * size_of(type); }
};

struct ConstBuffer {
  const void* data = nullptr;
  DataType type = DataType::uint8;
  uint64_t count = 0;

  ConstBuffer() = default;
  ConstBuffer(const void* data_, DataType type_, uint64_t count_) : data(data_), type(type_), count(count_) {}
  ConstBuffer(const Buffer& other) : data(other.data), type(other.type), count(other.count) {}  // NOLINT: implicit
  template <ElementRange R>
  ConstBuffer(const R& range)  // NOLINT: implicit by intent
      : data(std::ranges::data(range)),
        type(TypeOf<std::ranges::range_value_t<R>>::value),
        count(std::ranges::size(range)) {}

  uint64_t bytes() const { return count * size_of(type); }
};

// One buffer, or a list of buffers with an entry for each rank.
template <typename B>
class BufferArgument {
 public:
  BufferArgument() = default;
  explicit BufferArgument(const B& buffer) : one_(buffer), form_(Form::one) {}
  explicit BufferArgument(std::vector<B> list) : list_(std::move(list)), form_(Form::list) {}

  bool absent() const { return form_ == Form::none; }
  bool is_list() const { return form_ == Form::list; }
  const B& one() const { return one_; }
  const std::vector<B>& list() const { return list_; }

 private:
  enum class Form : uint8_t { none, one, list };
  B one_;
  std::vector<B> list_;
  Form form_ = Form::none;
};

struct From : BufferArgument<ConstBuffer> {
  using BufferArgument::BufferArgument;
};
struct Into : BufferArgument<Buffer> {
  using BufferArgument::BufferArgument;
};
struct InPlace : BufferArgument<Buffer> {
  using BufferArgument::BufferArgument;
};

namespace detail {
template <typename R, typename B>
concept ListOf =
    std::ranges::sized_range<R> && std::convertible_to<std::ranges::range_reference_t<R>, B> && !ElementRange<R>;

template <typename B, typename R>
std::vector<B> list_of(R&& range) {
  std::vector<B> list;
  list.reserve(std::ranges::size(range));
  for (auto&& entry : range) list.emplace_back(entry);
  return list;
}

template <typename R, typename B>
concept NoBuffer = !std::convertible_to<R, B> && !ListOf<std::remove_reference_t<R>&, B>;

template <typename>
inline constexpr bool kNever = false;  // until it is asked for
}  // namespace detail

// What an operation reads: a buffer, or a list of buffers (vector<vector<float>>, vector<ConstBuffer>, …).
inline From from(const ConstBuffer& buffer) { return From(buffer); }
template <detail::ListOf<ConstBuffer> R>
From from(const R& list) {
  return From(detail::list_of<ConstBuffer>(list));
}
template <Element T>
From from(const T* data, uint64_t count) {
  return From(ConstBuffer(data, TypeOf<T>::value, count));
}
template <detail::NoBuffer<ConstBuffer> R>
From from(const R&) {
  static_assert(
      detail::kNever<R>,
      "from() takes a contiguous range (vector, span, array) whose elements have a DataType, a ConstBuffer, a "
      "list of those, or a pointer and a count. vector<bool>, char, std::byte and long long have no DataType: "
      "name one, ConstBuffer{data, type, count}.");
  return {};
}

// What an operation writes.
inline Into into(const Buffer& buffer) { return Into(buffer); }
template <typename R>
  requires detail::ListOf<R&, Buffer>
Into into(R&& list) {
  return Into(detail::list_of<Buffer>(list));
}
template <Element T>
Into into(T* data, uint64_t count) {
  return Into(Buffer(data, TypeOf<T>::value, count));
}
template <detail::NoBuffer<Buffer> R>
Into into(R&&) {
  static_assert(
      detail::kNever<R>,
      "into() takes a contiguous range (vector, span, array) of writable elements that have a DataType, a "
      "Buffer, a list of those, or a pointer and a count. vector<bool>, char, std::byte and long long have no "
      "DataType: name one, Buffer{data, type, count}.");
  return {};
}

// What an operation reads and then overwrites.
inline InPlace in_place(const Buffer& buffer) { return InPlace(buffer); }
template <typename R>
  requires detail::ListOf<R&, Buffer>
InPlace in_place(R&& list) {
  return InPlace(detail::list_of<Buffer>(list));
}
template <Element T>
InPlace in_place(T* data, uint64_t count) {
  return InPlace(Buffer(data, TypeOf<T>::value, count));
}
template <detail::NoBuffer<Buffer> R>
InPlace in_place(R&&) {
  static_assert(
      detail::kNever<R>,
      "in_place() takes a contiguous range (vector, span, array) of writable elements that have a DataType, a "
      "Buffer, a list of those, or a pointer and a count. vector<bool>, char, std::byte and long long have no "
      "DataType: name one, Buffer{data, type, count}.");
  return {};
}

}  // namespace regroup
