// Default values of every message of an experiment.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// The default config of each message type, as a message, by the type's full name. A field that is
// not set has no default of its own.
std::map<std::string, std::unique_ptr<google::protobuf::Message>> DefaultMessages();

}  // namespace twin
