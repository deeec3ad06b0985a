// SPDX-License-Identifier: Apache-2.0
// What a stranger's first program might be. It only shows that an installed regroup compiles, links and runs.
#include <regroup/status.h>
#include <regroup/store.h>
#include <regroup/types.h>

#include <iostream>

int main() {
  regroup::DataType type{};
  if (!regroup::parse("float16", &type)) return 1;
  const regroup::Status status(regroup::StatusCode::timeout, "rank 1 did not come", {1});
  std::cout << regroup::name(type) << ' ' << regroup::size_of(type) << ", " << status.to_string() << '\n';
  return regroup::size_of(type) == 2 && status.ranks().size() == 1 ? 0 : 1;
}
