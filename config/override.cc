#include "config/override.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/names.h"
#include "config/overlay.h"
#include "config/text_message.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Segment {
  std::string name;
  std::optional<int> index;
};

struct Assignment {
  std::string said;  // the option, for errors
  std::vector<Segment> path;
  bool clears = false;   // --unset
  bool appends = false;  // +=
  std::string value;
  const Descriptor* root = nullptr;  // of the message that is changed
};

[[noreturn]] void Refuse(const Assignment& assignment, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, assignment.said, what);
}

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

Segment SplitSegment(const Assignment& assignment, std::string_view text) {
  const std::size_t bracket = text.find('[');
  Segment segment{Trimmed(text.substr(0, bracket)), std::nullopt};
  if (bracket == std::string_view::npos) return segment;
  const std::string_view number = text.substr(bracket + 1);
  int index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool closed =
      error == std::errc{} && index >= 0 && number.data() + number.size() - end == 1;
  if (!closed || *end != ']') {
    Refuse(assignment, "an element is written name[i], with i counted from 0");
  }
  segment.index = index;
  return segment;
}

void SplitPath(std::string_view path, Assignment& assignment) {
  for (;;) {
    const std::size_t dot = path.find('.');
    assignment.path.push_back(SplitSegment(assignment, path.substr(0, dot)));
    if (dot == std::string_view::npos) return;
    path.remove_prefix(dot + 1);
  }
}

Assignment Split(std::string_view text) {
  Assignment assignment;
  if (text.starts_with('!')) {
    text.remove_prefix(1);
    assignment.said = fmt::format("--unset {}", Printable(text, kMessageBytesMax));
    assignment.clears = true;
    if (text.find('=') != std::string_view::npos) {
      Refuse(assignment, "has a value; allowed: path.to.field, or --set path.to.field=value");
    }
    SplitPath(text, assignment);
    return assignment;
  }
  assignment.said = fmt::format("--set {}", Printable(text, kMessageBytesMax));
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    Refuse(assignment, "is no assignment; allowed: path.to.field=value or path.to.list+=value");
  }
  assignment.appends = text[equals - 1] == '+';
  assignment.value = Trimmed(text.substr(equals + 1));
  SplitPath(text.substr(0, equals - (assignment.appends ? 1 : 0)), assignment);
  return assignment;
}

const FieldDescriptor& FindField(const Assignment& assignment, const Descriptor& type,
                                 const std::string& name) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (!field) Refuse(assignment, DescribeUnknownField(name, type, *assignment.root));
  return *field;
}

// Refuses a path through a member of a oneof while another member is set: the change would drop all
// fields of the set member. `depth`: position of the member in the path.
void RequireChosen(const Assignment& assignment, const Message& parent,
                   const FieldDescriptor& field, std::size_t depth) {
  const FieldDescriptor* const set = OtherMember(parent, field);
  if (set == nullptr) return;
  std::string path;
  for (std::size_t i = 0; i < depth; ++i) {
    const Segment& segment = assignment.path[i];
    path = FieldPath(path, segment.name);
    if (segment.index) path += fmt::format("[{}]", *segment.index);
  }
  Refuse(
      assignment,
      fmt::format("{} is {}, not {}; allowed: {}, or --set '{}={{ ... }}', which replaces {}",
                  path.empty() ? parent.GetDescriptor()->name() : path, set->name(), field.name(),
                  FieldPath(path, set->name()), FieldPath(path, field.name()), set->name()));
}

// The message that segment `depth` of the path names inside `parent`.
Message& Enter(const Assignment& assignment, Message& parent, std::size_t depth) {
  const Segment& segment = assignment.path[depth];
  const FieldDescriptor& field = FindField(assignment, *parent.GetDescriptor(), segment.name);
  const Reflection& reflection = *parent.GetReflection();
  if (!field.message_type()) {
    Refuse(assignment, segment.name + " has no fields; it takes " + DescribeAllowed(field));
  }
  RequireChosen(assignment, parent, field, depth);
  if (!field.is_repeated()) {
    if (segment.index) Refuse(assignment, segment.name + " is no list: it has no elements");
    return *reflection.MutableMessage(&parent, &field);
  }
  const int size = reflection.FieldSize(parent, &field);
  if (!segment.index || *segment.index >= size) {
    Refuse(assignment, segment.name + " is a list with " + std::to_string(size) +
                           " elements; name one that is there: " + segment.name + "[i]");
  }
  return *reflection.MutableRepeatedMessage(&parent, &field, *segment.index);
}

