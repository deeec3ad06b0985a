// SPDX-License-Identifier: Apache-2.0
// The 8-bit and 16-bit floating-point formats as codecs for float_operators-inl.h: decoded to float exactly, encoded
// with one rounding to nearest, ties to even, by integer arithmetic, the same on every machine.
#if defined(REGROUP_REDUCE_CODEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REGROUP_REDUCE_CODEC_INL_H_
#undef REGROUP_REDUCE_CODEC_INL_H_
#else
#define REGROUP_REDUCE_CODEC_INL_H_
#endif

#include <limits>

#include "reduce/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace regroup::reduction::HWY_NAMESPACE {

// To round to even by dropping the last kDropped bits: add this, and the last bit that stays. A mantissa that overflows
// carries into the exponent, which is what it should do.
template <int kDropped>
constexpr uint32_t kAlmostHalf = (1u << (kDropped - 1)) - 1;

// bfloat16 is the upper half of a float.
struct Bfloat16Codec {
  using Element = uint16_t;
  using Lane = float;

  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const uint16_t* from) {
    const auto elements = hn::LoadU(hn::Rebind<uint16_t, D>(), from);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<uint32_t, D>(), elements)));
  }
  template <class D>
  static HWY_INLINE void encode(D, hn::VFromD<D> v, uint16_t* to) {
    const hn::Rebind<uint32_t, D> d32;
    const hn::Rebind<int32_t, D> di32;
    const hn::Rebind<uint16_t, D> d16;
    // The canonical NaN ends in zeros and is not changed by the rounding.
    const auto whole = hn::BitCast(d32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(whole), hn::Set(d32, 1u));
    const auto bits = hn::ShiftRight<16>(hn::Add(hn::Add(whole, hn::Set(d32, kAlmostHalf<16>)), odd));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, bits)), d16, to);
  }
};

// A format of 1 sign, kExponentBits and kMantissaBits with the bias and the subnormals of IEEE 754. kInfinity says
// whether it has infinities; if not (float8_e4m3fn), all ones is the only NaN, the exponent of all ones is an ordinary
// one, and what would round beyond the largest number becomes NaN, infinities included: the rule of PyTorch and of the
// ml_dtypes.
template <class T, int kExponentBits, int kMantissaBits, bool kInfinity>
struct SmallFloatCodec {
  using Element = T;
  using Lane = float;
  static_assert(1 + kExponentBits + kMantissaBits == 8 * sizeof(T));

  static constexpr int kDropped = 23 - kMantissaBits;
  static constexpr uint32_t kBias = (1u << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr uint32_t kMantissa = (1u << kMantissaBits) - 1;
  static constexpr uint32_t kAllOnes = kSign - 1;
  static constexpr uint32_t kInfinityBits = kAllOnes - kMantissa;
  static constexpr uint32_t kNan = kInfinity ? kInfinityBits + (1u << (kMantissaBits - 1)) : kAllOnes;
  static constexpr uint32_t kOverflow = kInfinity ? kInfinityBits : kNan;
  // As bits of float: the smallest normal number, the unit of the subnormals, and the number whose last bit is that
  // unit.
  static constexpr uint32_t kSmallestNormal = (128 - kBias) << 23;
  static constexpr uint32_t kUnit = (128 - kBias - kMantissaBits) << 23;
  static constexpr uint32_t kUnitShifter = kUnit + (23u << 23);

  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const T* from) {
    const hn::Rebind<uint32_t, D> d32;
    const hn::Rebind<int32_t, D> di32;
    const auto element = hn::PromoteTo(d32, hn::LoadU(hn::Rebind<T, D>(), from));
    const auto magnitude = hn::And(element, hn::Set(d32, kAllOnes));
    const auto sign = hn::ShiftLeft<32 - 8 * sizeof(T)>(hn::Xor(element, magnitude));
    const auto normal = hn::Add(hn::ShiftLeft<kDropped>(magnitude), hn::Set(d32, (127 - kBias) << 23));
    const auto unit = hn::BitCast(d, hn::Set(d32, kUnit));
    const auto subnormal = hn::BitCast(d32, hn::Mul(hn::ConvertTo(d, hn::BitCast(di32, magnitude)), unit));
    auto bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, kMantissa)), normal, subnormal);
    // Infinities and NaNs: the exponent of all ones there and here.
    const auto special = hn::Gt(magnitude, hn::Set(d32, kInfinity ? kInfinityBits - 1 : kNan - 1));
    bits = hn::IfThenElse(special, hn::Or(bits, hn::Set(d32, 0x7f800000u)), bits);
    return hn::BitCast(d, hn::Or(bits, sign));
  }

  template <class D>
  static HWY_INLINE void encode(D d, hn::VFromD<D> v, T* to) {
    const hn::Rebind<uint32_t, D> d32;
    const hn::Rebind<int32_t, D> di32;
    const hn::Rebind<T, D> elements;
    const auto whole = hn::BitCast(d32, v);
    const auto magnitude = hn::And(whole, hn::Set(d32, 0x7fffffffu));
    const auto sign = hn::ShiftRight<32 - 8 * sizeof(T)>(hn::Xor(whole, magnitude));
    const auto normal = hn::Min(rounded_and_rebased(d32, magnitude), hn::Set(d32, kOverflow));
    // The addition rounds to whole units and leaves their number in the last bits.
    const auto shifter = hn::Set(d32, kUnitShifter);
    const auto units = hn::BitCast(d32, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, shifter)));
    const auto subnormal = hn::Sub(units, shifter);
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, kSmallestNormal)), subnormal, normal);
    if constexpr (kNan != kOverflow) {
      bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7f800000u)), hn::Set(d32, kNan), bits);
    }
    hn::StoreU(hn::DemoteTo(elements, hn::BitCast(di32, hn::Or(bits, sign))), elements, to);
  }

 private:
  template <class D>
  static HWY_INLINE hn::VFromD<D> rounded_and_rebased(D d32, hn::VFromD<D> magnitude) {
    const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(d32, 1u));
    constexpr uint32_t kOffset = kAlmostHalf<kDropped> - ((127 - kBias) << 23);
    return hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, hn::Set(d32, kOffset)), odd));
  }
};

