// One `path=value` of the command line, applied to a config message.
#pragma once

#include <string_view>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// `assignment` is PATH=VALUE or PATH+=VALUE.
//
// PATH    field names separated by dots; an element of a repeated field is `name[i]`, from 0.
//         Messages on the way are made as needed; naming a member of a oneof selects it.
// VALUE   what text format has behind the field's name. Strings may do without quotes. A message
//         is `{ fields }`, `fields` without braces, or the bare name of one of its message fields
//         (`policy=orca` is `policy { orca {} }`).
// =       replaces the field: a message or a repeated field (`[a, b]`, or one element) in whole.
//         `name[i]=` replaces one element; i = their number appends.
// +=      appends to a repeated field.
//
// Throws InputError(kUsage), naming the assignment, what is wrong and what is allowed.
void ApplyOverride(std::string_view assignment, google::protobuf::Message& message);

}  // namespace twin