std::string Quoted(const std::string& raw) {
  std::string quoted = "\"";
  for (const char c : raw) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The fields of a message in text format, for all ways to write the value.
std::string MessageBody(const FieldDescriptor& field, const std::string& value) {
  const bool braced = value.size() >= 2 && value.front() == '{' && value.back() == '}';
  if (braced) return value.substr(1, value.size() - 2);
  const FieldDescriptor* member = field.message_type()->FindFieldByName(value);
  const bool bare_member = member && member->message_type() && !member->is_repeated();
  return bare_member ? value + " {}" : value;
}

// The field's name and `value` in text format.
std::string FieldText(const FieldDescriptor& field, const std::string& value, bool whole) {
  if (field.is_repeated() && whole && !value.empty() && value.front() == '[') {
    return field.name() + ": " + value;
  }
  if (field.message_type()) return field.name() + " {\n" + MessageBody(field, value) + "\n}";
  const bool quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  const bool raw = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !quoted;
  return field.name() + ": " + (raw ? Quoted(value) : value);
}

// A message of the parent's type in which only the assigned field is set.
std::unique_ptr<Message> ParseValue(const Assignment& assignment, const FieldDescriptor& field,
                                    const Message& parent, bool whole) {
  std::unique_ptr<Message> parsed(parent.New());
  ParseText(FieldText(field, assignment.value, whole), {assignment.said, false}, *parsed);
  std::vector<const FieldDescriptor*> set;
  parsed->GetReflection()->ListFields(*parsed, &set);
  const bool only_it = set.empty() || (set.size() == 1 && set[0] == &field);
  const bool missing = set.empty() && !field.is_repeated() && field.has_presence();
  const bool elements = whole || parsed->GetReflection()->FieldSize(*parsed, &field) == 1;
  if (!only_it || missing || !elements) {
    Refuse(assignment,
           "is more than one value; " + field.name() + " takes " + DescribeAllowed(field));
  }
  return parsed;
}

void ReplaceElement(const Assignment& assignment, const FieldDescriptor& field, int index,
                    Message& parent) {
  const Reflection& reflection = *parent.GetReflection();
  const int size = reflection.FieldSize(parent, &field);
  if (index > size) {
    Refuse(assignment, field.name() + " is a list with " + std::to_string(size) +
                           " elements; the next is [" + std::to_string(size) + "]");
  }
  parent.MergeFrom(*ParseValue(assignment, field, parent, false));
  if (index == size) return;
  reflection.SwapElements(&parent, &field, index, size);
  reflection.RemoveLast(&parent, &field);
}

void Assign(const Assignment& assignment, Message& parent) {
  const Segment& segment = assignment.path.back();
  const FieldDescriptor& field = FindField(assignment, *parent.GetDescriptor(), segment.name);
  if (!field.is_repeated() && (assignment.appends || segment.index)) {
    Refuse(assignment, segment.name + " is no list; write " + segment.name + "=value");
  }
  if (segment.index && assignment.appends) {
    Refuse(assignment, "an element cannot be appended to; write " + segment.name + "+=value");
  }
  if (segment.index) {
    ReplaceElement(assignment, field, *segment.index, parent);
    return;
  }
  const bool whole = !assignment.appends && field.is_repeated();
  const std::unique_ptr<Message> parsed =
      ParseValue(assignment, field, parent, whole || !field.is_repeated());
  if (!assignment.appends) parent.GetReflection()->ClearField(&parent, &field);
  parent.MergeFrom(*parsed);
}

// False if nothing is set from here on; the names are checked all the same.
bool IsSet(const Assignment& assignment, const Message& message) {
  const Descriptor* type = message.GetDescriptor();
  const Message* parent = &message;
  for (std::size_t i = 0; i < assignment.path.size(); ++i) {
    const FieldDescriptor& field = FindField(assignment, *type, assignment.path[i].name);
    const bool last = i + 1 == assignment.path.size();
    if (!last && !field.message_type()) {
      Refuse(assignment, fmt::format("{} has no fields", field.name()));
    }
    if (field.is_repeated()) return true;  // Enter() and Clear() check the index
    if (parent != nullptr) {
      const Reflection& reflection = *parent->GetReflection();
      if (!reflection.HasField(*parent, &field)) {
        parent = nullptr;
      } else if (!last) {
        parent = &reflection.GetMessage(*parent, &field);
      }
    }
    type = field.message_type();
  }
  return parent != nullptr;
}

void Clear(const Assignment& assignment, Message& parent) {
  const Segment& segment = assignment.path.back();
  const FieldDescriptor& field = FindField(assignment, *parent.GetDescriptor(), segment.name);
  const Reflection& reflection = *parent.GetReflection();
  if (!segment.index) {
    reflection.ClearField(&parent, &field);
    return;
  }
  if (!field.is_repeated()) {
    Refuse(assignment, fmt::format("{0} is no list; write {0}", segment.name));
  }
  const int size = reflection.FieldSize(parent, &field);
  if (*segment.index >= size) {
    Refuse(assignment, fmt::format("{} is a list with {} elements", segment.name, size));
  }
  for (int i = *segment.index; i + 1 < size; ++i)
    reflection.SwapElements(&parent, &field, i, i + 1);
  reflection.RemoveLast(&parent, &field);
}

// The list at position `depth` of the path if the last part of the path is the name of one of its
// elements: a list of names with values, such as policy.own.parameters. Null for other fields.
const FieldDescriptor* NamedValuesAt(const Assignment& assignment, const Message& parent,
                                     std::size_t depth) {
  const Segment& segment = assignment.path[depth];
  const FieldDescriptor* const field = parent.GetDescriptor()->FindFieldByName(segment.name);
  const bool is_next_to_last = depth + 2 == assignment.path.size();
  if (field == nullptr || segment.index || !is_next_to_last || !field->is_repeated()) {
    return nullptr;
  }
  const Descriptor* const type = field->message_type();
  const bool has_both = type != nullptr && type->field_count() == 2 &&
                        type->FindFieldByName("name") != nullptr &&
                        type->FindFieldByName("value") != nullptr;
  return has_both ? field : nullptr;
}

// Sets the value of the element that the last part of the path names, adds it, or removes it.
void ChangeNamed(const Assignment& assignment, const FieldDescriptor& list, Message& parent) {
  const Segment& segment = assignment.path.back();
  if (segment.index || assignment.appends) {
    Refuse(assignment, fmt::format("{} is one value; write {}=value", segment.name, segment.name));
  }
  const FieldDescriptor& name = *list.message_type()->FindFieldByName("name");
  const FieldDescriptor& value = *list.message_type()->FindFieldByName("value");
  const Reflection& reflection = *parent.GetReflection();
  const int size = reflection.FieldSize(parent, &list);
  int place = 0;
  while (place < size) {
    const Message& element = reflection.GetRepeatedMessage(parent, &list, place);
    if (element.GetReflection()->GetString(element, &name) == segment.name) break;
    ++place;
  }
  if (assignment.clears) {
    for (int i = place; i + 1 < size; ++i) reflection.SwapElements(&parent, &list, i, i + 1);
    if (place < size) reflection.RemoveLast(&parent, &list);
    return;
  }
  Message& element = place < size ? *reflection.MutableRepeatedMessage(&parent, &list, place)
                                  : *reflection.AddMessage(&parent, &list);
  element.GetReflection()->SetString(&element, &name, segment.name);
  element.MergeFrom(*ParseValue(assignment, value, element, true));
}

}  // namespace

