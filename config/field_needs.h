// Fields that nothing reads with the other fields of an experiment, by the schema's option `needs`.
//
// A need is one or several conditions with " or " between them:
//
//   PATH            is set, and neither 0 nor false
//   !PATH           is not
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
// defaults, does not meet. Fields below such a field are left out, and so are those whose message
// `resolved` does not have. CHECKs that needs name fields of the schema.
std::vector<UnmetNeed> UnmetNeeds(const google::protobuf::Message& asked,
                                  const google::protobuf::Message& resolved);

}  // namespace twin
