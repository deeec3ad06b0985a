// SPDX-License-Identifier: Apache-2.0
#include "group/arguments.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "reduce/reduce.h"

namespace regroup::group {

using backend::Request;
using transport::Segment;
using transport::SpaceMemory;

namespace {

constexpr uint32_t kMostTag = (1u << 31) - 1;
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

Status wrong(const Operation& operation, const std::string& text) {
  std::string label = operation.options.label.empty() ? "" : " \"" + operation.options.label + "\"";
  return Status(StatusCode::invalid_argument, std::string(name(operation.collective)) + label + ": " + text);
}

std::string number(uint64_t value) { return std::to_string(value); }

// One side of an operation, while it is being checked.
struct Side {
  const char* what;  // "input" or "output"
  bool present = false;
  bool list = false;
  DataType type = DataType::uint8;
  uint64_t total = 0;             // elements
  std::byte* base = nullptr;      // one buffer
  std::vector<Segment> segments;  // a list, in bytes
  std::vector<uint64_t> counts;   // a list, in elements
};

class Checker {
 public:
  Checker(const Operation& operation, const ArgumentContext& context, Request* request)
      : operation_(operation), context_(context), request_(*request) {}

  Status run() {
    if (Status status = common(); !status.ok()) return status;
    switch (operation_.collective) {
      case Collective::barrier:
        return Status();
      case Collective::broadcast:
        return broadcast();
      case Collective::all_reduce:
      case Collective::reduce:
        return vectors();
      case Collective::all_gather:
      case Collective::gather:
        return gathers();
      case Collective::reduce_scatter:
      case Collective::scatter:
        return scatters();
      case Collective::all_to_all:
        return all_to_all();
      case Collective::send:
      case Collective::receive:
      case Collective::receive_any:
        return pair();
      case Collective::batch:
        return batch();
    }
    return wrong(operation_, "no such collective");
  }

 private:
  bool at_root() const { return !has_root(operation_.collective) || operation_.peer == context_.rank; }

  Status common() {
    request_.collective = operation_.collective;
    request_.op = operation_.op;
    request_.root = operation_.peer;
    request_.tag = operation_.tag;
    request_.source = operation_.source;
    request_.in_place = operation_.in_place;
    request_.reproducible = operation_.options.reproducible;
    request_.atomic = operation_.options.atomic;
    request_.timeout = operation_.options.timeout.value_or(context_.timeout);
    request_.algorithm = operation_.options.algorithm;
    request_.label = operation_.options.label;
    request_.owner = operation_.owner;
    if (request_.timeout <= std::chrono::nanoseconds(0)) {
      return wrong(operation_, "the time-out is " + number(static_cast<uint64_t>(-request_.timeout.count())) +
                                   " ns below zero or zero; it must be positive");
    }
    const bool names_rank = has_root(operation_.collective) || operation_.collective == Collective::send ||
                            operation_.collective == Collective::receive;
    if (names_rank && operation_.peer >= context_.size) {
      return wrong(operation_, std::string(has_root(operation_.collective) ? "root" : "rank") + " is " +
                                   number(operation_.peer) + ", but the group has ranks 0 to " +
                                   number(context_.size - 1));
    }
    return Status();
  }

