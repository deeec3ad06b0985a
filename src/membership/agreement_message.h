// SPDX-License-Identifier: Apache-2.0
// Messages of an agreement as bytes: little-endian words; sets as words of bits. What comes from the network is checked
// as it is read.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "membership/agreement.h"

namespace regroup::membership {

// Groups with more members cannot agree: a message would not fit a control frame.
inline constexpr Rank kMostAgreeing = 4096;

std::vector<std::byte> encode(const AgreementMessage& message);
// Nothing where the bytes are no message among `size` members.
std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, Rank size);

}  // namespace regroup::membership
