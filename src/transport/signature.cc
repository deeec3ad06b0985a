// SPDX-License-Identifier: Apache-2.0
#include "transport/signature.h"

#include <cstring>

#include "base/hash.h"

namespace regroup::transport {

uint64_t fingerprint(const Signature& signature) {
  uint64_t words[sizeof(Signature) / 8];
  std::memcpy(words, &signature, sizeof words);
  uint64_t state = base::mix(words[0], words[1]);
  state = base::mix(state, words[2]);
  state = base::mix(state, words[3] ^ base::mix(words[4], 1));
  return state | 1;
}

std::string to_string(const Signature& signature) {
  std::string text(name(signature.collective));
  if (signature.collective == Collective::barrier) return text;
  const char* atomic = signature.flags & Signature::kAtomic ? ", atomic" : "";
  if (signature.collective == Collective::batch)
    return text + " of " + std::to_string(signature.count) + " operations" + atomic;
  text += " of ";
  if (signature.count > 0) text += std::to_string(signature.count) + ' ';
  text += name(signature.type);
  if (reduces(signature.collective)) text += " by " + std::string(name(signature.op));
  if (has_root(signature.collective)) text += " with root " + std::to_string(signature.root);
  if (signature.flags & Signature::kReproducible) text += ", reproducible";
  return text + atomic;
}

}  // namespace regroup::transport