using Float8E4m3fnByBits = SmallFloatCodec<uint8_t, 4, 3, false>;
using Float8E5m2ByBits = SmallFloatCodec<uint8_t, 5, 2, true>;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
// The processor converts float16: exactly, and rounding to nearest even. Highway's emulation elsewhere does neither.
template <class D>
HWY_INLINE hn::VFromD<D> decode_float16(D d, hn::VFromD<hn::Rebind<uint16_t, D>> elements) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), elements));
}

struct Float16Codec {
  using Element = uint16_t;
  using Lane = float;

  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const uint16_t* from) {
    return decode_float16(d, hn::LoadU(hn::Rebind<uint16_t, D>(), from));
  }
  template <class D>
  static HWY_INLINE void encode(D, hn::VFromD<D> v, uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<uint16_t, D> du16;
    hn::StoreU(hn::BitCast(du16, hn::DemoteTo(d16, v)), du16, to);
  }
};

// float8_e5m2 is the upper half of a float16.
struct Float8E5m2Codec : Float8E5m2ByBits {
  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const uint8_t* from) {
    const auto element = hn::PromoteTo(hn::Rebind<uint16_t, D>(), hn::LoadU(hn::Rebind<uint8_t, D>(), from));
    return decode_float16(d, hn::ShiftLeft<8>(element));
  }
};

// float8_e4m3fn, read as a float16 whose exponent has a larger bias, is 2^-8 of what it means; its NaN looks like 480.
struct Float8E4m3fnCodec : Float8E4m3fnByBits {
  template <class D>
  static HWY_INLINE hn::VFromD<D> decode(D d, const uint8_t* from) {
    const hn::Rebind<uint16_t, D> d16;
    const hn::Rebind<int16_t, D> di16;
    const hn::Rebind<int8_t, D> di8;
    // The sign doubles as it is shifted: into its place and the one below, which is cleared.
    const auto element = hn::PromoteTo(di16, hn::BitCast(di8, hn::LoadU(hn::Rebind<uint8_t, D>(), from)));
    const auto shifted = hn::And(hn::BitCast(d16, hn::ShiftLeft<7>(element)), hn::Set(d16, 0xbfff));
    const auto v = hn::Mul(decode_float16(d, shifted), hn::Set(d, 256.0f));
    const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    return hn::IfThenElse(hn::Eq(hn::Abs(v), hn::Set(d, 480.0f)), nan, v);
  }
};
#else
using Float16Codec = SmallFloatCodec<uint16_t, 5, 10, true>;
using Float8E4m3fnCodec = Float8E4m3fnByBits;
using Float8E5m2Codec = Float8E5m2ByBits;
#endif

}  // namespace regroup::reduction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // REGROUP_REDUCE_CODEC_INL_H_