  template <typename B>
  Status check_buffer(const Side& side, const B& buffer) {
    const uint64_t width = size_of(buffer.type);
    if (width == 0) return wrong(operation_, std::string(side.what) + ": unknown data type");
    if (buffer.count > kMostBytes / width) {
      return wrong(operation_, std::string(side.what) + ": " + number(buffer.count) + " elements of " + number(width) +
                                   " bytes are more than any memory holds");
    }
    if (buffer.data == nullptr && buffer.count > 0) {
      return wrong(operation_,
                   std::string(side.what) + " is null, but is said to hold " + number(buffer.count) + " elements");
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(buffer.data);
    if (buffer.count * width > std::numeric_limits<uintptr_t>::max() - address) {
      return wrong(operation_, std::string(side.what) + " reaches past the end of the address space");
    }
    return Status();
  }

  template <typename Argument>
  Status open(const Argument& argument, Side* side) {
    side->present = !argument.absent();
    side->list = argument.is_list();
    if (!side->present) return Status();
    if (!side->list) {
      const auto& buffer = argument.one();
      if (Status status = check_buffer(*side, buffer); !status.ok()) return status;
      side->type = buffer.type;
      side->total = buffer.count;
      side->base = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(buffer.data)));
      return Status();
    }
    if (argument.list().size() != context_.size) {
      return wrong(operation_, std::string("the list of ") + side->what + "s has " + number(argument.list().size()) +
                                   " entries; it takes one a rank, " + number(context_.size));
    }
    side->segments.reserve(context_.size);
    side->counts.reserve(context_.size);
    bool first = true;
    for (const auto& buffer : argument.list()) {
      if (Status status = check_buffer(*side, buffer); !status.ok()) return status;
      if (first) side->type = buffer.type;
      first = false;
      if (buffer.type != side->type) {
        return wrong(operation_, std::string("the list of ") + side->what + "s mixes " + std::string(name(side->type)) +
                                     " and " + std::string(name(buffer.type)));
      }
      side->segments.push_back({static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(buffer.data))),
                                buffer.count * size_of(buffer.type)});
      side->counts.push_back(buffer.count);
      side->total += buffer.count;
    }
    return Status();
  }

  Status open_both(Side* input, Side* output) {
    if (Status status = open(operation_.inputs, input); !status.ok()) return status;
    if (Status status = open(operation_.outputs, output); !status.ok()) return status;
    if (operation_.in_place && input->present) return wrong(operation_, "in place and with an input of its own");
    if (input->present && output->present && input->type != output->type) {
      return wrong(operation_, "the input is of " + std::string(name(input->type)) + " and the output of " +
                                   std::string(name(output->type)));
    }
    request_.type = input->present ? input->type : output->type;
    if (!input->present && !output->present) return wrong(operation_, "neither an input nor an output is given");
    if (reduces(operation_.collective)) return check_op();
    return Status();
  }

  Status check_op() {
    if (reduction::supported(request_.type, operation_.op.kind)) return Status();
    return Status(StatusCode::unsupported, std::string(name(operation_.collective)) + ": " +
                                               std::string(name(operation_.op.kind)) + " is not defined for " +
                                               std::string(name(request_.type)));
  }

  uint64_t width() const { return size_of(request_.type); }

  SpaceMemory whole(const Side& side) const { return {side.base, side.total * width(), nullptr, 1}; }

  // `parts` parts of a side that has been opened; fills request's counts by `counts`.
  Status parts(Side& side, const Counts& given, std::vector<uint64_t>* counts, SpaceMemory* memory,
               std::vector<Segment>* list) {
    memory->parts = context_.size;
    if (side.list) {
      if (!given.empty() && given != side.counts) {
        return wrong(operation_, std::string("the counts differ from the sizes of the listed ") + side.what + "s");
      }
      *list = std::move(side.segments);
      memory->list = list->data();
      *counts = std::move(side.counts);
      return Status();
    }
    if (!given.empty()) {
      if (Status status = check_counts(given, side); !status.ok()) return status;
      *counts = given;
      std::byte* at = side.base;
      for (const uint64_t count : given) {
        list->push_back({at, count * width()});
        at += count * width();
      }
      memory->list = list->data();
      return Status();
    }
    if (side.total % context_.size != 0) {
      return wrong(operation_, std::string("the ") + side.what + " of " + number(side.total) +
                                   " elements cannot be cut into equal parts for " + number(context_.size) +
                                   " ranks; give counts or a list");
    }
    memory->base = side.base;
    memory->part_bytes = side.total / context_.size * width();
    request_.equal = true;
    return Status();
  }

  // The side that holds a part for each rank; at other ranks than the root, only their counts.
  Status parts_at_root(Side& side, SpaceMemory* memory, std::vector<Segment>* list) {
    if (at_root()) return parts(side, operation_.counts, &request_.counts, memory, list);
    request_.counts = operation_.counts;
    return request_.counts.empty() ? Status() : check_number(request_.counts);
  }

  Status check_number(const Counts& given) const {
    if (given.size() == context_.size) return Status();
    return wrong(operation_, number(given.size()) + " counts are given; it takes one a rank, " + number(context_.size));
  }

  Status check_counts(const Counts& given, const Side& side) {
    if (Status status = check_number(given); !status.ok()) return status;
    uint64_t sum = 0;
    for (const uint64_t count : given) {
      if (count > kMostBytes || sum + count > kMostBytes) return wrong(operation_, "the counts' sum overflows");
      sum += count;
    }
    if (sum != side.total) {
      return wrong(operation_, std::string("the counts add up to ") + number(sum) + ", but the " + side.what +
                                   " holds " + number(side.total) + " elements");
    }
    return Status();
  }

  // Whether two ranges of memory share bytes.
  static bool overlap(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) {
    const std::less<const std::byte*> before;
    return a_bytes > 0 && b_bytes > 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
  }

  // Inputs and outputs must not share memory (in place is a form of its own), nor outputs among each other.
  Status check_overlap() const {
    if (const SpaceMemory &in = request_.input, &out = request_.output; in.list == nullptr && out.list == nullptr) {
      const bool apart = request_.in_place || !overlap(in.base, in.total(), out.base, out.total());
      return apart ? Status() : share_memory();
    }
    std::vector<Segment> outputs, inputs;
    outputs.reserve(request_.output.parts);
    inputs.reserve(request_.input.parts);
    collect(request_.output, &outputs);
    // One buffer's parts lie apart.
    if (!request_.in_place || !request_.input_list.empty()) collect_reads(request_, &inputs);
    const std::less<const std::byte*> before;
    const auto by_address = [&before](const Segment& a, const Segment& b) { return before(a.data, b.data); };
    std::sort(outputs.begin(), outputs.end(), by_address);
    for (size_t i = 1; i < outputs.size(); ++i) {
      if (overlap(outputs[i - 1].data, outputs[i - 1].bytes, outputs[i].data, outputs[i].bytes)) {
        return wrong(operation_, "two output buffers overlap");
      }
    }
    for (const Segment& input : inputs) {
      // Sorted and apart from each other: of the outputs that begin before the input's end, the last one ends last.
      auto at = std::upper_bound(outputs.begin(), outputs.end(), Segment{input.data + input.bytes, 0}, by_address);
      if (at == outputs.begin()) continue;
      --at;
      if (overlap(at->data, at->bytes, input.data, input.bytes)) {
        return share_memory();
      }
    }
    return Status();
  }

  Status share_memory() const {
    return wrong(operation_, "input and output overlap; to work on one buffer, pass it as in_place");
  }

  // What is read and not written: in place, the input is the output, but for the parts that a reduce_scatter and a
  // scatter's root only read.
  void collect_reads(const Request& request, std::vector<Segment>* segments) const {
    if (!request.in_place || request.output.total() == 0) return collect(request.input, segments);
    if (request.collective != Collective::reduce_scatter && request.collective != Collective::scatter) return;
    for (Rank part = 0; part < context_.size; ++part) {
      if (part != context_.rank && request.input.bytes_of(part) > 0) segments->push_back(request.input.part(part));
    }
  }

  static void collect(const SpaceMemory& memory, std::vector<Segment>* segments) {
    if (memory.list == nullptr) {
      if (memory.total() > 0) segments->push_back({memory.base, memory.total()});
      return;
    }
    for (uint32_t part = 0; part < memory.parts; ++part) {
      if (memory.list[part].bytes > 0) segments->push_back(memory.list[part]);
    }
  }

  Status broadcast() {
    Side input{"input"}, output{"output"};
    if (Status status = open_both(&input, &output); !status.ok()) return status;
    if (input.list || output.list) return wrong(operation_, "takes one buffer, not a list");
    if (!output.present) return wrong(operation_, "needs an output on every rank");
    if (!operation_.in_place && at_root()) {
      if (!input.present) return wrong(operation_, "the root needs an input");
      if (input.total != output.total) return different(input, output);
    }
    request_.count = output.total;
    request_.output = whole(output);
    if (at_root()) request_.input = operation_.in_place ? request_.output : whole(input);
    return check_overlap();
  }

  Status different(const Side& input, const Side& output) const {
    return wrong(operation_,
                 "the input holds " + number(input.total) + " elements and the output " + number(output.total));
  }

  // reduce, all_reduce
  Status vectors() {
    Side input{"input"}, output{"output"};
    if (Status status = open_both(&input, &output); !status.ok()) return status;
    if (input.list || output.list) return wrong(operation_, "takes one buffer, not a list");
    if (!operation_.in_place && !input.present) return wrong(operation_, "needs an input on every rank");
    if (at_root() && !output.present) return wrong(operation_, "needs an output at the root");
    if (at_root() && input.present && input.total != output.total) return different(input, output);
    const Side& given = operation_.in_place ? output : input;
    request_.count = given.total;
    request_.input = whole(given);
    if (at_root()) request_.output = whole(output);
    return check_overlap();
  }

  // gather, all_gather
  Status gathers() {
    Side input{"input"}, output{"output"};
    if (Status status = open_both(&input, &output); !status.ok()) return status;
    if (input.list) return wrong(operation_, "the input is one buffer, not a list");
    if (at_root() && !output.present) return wrong(operation_, "needs an output at the root");
    if (!at_root() && operation_.in_place)
      return wrong(operation_, "only the root can work in place; others pass an input");
    if (!operation_.in_place && !input.present) return wrong(operation_, "needs an input on every rank");
    request_.counts_known = operation_.collective == Collective::gather && !operation_.counts.empty();
    if (Status status = parts_at_root(output, &request_.output, &request_.output_list); !status.ok()) return status;
    return own_part(input, output, &request_.input, request_.output);
  }

  // scatter, reduce_scatter
  Status scatters() {
    Side input{"input"}, output{"output"};
    if (operation_.in_place) {
      // The one list or buffer that is given holds the inputs.
      if (Status status = open(operation_.outputs, &input); !status.ok()) return status;
      input.what = "buffer";
      if (!input.present) return wrong(operation_, "no buffer is given");
      request_.type = input.type;
      if (reduces(operation_.collective)) {
        if (Status status = check_op(); !status.ok()) return status;
      }
      if (!at_root()) return wrong(operation_, "only the root can work in place; others pass an output");
    } else {
      if (Status status = open_both(&input, &output); !status.ok()) return status;
    }
    if (output.list) return wrong(operation_, "the output is one buffer, not a list");
    if (at_root() && !input.present) return wrong(operation_, "needs inputs at the root");
    if (!operation_.in_place && !output.present) return wrong(operation_, "needs an output on every rank");
    request_.counts_known = operation_.collective == Collective::scatter && !operation_.counts.empty();
    if (Status status = parts_at_root(input, &request_.input, &request_.input_list); !status.ok()) return status;
    return own_part(output, input, &request_.output, request_.input);
  }

  // The side that is this rank's own part (`mine`), against the side that has all parts (`all`), where this rank has
  // it.
  Status own_part(const Side& mine, const Side& all, SpaceMemory* memory, const SpaceMemory& all_memory) {
    const bool has_all = at_root();
    const uint64_t expected = has_all                   ? all_memory.bytes_of(context_.rank) / width()
                              : request_.counts.empty() ? mine.total
                                                        : request_.counts[context_.rank];
    if (operation_.in_place) {
      const Segment part = all_memory.part(context_.rank);
      *memory = {part.data, part.bytes, nullptr, 1};
    } else {
      if (mine.total != expected) {
        return wrong(operation_, std::string("the ") + mine.what + " holds " + number(mine.total) +
                                     " elements, but this rank's part of the " + all.what +
                                     (has_all ? "" : " by the counts") + " has " + number(expected));
      }
      *memory = whole(mine);
    }
    request_.count = expected;
    // gather, scatter: whether parts are equal is no agreed fact; their counts are told to planners as they are.
    if (has_root(operation_.collective)) {
      if (has_all && request_.equal) request_.counts.assign(context_.size, expected);
      request_.equal = false;
      if (request_.counts.empty()) request_.counts.assign(context_.size, 0);
    }
    return check_overlap();
  }

  Status all_to_all() {
    Side input{"input"}, output{"output"};
    if (Status status = open_both(&input, &output); !status.ok()) return status;
    if (operation_.in_place) {
      if (Status status = parts(output, operation_.counts, &request_.counts, &request_.output, &request_.output_list);
          !status.ok()) {
        return status;
      }
      request_.input = request_.output;
      request_.receive_counts = request_.counts;
    } else {
      if (!input.present || !output.present) return wrong(operation_, "needs inputs and outputs on every rank");
      if (operation_.counts.empty() != operation_.receive_counts.empty()) {
        return wrong(operation_, "counts are given for one side only");
      }
      if (Status status = parts(input, operation_.counts, &request_.counts, &request_.input, &request_.input_list);
          !status.ok()) {
        return status;
      }
      const bool input_equal = std::exchange(request_.equal, false);
      if (Status status = parts(output, operation_.receive_counts, &request_.receive_counts, &request_.output,
                                &request_.output_list);
          !status.ok()) {
        return status;
      }
      const bool output_equal = std::exchange(request_.equal, false);
      if (input_equal && output_equal) {
        if (input.total != output.total) return different(input, output);
        request_.equal = true;
      } else if (input_equal || output_equal) {
        (input_equal ? request_.counts : request_.receive_counts)
            .assign(context_.size, (input_equal ? input.total : output.total) / context_.size);
      }
      const uint64_t kept = request_.input.bytes_of(context_.rank), own = request_.output.bytes_of(context_.rank);
      if (kept != own) {
        return wrong(operation_, "the part for this rank itself holds " + number(kept / width()) +
                                     " elements in the input and " + number(own / width()) + " in the output");
      }
    }
    if (request_.equal) request_.count = (operation_.in_place ? output.total : input.total) / context_.size;
    return check_overlap();
  }

  Status pair() {
    if (request_.atomic) return never_atomic(operation_);
    const bool sends = operation_.collective == Collective::send;
    Side side{sends ? "input" : "output"};
    if (Status status = sends ? open(operation_.inputs, &side) : open(operation_.outputs, &side); !status.ok())
      return status;
    if (!side.present) return wrong(operation_, "no buffer is given");
    if (side.list) return wrong(operation_, "takes one buffer, not a list");
    if (operation_.tag > kMostTag) {
      return wrong(operation_, "the tag is " + number(operation_.tag) + "; it takes 0 to " + number(kMostTag));
    }
    request_.type = side.type;
    request_.count = side.total;
    (sends ? request_.input : request_.output) = whole(side);
    return Status();
  }

  Status batch() {
    if (operation_.members.size() > 32767) {
      return wrong(operation_, number(operation_.members.size()) + " members are given; it takes at most 32767");
    }
    for (size_t i = 0; i < operation_.members.size(); ++i) {
      const Operation& member = operation_.members[i];
      if (member.collective == Collective::batch)
        return wrong(operation_, "member " + number(i) + " is a batch itself");
      Request request;
      if (Status status = check_arguments(member, context_, &request); !status.ok()) {
        return Status(status.code(), "member " + number(i) + " of the batch: " + status.message());
      }
      if (request_.atomic && point_to_point(member.collective)) return never_atomic(member);
      // The batch's options count, not the members'.
      request.algorithm.clear();
      request.reproducible = request_.reproducible;
      request.atomic = request_.atomic;
      request_.members.push_back(std::move(request));
    }
    return check_overlap_of_members();
  }

  static Status never_atomic(const Operation& operation) {
    return Status(StatusCode::unsupported,
                  std::string(name(operation.collective)) + ": only collectives can be atomic: two ranks are no group");
  }

  // Members run at once: what one writes, no other may read or write. Reads may share.
  Status check_overlap_of_members() const {
    struct Use {
      Segment memory;
      size_t member;
      bool writes;
    };
    std::vector<Use> uses;
    std::vector<Segment> segments;
    const auto add = [&](size_t member, bool writes) {
      for (const Segment& segment : segments) uses.push_back({segment, member, writes});
      segments.clear();
    };
    for (size_t i = 0; i < request_.members.size(); ++i) {
      collect(request_.members[i].output, &segments);
      add(i, true);
      collect_reads(request_.members[i], &segments);
      add(i, false);
    }
    const std::less<const std::byte*> before;
    std::sort(uses.begin(), uses.end(),
              [&](const Use& a, const Use& b) { return before(a.memory.data, b.memory.data); });
    const Use *last_write = nullptr, *last_use = nullptr;  // those so far that end last
    const auto ends_later = [&](const Use& a, const Use* b) {
      return b == nullptr || before(b->memory.data + b->memory.bytes, a.memory.data + a.memory.bytes);
    };
    for (const Use& use : uses) {
      const Use* earlier = use.writes ? last_use : last_write;
      if (earlier != nullptr &&
          overlap(earlier->memory.data, earlier->memory.bytes, use.memory.data, use.memory.bytes)) {
        return wrong(operation_, "members " + number(std::min(earlier->member, use.member)) + " and " +
                                     number(std::max(earlier->member, use.member)) +
                                     " use memory that overlaps and that one of them writes; they run at once");
      }
      if (ends_later(use, last_use)) last_use = &use;
      if (use.writes && ends_later(use, last_write)) last_write = &use;
    }
    return Status();
  }

  const Operation& operation_;
  const ArgumentContext& context_;
  Request& request_;
};

}  // namespace

Status check_arguments(const Operation& operation, const ArgumentContext& context, Request* request) {
  return Checker(operation, context, request).run();
}

}  // namespace regroup::group
