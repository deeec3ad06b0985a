// SPDX-License-Identifier: Apache-2.0
#include "module/session.h"

#include <cstring>

namespace regroup::module {

namespace {

constexpr uint64_t kMostExchanged = 65536;  // bytes

std::string text_of(const regroup_module_error& error) {
  const std::string text(error.text, ::strnlen(error.text, sizeof error.text));
  return text.empty() ? "it gave no reason" : text;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const Module> module, Host host) {
  std::unique_ptr<Session> session(new Session(std::move(module), std::move(host)));
  regroup_module_host& services = session->services_;
  services.abi = REGROUP_MODULE_ABI;
  services.rank = session->host_.rank;
  services.size = session->host_.size;
  services.open_timeout_ns = static_cast<uint64_t>(session->host_.timeout.count());
  services.address = session->host_.address.c_str();
  services.context = session.get();
  services.exchange = &Session::exchange;
  services.wake = &Session::wake;
  regroup_module_error error{};
  if (session->module_->table().open(&services, &session->group_, &error) != REGROUP_DONE) {
    session->group_ = nullptr;
    return Status(StatusCode::unsupported,
                  "backend \"" + session->module_->name() + "\" cannot form this group: " + text_of(error));
  }
  return session;
}

Session::~Session() {
  if (group_ != nullptr) module_->table().close(group_, broken_ ? 1 : 0);
}

void Session::abort() {
  broken_ = true;
  module_->table().abort(group_);
}

Progress Session::outcome(int code, const regroup_module_error& error) {
  if (code == REGROUP_DONE) return Progress::done;
  if (code == REGROUP_PENDING) return Progress::pending;
  failure_ = text_of(error);
  return Progress::failed;
}

Progress Session::start(const regroup_call& call, void** operation) {
  regroup_module_error error{};
  return outcome(module_->table().start(group_, &call, operation, &error), error);
}

Progress Session::send(Rank peer, uint32_t tag, const void* data, uint64_t bytes, void** operation) {
  regroup_module_error error{};
  return outcome(module_->table().send(group_, peer, tag, data, bytes, operation, &error), error);
}

Progress Session::receive(Rank peer, uint32_t tag, void* data, uint64_t bytes, void** operation) {
  regroup_module_error error{};
  return outcome(module_->table().receive(group_, peer, tag, data, bytes, operation, &error), error);
}

Progress Session::test(void* operation) {
  regroup_module_error error{};
  return outcome(module_->table().test(group_, operation, &error), error);
}

bool Session::cancel(void* operation) { return module_->table().cancel(group_, operation) == 1; }

int Session::exchange(void* context, const void* mine, uint64_t bytes, void* all) {
  const Session& session = *static_cast<Session*>(context);
  return bytes <= kMostExchanged && session.host_.exchange(mine, bytes, all) ? REGROUP_DONE : REGROUP_FAILED;
}

void Session::wake(void* context) { static_cast<Session*>(context)->host_.wake(); }

}  // namespace regroup::module
