// Changes to a config message from the command line: --set and --unset.
#pragma once

#include <string_view>

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace twin {

// `change` is PATH=VALUE or PATH+=VALUE, as given to --set, or !PATH, which stands for --unset
// PATH.
//
// PATH    field names separated by dots; an element of a repeated field is `name[i]`, from 0.
//         In a list of names with values (policy.own.parameters) a name stands for the value.
//         Assignments create messages along the path. A member of a oneof (policy.orca) with a
//         value replaces the member that is set; a path into a member while another is set is
//         refused.
// VALUE   what follows the field's name in text format. Strings need no quotes. A message
//         is `{ fields }`, `fields` without braces, or the bare name of one of its message fields
//         (`policy=orca` is `policy { orca {} }`).
// =       replaces the whole field, also a message or a repeated field (`[a, b]`, or one element).
//         `name[i]=` replaces one element; i = the number of elements appends.
// +=      appends to a repeated field.
// !PATH   clears the field, so that its default applies again, or removes one element of a repeated
//         field. A field that is not set stays so.
//
// Throws InputError(kUsage), naming the option, what is wrong and what is allowed.
void ApplyOverride(std::string_view change, google::protobuf::Message& message);

// Whether the field that PATH names is set. REQUIRES: PATH names a field.
bool IsSet(std::string_view path, const google::protobuf::Message& message);

// Whether PATH names a field, or an element of one, of whole numbers.
bool FieldTakesIntegers(std::string_view path, const google::protobuf::Descriptor& root);

}  // namespace twin
