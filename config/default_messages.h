// What every message of an experiment holds where a file says nothing.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// The default config of each message, written through its binding, by the message's full name.
// Fields that are not set have no default of their own.
std::map<std::string, std::unique_ptr<google::protobuf::Message>> DefaultMessages();

}  // namespace twin
