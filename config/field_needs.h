// Finds fields that have no effect with the other fields, by the schema's option `needs`.
//
// A need is one or several conditions with " or " between them:
//
//   PATH            is set, and neither 0 nor false
//   !PATH           is unset, 0 or false
//   PATH=A|B        has one of these values, as text format writes them
//   PATH!=A|B       has none of them
//   PATH>NUMBER     is larger
//
// PATH starts at the message that holds the field, or, with a leading '/', at the experiment.
#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

struct UnmetNeed {
  std::string field;  // its path, as --set takes it
  std::string need;   // what must hold, with whole paths
};

// The fields that are set in `asked` and whose needs `resolved`, the same experiment with all
// defaults, does not meet. Leaves out fields below such a field, and fields whose message
// `resolved` does not have. CHECKs that needs name fields of the schema.
std::vector<UnmetNeed> UnmetNeeds(const google::protobuf::Message& asked,
                                  const google::protobuf::Message& resolved);

}  // namespace twin
