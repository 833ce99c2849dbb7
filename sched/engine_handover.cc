// The part of an engine for clusters that separate prefill from decode.
#include <utility>

#include "core/check.h"
#include "sched/engine.h"

namespace twin {

// Its tokens so far have returned. A request that was preempted meanwhile has nothing to copy: its
// decoding replica computes all of it.
void Engine::HandOver(Sequence& s) {
  Handover handover{.request = s.id, .known = s.known, .tokens = 0, .keys = s.keys};
  if (s.state == SequenceState::kRunning && s.computed == s.known - 1) {
    handover.tokens = s.computed;
    BlockTable& hold = held_.OpenInAnyOrder(s.id);
    hold = BlockTable{};
    pool_.Share(s.blocks, hold);
  }
  handovers_.push_back(std::move(handover));
}

void Engine::Receive(const Request& request, const Handover& handover) {
  CHECK(traits_.receives_kv);
  receives_ = true;
  EndRun();
  // They come from several replicas, in any order.
  Sequence& s = sequences_.OpenInAnyOrder(request.id);
  SetUp(s, request, handover.keys);
  ++census_.waiting;
  s.known = handover.known;
  // First come, first served is the order of the arrivals here, not that of the requests.
  s.admitted_once = true;
  if (handover.tokens > 0) {
    s.remote = RemoteKv::kElsewhere;
    s.remote_tokens = handover.tokens;
  }
  policy_->Enqueue(s);
}

std::span<const BlockId> Engine::HeldBlocks(RequestId id) const {
  if (!held_.contains(id)) return {};
  return held_[id].device;
}

std::span<const BlockId> Engine::TakenBlocks(RequestId id) const {
  return sequences_[id].blocks.device;
}

void Engine::ReleaseHeld(RequestId id) {
  EndRun();
  pool_.Release(held_[id]);
  held_.Close(id);
}

void Engine::OnTransferFinished(const TransferFinished& finished) {
  if (finished.from == replica_) {
    ReleaseHeld(finished.request);
    return;
  }
  CHECK(finished.to == replica_);
  EndRun();
  Sequence& s = sequences_[finished.request];
  CHECK(s.remote == RemoteKv::kArriving && s.in_flight > 0);
  --s.in_flight;
  --census_.arriving;
  s.remote = RemoteKv::kArrived;
  s.computed = s.remote_tokens;
  if (s.state != SequenceState::kFinished) return;
  // It was cancelled while its blocks were being filled.
  if (!traits_.defers_release) ReleaseBlocks(s);
  CloseIfDone(s);
}

}  // namespace twin
