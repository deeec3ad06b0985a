// SPDX-License-Identifier: Apache-2.0
// Kernels of complex64 and complex128. Sum, average and premultiplied_sum (the factor is real) are those of twice as
// many real numbers.
#include <limits>

#include "reduce/kernels.h"

namespace regroup::reduction {
namespace {

template <DataType real, ReduceOp::Kind op>
void fold_parts(void* to, const void* const* sources, uint32_t source_count, uint64_t count,
                const FoldOptions& options) {
  find_float_fold(real, op)(to, sources, source_count, 2 * count, options);
}

template <class T>
T with_canonical_nan(T value) {
  return value != value ? std::numeric_limits<T>::quiet_NaN() : value;
}

// (a + bi)(c + di) = (ac − bd) + (ad + bc)i as it stands: each operation rounded by itself, no rescue of infinities.
template <class T>
void fold_product(void* to, const void* const* sources, uint32_t source_count, uint64_t count, const FoldOptions&) {
  for (uint64_t i = 0; i < count; ++i) {
    const T* first = static_cast<const T*>(sources[0]) + 2 * i;
    T real = first[0];
    T imaginary = first[1];
    for (uint32_t s = 1; s < source_count; ++s) {
      const T* next = static_cast<const T*>(sources[s]) + 2 * i;
      const T real_before = real;
      real = real_before * next[0] - imaginary * next[1];
      imaginary = real_before * next[1] + imaginary * next[0];
    }
    T* result = static_cast<T*>(to) + 2 * i;
    result[0] = with_canonical_nan(real);
    result[1] = with_canonical_nan(imaginary);
  }
}

template <DataType real, class T>
Fold find_complex(ReduceOp::Kind op) {
  switch (op) {
    case ReduceOp::Kind::sum:
      return &fold_parts<real, ReduceOp::Kind::sum>;
    case ReduceOp::Kind::average:
      return &fold_parts<real, ReduceOp::Kind::average>;
    case ReduceOp::Kind::premultiplied_sum:
      return &fold_parts<real, ReduceOp::Kind::premultiplied_sum>;
    case ReduceOp::Kind::product:
      return &fold_product<T>;
    default:
      return nullptr;
  }
}

}  // namespace

Fold find_complex_fold(DataType type, ReduceOp::Kind op) {
  return type == DataType::complex64 ? find_complex<DataType::float32, float>(op)
                                     : find_complex<DataType::float64, double>(op);
}

}  // namespace regroup::reduction
