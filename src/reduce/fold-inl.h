// SPDX-License-Identifier: Apache-2.0
// The loop over memory that all vector kernels share, compiled once for each instruction set. It knows neither element
// types nor operators; a kernel K supplies them:
//
//   K::Element, K::Lane          what an element is in memory, and what it is while it is accumulated
//   K(options)
//   load(d, from)                a vector of elements, as lanes
//   combine(d, left, right)
//   store(d, v, to)              what the operator still has to do, rounding, and the elements back to memory
//
// Every lane is computed by the same operations, whatever the length of the vector that it lies in, so an element's
// value depends neither on its place nor on the machine.

// Re-included for each instruction set; the toggle is Highway's replacement of an include guard.
#if defined(REGROUP_REDUCE_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REGROUP_REDUCE_FOLD_INL_H_
#undef REGROUP_REDUCE_FOLD_INL_H_
#else
#define REGROUP_REDUCE_FOLD_INL_H_
#endif

#include <hwy/highway.h>

#include "reduce/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Job {
  void* to;
  const void* const* sources;
  uint32_t source_count;
  uint64_t count;
};

// Where elements are converted to lanes, that is the work, and more loops would only be more code.
template <class K>
constexpr bool kConverts = sizeof(typename K::Element) != sizeof(typename K::Lane);

template <class K, class D>
HWY_INLINE hn::VFromD<D> load_at(const K& kernel, D d, const void* source, uint64_t i) {
  return kernel.load(d, static_cast<const typename K::Element*>(source) + i);
}

template <class K, class D>
HWY_INLINE void store_at(const K& kernel, D d, hn::VFromD<D> v, void* to, uint64_t i) {
  kernel.store(d, v, static_cast<typename K::Element*>(to) + i);
}

template <class K, class D>
HWY_INLINE hn::VFromD<D> fold_at(const K& kernel, D d, const Job& job, uint64_t i) {
  auto folded = load_at(kernel, d, job.sources[0], i);
  for (uint32_t s = 1; s < job.source_count; ++s) {
    folded = kernel.combine(d, folded, load_at(kernel, d, job.sources[s], i));
  }
  return folded;
}

// The functions from here to fold_long fold whole vectors while more than one is left.

// Two to four sources: their addresses stay in registers.
template <int kSources, class K, class D>
HWY_INLINE void fold_few(const K& kernel, D d, const Job& job) {
  const void* const source0 = job.sources[0];
  const void* const source1 = job.sources[1];
  const void* const source2 = kSources > 2 ? job.sources[2] : nullptr;
  const void* const source3 = kSources > 3 ? job.sources[3] : nullptr;
  const uint64_t lanes = hn::Lanes(d);
  for (uint64_t i = 0; i + lanes < job.count; i += lanes) {
    auto folded = kernel.combine(d, load_at(kernel, d, source0, i), load_at(kernel, d, source1, i));
    if constexpr (kSources > 2) folded = kernel.combine(d, folded, load_at(kernel, d, source2, i));
    if constexpr (kSources > 3) folded = kernel.combine(d, folded, load_at(kernel, d, source3, i));
    store_at(kernel, d, folded, job.to, i);
  }
}

// Any number of sources: four vectors at a time, so that four chains of operations run side by side. Returns the
// element where it stopped.
template <class K, class D>
HWY_INLINE uint64_t fold_many(const K& kernel, D d, const Job& job) {
  const uint64_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + 4 * lanes < job.count; i += 4 * lanes) {
    auto folded0 = load_at(kernel, d, job.sources[0], i);
    auto folded1 = load_at(kernel, d, job.sources[0], i + lanes);
    auto folded2 = load_at(kernel, d, job.sources[0], i + 2 * lanes);
    auto folded3 = load_at(kernel, d, job.sources[0], i + 3 * lanes);
    for (uint32_t s = 1; s < job.source_count; ++s) {
      const void* const source = job.sources[s];
      folded0 = kernel.combine(d, folded0, load_at(kernel, d, source, i));
      folded1 = kernel.combine(d, folded1, load_at(kernel, d, source, i + lanes));
      folded2 = kernel.combine(d, folded2, load_at(kernel, d, source, i + 2 * lanes));
      folded3 = kernel.combine(d, folded3, load_at(kernel, d, source, i + 3 * lanes));
    }
    store_at(kernel, d, folded0, job.to, i);
    store_at(kernel, d, folded1, job.to, i + lanes);
    store_at(kernel, d, folded2, job.to, i + 2 * lanes);
    store_at(kernel, d, folded3, job.to, i + 3 * lanes);
  }
  return i;
}

template <class K, class D>
HWY_INLINE void fold_one_by_one(const K& kernel, D d, const Job& job, uint64_t i) {
  const uint64_t lanes = hn::Lanes(d);
  for (; i + lanes < job.count; i += lanes) store_at(kernel, d, fold_at(kernel, d, job, i), job.to, i);
}

// At least one vector of elements. The last vector overlaps the one before it instead of leaving a tail. It is folded
// first, as `to` may be a source whose elements the loop replaces.
template <class K, class D>
HWY_INLINE void fold_long(const K& kernel, D d, const Job& job) {
  const uint64_t begin_of_last = job.count - hn::Lanes(d);
  const auto last = fold_at(kernel, d, job, begin_of_last);
  if (job.source_count == 2) {
    fold_few<2>(kernel, d, job);
  } else if constexpr (kConverts<K>) {
    fold_one_by_one(kernel, d, job, 0);
  } else if (job.source_count == 3) {
    fold_few<3>(kernel, d, job);
  } else if (job.source_count == 4) {
    fold_few<4>(kernel, d, job);
  } else {
    fold_one_by_one(kernel, d, job, fold_many(kernel, d, job));
  }
  store_at(kernel, d, last, job.to, begin_of_last);
}

// Less than a full vector: 16 bytes of lanes at a time, or single lanes.
template <class K>
HWY_INLINE void fold_short(const K& kernel, const Job& job) {
  using Lane = typename K::Lane;
  const hn::CappedTag<Lane, 16 / sizeof(Lane)> few;
  const hn::CappedTag<Lane, 1> one;
  if (hn::MaxLanes(few) < hn::MaxLanes(hn::ScalableTag<Lane>()) && job.count >= hn::Lanes(few)) {
    const uint64_t begin_of_last = job.count - hn::Lanes(few);
    const auto last = fold_at(kernel, few, job, begin_of_last);
    fold_one_by_one(kernel, few, job, 0);
    store_at(kernel, few, last, job.to, begin_of_last);
    return;
  }
  for (uint64_t i = 0; i < job.count; ++i) store_at(kernel, one, fold_at(kernel, one, job, i), job.to, i);
}

template <class K>
void fold(void* to, const void* const* sources, uint32_t source_count, uint64_t count, const FoldOptions& options) {
  const K kernel(options);
  const Job job{to, sources, source_count, count};
  const hn::ScalableTag<typename K::Lane> d;
  if (count < hn::Lanes(d)) {
    fold_short(kernel, job);
  } else {
    fold_long(kernel, d, job);
  }
}

}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // REGROUP_REDUCE_FOLD_INL_H_
