// SPDX-License-Identifier: Apache-2.0
#include "backend/native/library_call.h"

#include <cstring>

namespace regroup::backend::native {

namespace {

std::vector<uint64_t> in_bytes(const std::vector<uint64_t>& counts, uint64_t width) {
  std::vector<uint64_t> bytes = counts;
  for (uint64_t& count : bytes) count *= width;
  return bytes;
}

}  // namespace

// One segment a part: a whole is one part.
void LibraryCall::lay_out(const transport::SpaceMemory& memory, std::vector<regroup_segment>* segments,
                          uint8_t* adjoin) {
  segments->clear();
  const std::byte* end = nullptr;
  *adjoin = 1;
  for (uint32_t part = 0; part < memory.parts; ++part) {
    const transport::Segment piece = memory.part(part);
    segments->push_back({piece.bytes > 0 ? piece.data : nullptr, piece.bytes});
    if (piece.bytes == 0) continue;
    if (end != nullptr && piece.data != end) *adjoin = 0;
    end = piece.data + piece.bytes;
  }
}

bool LibraryCall::needs_packing(const std::vector<regroup_segment>& segments, uint8_t adjoin) const {
  return !takes_lists_ && segments.size() > 1 && adjoin == 0;
}

// Lets the segments lie one after the other in `into`, and copies their bytes there where they are inputs.
void LibraryCall::pack(std::vector<regroup_segment>* segments, std::vector<std::byte>* into, bool copies) {
  uint64_t bytes = 0;
  for (const regroup_segment& segment : *segments) bytes += segment.bytes;
  if (into->size() < bytes) into->resize(bytes);
  std::byte* at = into->data();
  for (regroup_segment& segment : *segments) {
    if (segment.bytes == 0) continue;
    if (copies) std::memcpy(at, segment.data, segment.bytes);
    segment.data = at;
    at += segment.bytes;
  }
}

const regroup_call& LibraryCall::make(const Request& request, const module::Module::Service& service, Rank size) {
  takes_lists_ = service.takes_lists;
  call_ = regroup_call{};
  call_.collective = static_cast<uint32_t>(request.collective);
  call_.type = service.as_bytes ? uint32_t{REGROUP_UINT8} : static_cast<uint32_t>(request.type);
  call_.op = static_cast<uint32_t>(request.op.kind);
  call_.factor = request.op.factor;
  call_.root = request.root;
  call_.in_place = request.in_place ? 1 : 0;

  const uint64_t width = service.as_bytes ? size_of(request.type) : 1;
  call_.count = request.count * width;
  const bool root_alone_knows =
      (request.collective == Collective::gather || request.collective == Collective::scatter) && !request.counts_known;
  const bool is_root_side = request.input.parts == size || request.output.parts == size;
  counts_.clear();
  receive_counts_.clear();
  if (!request.equal && !request.counts.empty() && (!root_alone_knows || is_root_side)) {
    counts_ = in_bytes(request.counts, width);
    receive_counts_ = in_bytes(request.receive_counts, width);
    call_.counts = counts_.data();
    if (!receive_counts_.empty()) call_.receive_counts = receive_counts_.data();
  }

  lay_out(request.input, &inputs_, &call_.inputs_adjoin);
  lay_out(request.output, &outputs_, &call_.outputs_adjoin);
  scattered_.clear();
  const bool packs_inputs = needs_packing(inputs_, call_.inputs_adjoin);
  const bool packs_outputs = needs_packing(outputs_, call_.outputs_adjoin);
  if (packs_inputs) {
    pack(&inputs_, &packed_input_, true);
    call_.inputs_adjoin = 1;
    call_.in_place = 0;
  }
  if (packs_outputs) {
    scattered_ = outputs_;
    pack(&outputs_, &packed_output_, false);
    call_.outputs_adjoin = 1;
    call_.in_place = 0;
  }
  call_.inputs = inputs_.data();
  call_.input_segments = static_cast<uint32_t>(inputs_.size());
  call_.outputs = outputs_.data();
  call_.output_segments = static_cast<uint32_t>(outputs_.size());
  return call_;
}

void LibraryCall::unpack() {
  const std::byte* from = packed_output_.data();
  for (const regroup_segment& segment : scattered_) {
    if (segment.bytes > 0) std::memcpy(segment.data, from, segment.bytes);
    from += segment.bytes;
  }
}

}  // namespace regroup::backend::native
