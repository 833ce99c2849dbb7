// Settings of a policy for the release's scheduler that decides in its place (policy.own.engine).
#pragma once

#include <string_view>

namespace twin::proto {
class OwnPolicy;
class Policy;
}  // namespace twin::proto

namespace twin {

// Adds the fields of policy.vllm_v1 that are set in `policy` to the parameters of the engine, which
// has them under the same names; parameters that are there stay. Parameters are refused where the
// engine has none of their name. Throws InputError (usage) for the settings of another policy, and
// for a release other than the engine's.
void GiveSettings(const proto::Policy& policy, proto::OwnPolicy& own);

// As GiveSettings, of the policy with which a server of the release starts: without its release,
// which the engine names, and without async_scheduling for a class, which decides that by itself.
void GiveServerSettings(const proto::Policy& policy, proto::OwnPolicy& own);

}  // namespace twin
