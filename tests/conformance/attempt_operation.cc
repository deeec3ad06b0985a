// SPDX-License-Identifier: Apache-2.0
// The operation of a case, through the call that a user would write for it.
#include "conformance/attempt.h"

namespace regroup::conformance {

Buffer Attempt::whole(const Parts& parts) const {
  uint64_t count = 0;
  for (const Part& part : parts) count += part.count;
  return Buffer(parts.empty() ? nullptr : parts.front().data, case_.type, count);
}

std::vector<Buffer> Attempt::list(const Parts& parts) const {
  std::vector<Buffer> buffers;
  for (const Part& part : parts) buffers.emplace_back(part.data, case_.type, part.count);
  return buffers;
}

Operation Attempt::operation(const CallOptions& options) const {
  switch (case_.collective) {
    case Collective::barrier:
      return barrier(options);
    case Collective::gather:
    case Collective::all_gather:
      return gathering(options);
    case Collective::scatter:
    case Collective::reduce_scatter:
      return scattering(options);
    case Collective::all_to_all:
      return exchanging(options);
    default:
      return unparted(options);
  }
}

Operation Attempt::unparted(const CallOptions& options) const {
  const Buffer input = whole(inputs_), output = whole(outputs_);
  switch (case_.collective) {
    case Collective::broadcast:
      return in_place_ ? broadcast(in_place(output), root_, options)
                       : broadcast(from(input), into(output), root_, options);
    case Collective::all_reduce:
      return in_place_ ? all_reduce(in_place(output), op_, options)
                       : all_reduce(from(input), into(output), op_, options);
    default:
      if (in_place_) return reduce(in_place(input), op_, root_, options);
      return outputs_.empty() ? reduce(from(input), op_, root_, options)
                              : reduce(from(input), into(output), op_, root_, options);
  }
}

Operation Attempt::gathering(const CallOptions& options) const {
  const Counts counts = part_counts(case_);
  const From input = from(whole(inputs_));
  const Buffer output = whole(outputs_);
  if (case_.collective == Collective::all_gather) {
    if (form_ == Form::counts) {
      return in_place_ ? all_gather(in_place(output), counts, options)
                       : all_gather(input, into(output), counts, options);
    }
    if (form_ == Form::list) {
      const std::vector<Buffer> buffers = list(outputs_);
      return in_place_ ? all_gather(in_place(buffers), options) : all_gather(input, into(buffers), options);
    }
    return in_place_ ? all_gather(in_place(output), options) : all_gather(input, into(output), options);
  }
  if (outputs_.empty()) {
    return form_ == Form::counts ? gather(input, counts, root_, options) : gather(input, root_, options);
  }
  if (form_ == Form::counts) {
    return in_place_ ? gather(in_place(output), counts, root_, options)
                     : gather(input, into(output), counts, root_, options);
  }
  if (form_ == Form::list) {
    const std::vector<Buffer> buffers = list(outputs_);
    return in_place_ ? gather(in_place(buffers), root_, options) : gather(input, into(buffers), root_, options);
  }
  return in_place_ ? gather(in_place(output), root_, options) : gather(input, into(output), root_, options);
}

Operation Attempt::scattering(const CallOptions& options) const {
  const Counts counts = part_counts(case_);
  const Into output = into(whole(outputs_));
  const Buffer input = whole(inputs_);
  const std::vector<Buffer> buffers = list(inputs_);
  if (case_.collective == Collective::reduce_scatter) {
    if (form_ == Form::counts) {
      return in_place_ ? reduce_scatter(in_place(input), counts, op_, options)
                       : reduce_scatter(from(input), output, counts, op_, options);
    }
    if (form_ == Form::list) {
      return in_place_ ? reduce_scatter(in_place(buffers), op_, options)
                       : reduce_scatter(from(buffers), output, op_, options);
    }
    return in_place_ ? reduce_scatter(in_place(input), op_, options)
                     : reduce_scatter(from(input), output, op_, options);
  }
  if (inputs_.empty()) {
    return form_ == Form::counts ? scatter(output, counts, root_, options) : scatter(output, root_, options);
  }
  if (form_ == Form::counts) {
    return in_place_ ? scatter(in_place(input), counts, root_, options)
                     : scatter(from(input), output, counts, root_, options);
  }
  if (form_ == Form::list) {
    return in_place_ ? scatter(in_place(buffers), root_, options) : scatter(from(buffers), output, root_, options);
  }
  return in_place_ ? scatter(in_place(input), root_, options) : scatter(from(input), output, root_, options);
}

Operation Attempt::exchanging(const CallOptions& options) const {
  if (form_ == Form::list) {
    return in_place_ ? all_to_all(in_place(list(outputs_)), options)
                     : all_to_all(from(list(inputs_)), into(list(outputs_)), options);
  }
  const Buffer input = whole(inputs_), output = whole(outputs_);
  if (form_ == Form::counts) {
    return in_place_ ? all_to_all(in_place(output), output_counts_, options)
                     : all_to_all(from(input), into(output), input_counts_, output_counts_, options);
  }
  return in_place_ ? all_to_all(in_place(output), options) : all_to_all(from(input), into(output), options);
}

}  // namespace regroup::conformance
