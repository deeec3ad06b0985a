// SPDX-License-Identifier: Apache-2.0
// A request as a module takes it: counts, segments, and one buffer where the module wants one and the caller gave many.
#pragma once

#include <vector>

#include "backend/request.h"
#include "module/module.h"

namespace regroup::backend::native {

// Made anew for each operation; keeps the memory that it grew to. The request, and its memory, outlive the operation.
class LibraryCall {
 public:
  const regroup_call& make(const Request& request, const module::Module::Service& service, Rank size);
  // After the operation has ended well: what arrived in one buffer goes to the caller's.
  void unpack();

 private:
  void lay_out(const transport::SpaceMemory& memory, std::vector<regroup_segment>* segments, uint8_t* adjoin);
  bool needs_packing(const std::vector<regroup_segment>& segments, uint8_t adjoin) const;
  void pack(std::vector<regroup_segment>* segments, std::vector<std::byte>* into, bool copies);

  regroup_call call_{};
  bool takes_lists_ = false;
  std::vector<regroup_segment> inputs_, outputs_;
  std::vector<uint64_t> counts_, receive_counts_;
  std::vector<std::byte> packed_input_, packed_output_;
  std::vector<regroup_segment> scattered_;  // where packed outputs belong
};

}  // namespace regroup::backend::native
