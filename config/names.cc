#include "config/names.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/nearest_names.h"
#include "core/printable.h"

namespace twin {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!type.field(i)->options().deprecated()) names.push_back(type.field(i)->name());
  }
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor& value = *type.value(i);
    // The first name of a number is the current name, later ones are former names.
    if (type.FindValueByNumber(value.number()) == &value) names.push_back(value.name());
  }
  return names;
}

std::string Join(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined.empty() ? "nothing" : joined;
}

std::string Advice(std::string_view wrong, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string nearest = NearestNames(wrong, views);
  return "; nearest \"" + nearest.substr(0, nearest.find(',')) + "\"; allowed: " + Join(names);
}

// Finds the paths to fields called `name`, below a message.
class PathsTo {
 public:
  PathsTo(std::string_view name, const Descriptor& preferred)
      : name_(name), preferred_(preferred) {}

  // Leaves out a message inside a message of its own type.
  void Collect(const Descriptor& type, const std::string& path, bool below) {
    if (std::ranges::count(open_, &type) > 0) return;
    open_.push_back(&type);
    below = below || &type == &preferred_;
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (field.options().deprecated()) continue;
      const std::string here = FieldPath(path, field.name());
      if (field.name() == name_) (below ? near_ : far_).push_back(here);
      if (field.message_type()) {
        Collect(*field.message_type(), here + (field.is_repeated() ? "[0]" : ""), below);
      }
    }
    open_.pop_back();
  }

  // Paths below the preferred message if there are any, else all; the shortest first.
  [[nodiscard]] std::vector<std::string> Best(std::size_t count_max) && {
    std::vector<std::string>& paths = near_.empty() ? far_ : near_;
    std::ranges::stable_sort(paths, {},
                             [](const std::string& path) { return std::ranges::count(path, '.'); });
    if (paths.size() > count_max) paths.resize(count_max);
    return std::move(paths);
  }

 private:
  std::string_view name_;
  const Descriptor& preferred_;
  std::vector<const Descriptor*> open_;  // from the first message to the one that is searched
  std::vector<std::string> near_;
  std::vector<std::string> far_;
};

}  // namespace

std::string FieldPath(std::string_view path, std::string_view name) {
  std::string joined(path);
  if (!joined.empty()) joined += '.';
  return joined.append(name);
}

std::string DescribeUnknownField(std::string_view wrong, const Descriptor& type,
                                 const Descriptor& root) {
  const std::string what = "no field \"" + Printable(wrong) + "\" in " + type.name();
  PathsTo paths(wrong, type);
  paths.Collect(root, "", false);
  const std::vector<std::string> elsewhere = std::move(paths).Best(3);
  if (elsewhere.empty()) return what + Advice(wrong, FieldNames(type));
  return what + "; there is " + Join(elsewhere) + "; allowed here: " + Join(FieldNames(type));
}

std::string DescribeUnknownValue(std::string_view wrong, const FieldDescriptor& field) {
  return "no value \"" + Printable(wrong) + "\"" + Advice(wrong, ValueNames(*field.enum_type()));
}

std::string DescribeAllowed(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return "an integer of 32 bits";
    case FieldDescriptor::CPPTYPE_UINT32:
      return "a non-negative integer of 32 bits";
    case FieldDescriptor::CPPTYPE_INT64:
      return "an integer of 64 bits";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a non-negative integer of 64 bits";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a quoted string";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "one of: " + Join(ValueNames(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "{ ... } with the fields " + Join(FieldNames(*field.message_type()));
  }
  return "";
}

}  // namespace twin
