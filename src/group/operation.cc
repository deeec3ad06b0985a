// SPDX-License-Identifier: Apache-2.0
// The makers of operations. They only put arguments together; src/group/arguments.cc looks at them.
#include "regroup/operation.h"

namespace regroup {

namespace {

Operation make(Collective collective, CallOptions options) {
  Operation operation;
  operation.collective = collective;
  operation.options = std::move(options);
  return operation;
}

Operation with(Operation operation, From inputs, Into outputs) {
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  return operation;
}

Operation with(Operation operation, InPlace buffers) {
  operation.outputs = buffers.absent() ? Into() : buffers.is_list() ? Into(buffers.list()) : Into(buffers.one());
  operation.in_place = true;
  return operation;
}

Operation rooted(Operation operation, Rank root) {
  operation.peer = root;
  return operation;
}

Operation reducing(Operation operation, ReduceOp op) {
  operation.op = op;
  return operation;
}

Operation counted(Operation operation, Counts counts, Counts receive_counts = {}) {
  operation.counts = std::move(counts);
  operation.receive_counts = std::move(receive_counts);
  return operation;
}

}  // namespace

Operation barrier(CallOptions options) { return make(Collective::barrier, std::move(options)); }

Operation broadcast(InPlace buffer, Rank root, CallOptions options) {
  return rooted(with(make(Collective::broadcast, std::move(options)), std::move(buffer)), root);
}
Operation broadcast(From input, Into output, Rank root, CallOptions options) {
  return rooted(with(make(Collective::broadcast, std::move(options)), std::move(input), std::move(output)), root);
}

Operation all_reduce(InPlace buffer, ReduceOp op, CallOptions options) {
  return reducing(with(make(Collective::all_reduce, std::move(options)), std::move(buffer)), op);
}
Operation all_reduce(From input, Into output, ReduceOp op, CallOptions options) {
  return reducing(with(make(Collective::all_reduce, std::move(options)), std::move(input), std::move(output)), op);
}

Operation reduce(InPlace buffer, ReduceOp op, Rank root, CallOptions options) {
  return rooted(reducing(with(make(Collective::reduce, std::move(options)), std::move(buffer)), op), root);
}
Operation reduce(From input, Into output, ReduceOp op, Rank root, CallOptions options) {
  return rooted(reducing(with(make(Collective::reduce, std::move(options)), std::move(input), std::move(output)), op),
                root);
}
Operation reduce(From input, ReduceOp op, Rank root, CallOptions options) {
  return regroup::reduce(std::move(input), Into(), op, root, std::move(options));
}

Operation all_gather(From input, Into outputs, CallOptions options) {
  return with(make(Collective::all_gather, std::move(options)), std::move(input), std::move(outputs));
}
Operation all_gather(From input, Into output, Counts counts, CallOptions options) {
  return counted(regroup::all_gather(std::move(input), std::move(output), std::move(options)), std::move(counts));
}
Operation all_gather(InPlace outputs, CallOptions options) {
  return with(make(Collective::all_gather, std::move(options)), std::move(outputs));
}
Operation all_gather(InPlace output, Counts counts, CallOptions options) {
  return counted(regroup::all_gather(std::move(output), std::move(options)), std::move(counts));
}

Operation gather(From input, Into outputs, Rank root, CallOptions options) {
  return rooted(with(make(Collective::gather, std::move(options)), std::move(input), std::move(outputs)), root);
}
Operation gather(From input, Into output, Counts counts, Rank root, CallOptions options) {
  return counted(regroup::gather(std::move(input), std::move(output), root, std::move(options)), std::move(counts));
}
Operation gather(From input, Rank root, CallOptions options) {
  return regroup::gather(std::move(input), Into(), root, std::move(options));
}
Operation gather(From input, Counts counts, Rank root, CallOptions options) {
  return regroup::gather(std::move(input), Into(), std::move(counts), root, std::move(options));
}
Operation gather(InPlace outputs, Rank root, CallOptions options) {
  return rooted(with(make(Collective::gather, std::move(options)), std::move(outputs)), root);
}
Operation gather(InPlace output, Counts counts, Rank root, CallOptions options) {
  return counted(regroup::gather(std::move(output), root, std::move(options)), std::move(counts));
}

Operation scatter(From inputs, Into output, Rank root, CallOptions options) {
  return rooted(with(make(Collective::scatter, std::move(options)), std::move(inputs), std::move(output)), root);
}
Operation scatter(From input, Into output, Counts counts, Rank root, CallOptions options) {
  return counted(regroup::scatter(std::move(input), std::move(output), root, std::move(options)), std::move(counts));
}
Operation scatter(Into output, Rank root, CallOptions options) {
  return regroup::scatter(From(), std::move(output), root, std::move(options));
}
Operation scatter(Into output, Counts counts, Rank root, CallOptions options) {
  return regroup::scatter(From(), std::move(output), std::move(counts), root, std::move(options));
}
Operation scatter(InPlace inputs, Rank root, CallOptions options) {
  return rooted(with(make(Collective::scatter, std::move(options)), std::move(inputs)), root);
}
Operation scatter(InPlace input, Counts counts, Rank root, CallOptions options) {
  return counted(regroup::scatter(std::move(input), root, std::move(options)), std::move(counts));
}

Operation reduce_scatter(From inputs, Into output, ReduceOp op, CallOptions options) {
  return reducing(with(make(Collective::reduce_scatter, std::move(options)), std::move(inputs), std::move(output)), op);
}
Operation reduce_scatter(From input, Into output, Counts counts, ReduceOp op, CallOptions options) {
  return counted(regroup::reduce_scatter(std::move(input), std::move(output), op, std::move(options)),
                 std::move(counts));
}
Operation reduce_scatter(InPlace inputs, ReduceOp op, CallOptions options) {
  return reducing(with(make(Collective::reduce_scatter, std::move(options)), std::move(inputs)), op);
}
Operation reduce_scatter(InPlace input, Counts counts, ReduceOp op, CallOptions options) {
  return counted(regroup::reduce_scatter(std::move(input), op, std::move(options)), std::move(counts));
}

Operation all_to_all(From inputs, Into outputs, CallOptions options) {
  return with(make(Collective::all_to_all, std::move(options)), std::move(inputs), std::move(outputs));
}
Operation all_to_all(From input, Into output, Counts send_counts, Counts receive_counts, CallOptions options) {
  return counted(regroup::all_to_all(std::move(input), std::move(output), std::move(options)), std::move(send_counts),
                 std::move(receive_counts));
}
Operation all_to_all(InPlace buffers, CallOptions options) {
  return with(make(Collective::all_to_all, std::move(options)), std::move(buffers));
}
Operation all_to_all(InPlace buffer, Counts counts, CallOptions options) {
  Operation operation = regroup::all_to_all(std::move(buffer), std::move(options));
  operation.receive_counts = counts;
  return counted(std::move(operation), counts, counts);
}

Operation send(From buffer, Rank to, uint32_t tag, CallOptions options) {
  Operation operation = rooted(make(Collective::send, std::move(options)), to);
  operation.inputs = std::move(buffer);
  operation.tag = tag;
  return operation;
}
Operation receive(Into buffer, Rank from, uint32_t tag, CallOptions options) {
  Operation operation = rooted(make(Collective::receive, std::move(options)), from);
  operation.outputs = std::move(buffer);
  operation.tag = tag;
  return operation;
}
Operation receive_any(Into buffer, Rank* source, uint32_t tag, CallOptions options) {
  Operation operation = make(Collective::receive_any, std::move(options));
  operation.outputs = std::move(buffer);
  operation.source = source;
  operation.tag = tag;
  return operation;
}

Operation batch(std::vector<Operation> members, CallOptions options) {
  Operation operation = make(Collective::batch, std::move(options));
  operation.members = std::move(members);
  return operation;
}

}  // namespace regroup