void ApplyOverride(std::string_view change, Message& message) {
  Assignment assignment = Split(change);
  assignment.root = message.GetDescriptor();
  if (assignment.clears && !IsSet(assignment, message)) return;
  Message* parent = &message;
  for (std::size_t i = 0; i + 1 < assignment.path.size(); ++i) {
    if (const FieldDescriptor* const list = NamedValuesAt(assignment, *parent, i)) {
      return ChangeNamed(assignment, *list, *parent);
    }
    parent = &Enter(assignment, *parent, i);
  }
  if (assignment.clears) {
    Clear(assignment, *parent);
  } else {
    Assign(assignment, *parent);
  }
}

bool IsSet(std::string_view path, const Message& message) {
  Assignment assignment = Split(fmt::format("!{}", path));
  assignment.root = message.GetDescriptor();
  return IsSet(assignment, message);
}

bool FieldTakesIntegers(std::string_view path, const Descriptor& root) {
  const Assignment assignment = Split(fmt::format("{}=", path));
  const Descriptor* type = &root;
  const FieldDescriptor* field = nullptr;
  for (const Segment& segment : assignment.path) {
    field = type != nullptr ? type->FindFieldByName(segment.name) : nullptr;
    if (field == nullptr) return false;
    type = field->message_type();
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return true;
    default:
      return false;
  }
}

}  // namespace twin
